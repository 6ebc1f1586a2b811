"""How far back may the inbox forget? Retention is the window in which duplicates are known, not housekeeping."""

from __future__ import annotations

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import Heartbeat

RETENTION_MS_MIN = 7 * 86_400_000
RETENTION_MS = 30 * 86_400_000
TOMBSTONE_MS = 400 * 86_400_000
STILL_MS = 5 * 60_000
"""A heartbeat that is older than this means that the inbox lay still, unless its process ran all the while."""
STILL_FUNCTION_MS = 86_400_000
"""The same where the platform starts a process for a request: it is silent as long as none comes."""


def beat(
    last: Heartbeat | None,
    now: Instant,
    *,
    retention_ms: int,
    up_since: Instant | None = None,
    still_ms: int = STILL_MS,
) -> Heartbeat:
    """The heartbeat to store now. Time that the inbox lay still is added up while it matters to retention.

    A process that beats only when something arrives says since when it could have received: *up_since*. What lies
    between was silence. Without it every gap of more than *still_ms* is downtime.
    """
    if last is None:
        return Heartbeat(now)
    down_ms, down_until = last.down_ms, last.down_until
    back_at = now if up_since is None else min(now, up_since)
    still = back_at - last.seen_at if back_at - last.seen_at > still_ms else 0
    # An earlier downtime is forgotten after the retention in uptime: the time that it lay still now is none.
    if now - still - down_until > retention_ms + down_ms:
        down_ms = 0
    if still:
        down_ms, down_until = down_ms + still, back_at
    return Heartbeat(Instant(max(now, last.seen_at)), down_ms, down_until)


def cutoff(heartbeat: Heartbeat, now: Instant, *, retention_ms: int, settle_ms: int) -> Instant | None:
    """Rows received before this may go; None when nothing may, because the inbox has just come back.

    After a downtime senders redeliver what they could not, so for *settle_ms* nothing is pruned at all, and the
    downtime does not count: a row lives through *retention_ms* of time in which its duplicates could arrive. Nor does
    the time since the last heartbeat: whether a process receives now is not known.
    """
    if heartbeat.down_until != START and now - heartbeat.down_until < settle_ms:
        return None
    return Instant(min(now, heartbeat.seen_at) - retention_ms - heartbeat.down_ms)
