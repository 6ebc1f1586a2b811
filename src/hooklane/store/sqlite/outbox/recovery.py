"""How does a blocked lane get going again? Conditional updates: only what is dead can be replayed or skipped."""

from __future__ import annotations

import sqlite3

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.store.outbox import Recovery
from hooklane.store.sqlite.outbox import audit

_FIND = """
SELECT d.lane_id, d.endpoint_id, t.key, d.seq, coalesce(t.tail - d.seq, 0)
FROM hooklane_dead_letter d LEFT JOIN hooklane_lane_tail t USING (lane_id)
WHERE d.tenant = ? AND d.id = ? AND d.state = 'open'
"""
_REPLAY_LOOSE = """
UPDATE hooklane_loose SET state = 'queued', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
WHERE n = -:lane_id AND state = 'dead'
"""
_REPLAY_HEAD = """
UPDATE hooklane_lane SET state = 'active', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
WHERE lane_id = :lane_id AND state = 'blocked' AND head = :seq
"""
_SKIP_LOOSE = """
UPDATE hooklane_loose SET state = 'skipped', rev = rev + 1, since = :now WHERE n = -:lane_id AND state = 'dead'
"""
_SKIP_HEAD = """
UPDATE hooklane_lane SET head = head + 1, state = 'active', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1,
    since = :now
WHERE lane_id = :lane_id AND state = 'blocked' AND head = :seq
"""
_ADD_SKIPPED = """
INSERT INTO hooklane_skipped (lane_id, seq, upto, tenant, kind, note, actor, at)
VALUES (:lane_id, :seq, :seq, :tenant, 'skipped', :note, :actor, :now)
"""
_CLOSE = """
UPDATE hooklane_dead_letter SET state = :state, closed_at = :now, note = CASE :note WHEN '' THEN note ELSE :note END
WHERE id = :id
"""
_WAKE = "INSERT INTO hooklane_recovered (tenant, lane_id, at) VALUES (:tenant, :lane_id, :now)"


def replay(conn: sqlite3.Connection, tenant: str, letter: str, *, actor: str, now: Instant) -> Recovery | None:
    recovery = revive(conn, tenant, letter, now)
    if recovery is not None:
        audit.append(conn, act_of(tenant, letter, "replayed", "", actor, now))
    return recovery


def skip(conn: sqlite3.Connection, tenant: str, letter: str, *, note: str, actor: str, now: Instant) -> Recovery | None:
    recovery = give_up(conn, tenant, letter, note, actor, now)
    if recovery is not None:
        audit.append(conn, act_of(tenant, letter, "skipped", note, actor, now))
    return recovery


def give_up(conn: sqlite3.Connection, tenant: str, letter: str, note: str, actor: str, now: Instant) -> Recovery | None:
    """A skip whose record is somebody else's business."""
    return _recover(conn, tenant, letter, (_SKIP_HEAD, _SKIP_LOOSE), "skipped", note, actor, now)


def revive(conn: sqlite3.Connection, tenant: str, letter: str, now: Instant) -> Recovery | None:
    """A replay whose record is somebody else's business: that of the job it belongs to."""
    return _recover(conn, tenant, letter, (_REPLAY_HEAD, _REPLAY_LOOSE), "replayed", "", "", now)


def act_of(tenant: str, letter: str, what: str, note: str, actor: str, now: Instant) -> Act:
    return Act(tenant=tenant, at=now, actor=actor, action=f"dead_letter.{what}", subject=letter, note=note)


def _recover(
    conn: sqlite3.Connection,
    tenant: str,
    letter: str,
    update: tuple[str, str],
    state: str,
    note: str,
    actor: str,
    now: Instant,
) -> Recovery | None:
    """Move the head, put the letter away and wake the owner: all or nothing."""
    found = conn.execute(_FIND, (tenant, letter)).fetchone()
    if found is None:
        return None
    recovery = Recovery(*found)
    is_loose = recovery.lane_id < 0
    params = {
        "tenant": tenant,
        "id": letter,
        "lane_id": recovery.lane_id,
        "seq": recovery.seq,
        "state": state,
        "note": note,
        "actor": actor,
        "now": now,
    }
    if not conn.execute(update[is_loose], params).rowcount:
        return None  # it is not dead any more: somebody else was quicker
    if state == "skipped" and not is_loose:
        conn.execute(_ADD_SKIPPED, params)
    for statement in (_CLOSE, _WAKE):
        conn.execute(statement, params)
    return recovery
