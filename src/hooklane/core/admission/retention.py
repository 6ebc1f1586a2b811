"""How far back may the inbox forget? Retention is the window in which duplicates are known, not housekeeping."""

from __future__ import annotations

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import Heartbeat

RETENTION_MS_MIN = 7 * 86_400_000
RETENTION_MS = 30 * 86_400_000
TOMBSTONE_MS = 400 * 86_400_000
STILL_MS = 5 * 60_000
"""A heartbeat that is older than this means that the inbox lay still."""


def beat(last: Heartbeat | None, now: Instant, *, retention_ms: int) -> Heartbeat:
    """The heartbeat to store now. Time that the inbox lay still is added up while it matters to retention."""
    if last is None:
        return Heartbeat(now)
    down_ms, down_until = last.down_ms, last.down_until
    if now - down_until > retention_ms + down_ms:
        down_ms = 0
    still_ms = now - last.seen_at
    if still_ms > STILL_MS:
        down_ms, down_until = down_ms + still_ms, now
    return Heartbeat(Instant(max(now, last.seen_at)), down_ms, down_until)


def cutoff(heartbeat: Heartbeat, now: Instant, *, retention_ms: int, settle_ms: int) -> Instant | None:
    """Rows received before this may go; None when nothing may, because the inbox has just come back.

    After a downtime senders redeliver what they could not, so for *settle_ms* nothing is pruned at all, and the
    downtime does not count: a row lives through *retention_ms* of time in which its duplicates could arrive.
    """
    if heartbeat.down_until != START and now - heartbeat.down_until < settle_ms:
        return None
    return Instant(now - retention_ms - heartbeat.down_ms)
