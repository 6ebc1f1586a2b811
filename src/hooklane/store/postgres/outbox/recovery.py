"""How does a blocked lane get going again? Conditional updates: only what is dead can be replayed or skipped."""

from __future__ import annotations

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.outbox import Recovery
from hooklane.store.postgres.outbox import audit

_FIND = """
SELECT d.lane_id, d.endpoint_id, t.key, d.seq, coalesce(t.tail - d.seq, 0), coalesce(t.pid, o.pid)
FROM hooklane.dead_letter d LEFT JOIN hooklane.lane_tail t USING (lane_id)
LEFT JOIN hooklane.loose o ON o.n = -d.lane_id
WHERE d.tenant = :tenant AND d.id = :id AND d.state = 'open'
"""
_REPLAY_LOOSE = """
UPDATE hooklane.loose SET state = 'queued', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
WHERE n = -:lane_id::bigint AND state = 'dead' RETURNING 1
"""
_REPLAY_HEAD = """
UPDATE hooklane.lane SET state = 'active', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1, since = :now
WHERE lane_id = :lane_id AND state = 'blocked' AND head = :seq RETURNING 1
"""
_SKIP_LOOSE = """
UPDATE hooklane.loose SET state = 'skipped', rev = rev + 1, since = :now
WHERE n = -:lane_id::bigint AND state = 'dead' RETURNING 1
"""
_SKIP_HEAD = """
UPDATE hooklane.lane SET head = head + 1, state = 'active', attempts = 0, next_at = 0, reason = NULL, rev = rev + 1,
    since = :now
WHERE lane_id = :lane_id AND state = 'blocked' AND head = :seq RETURNING 1
"""
_ADD_SKIPPED = """
INSERT INTO hooklane.skipped (lane_id, seq, upto, tenant, kind, note, actor, at)
VALUES (:lane_id, :seq, :seq, :tenant, 'skipped', :note, :actor, :now)
"""
_CLOSE = """
UPDATE hooklane.dead_letter SET state = :state, closed_at = :now,
    note = CASE :note::text WHEN '' THEN note ELSE :note END
WHERE id = :id
"""
# A row that is polled: a notification could be missed.
_WAKE = "INSERT INTO hooklane.recovered (tenant, lane_id, pid) VALUES (:tenant, :lane_id, :pid)"


def replay(tenant: str, letter: str, *, actor: str, now: Instant) -> Flow[Recovery | None]:
    recovery = yield from revive(tenant, letter, now)
    if recovery is not None:
        yield from audit.append(act_of(tenant, letter, "replayed", "", actor, now))
    return recovery


def skip(tenant: str, letter: str, *, note: str, actor: str, now: Instant) -> Flow[Recovery | None]:
    recovery = yield from give_up(tenant, letter, note, actor, now)
    if recovery is not None:
        yield from audit.append(act_of(tenant, letter, "skipped", note, actor, now))
    return recovery


def revive(tenant: str, letter: str, now: Instant) -> Flow[Recovery | None]:
    """A replay whose record is somebody else's business: that of the job it belongs to."""
    return _recover(tenant, letter, (_REPLAY_HEAD, _REPLAY_LOOSE), "replayed", "", "", now)


def give_up(tenant: str, letter: str, note: str, actor: str, now: Instant) -> Flow[Recovery | None]:
    """A skip whose record is somebody else's business."""
    return _recover(tenant, letter, (_SKIP_HEAD, _SKIP_LOOSE), "skipped", note, actor, now)


def act_of(tenant: str, letter: str, what: str, note: str, actor: str, now: Instant) -> Act:
    return Act(tenant=tenant, at=now, actor=actor, action=f"dead_letter.{what}", subject=letter, note=note)


def _recover(
    tenant: str, letter: str, update: tuple[str, str], state: str, note: str, actor: str, now: Instant
) -> Flow[Recovery | None]:
    """Move the head, put the letter away and wake the owner: all or nothing."""
    found = yield Statement(_FIND, {"tenant": tenant, "id": letter})
    if not found:
        return None
    *fields, pid = found[0]
    recovery = Recovery(*fields)
    is_loose = recovery.lane_id < 0
    lane = {"lane_id": recovery.lane_id, "seq": recovery.seq, "now": now}
    if not (yield Statement(update[is_loose], lane)):
        return None  # it is not dead any more: somebody else was quicker
    record = {"tenant": tenant, "note": note, "actor": actor, "id": letter, "state": state, "pid": pid, **lane}
    if state == "skipped" and not is_loose:
        yield Statement(_ADD_SKIPPED, record)
    for statement in (_CLOSE, _WAKE):
        yield Statement(statement, record)
    return recovery
