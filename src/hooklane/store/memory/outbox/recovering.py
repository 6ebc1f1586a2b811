"""How does a dead head get out of the way? Only while it is still dead, and on record."""

from __future__ import annotations

from hooklane.model.clock import START, Instant
from hooklane.model.lane import LaneState
from hooklane.store.memory.outbox.sealing import act_of
from hooklane.store.memory.outbox.settling import move_head
from hooklane.store.memory.outbox.tables import Ending, Grave, Lane, Tables
from hooklane.store.outbox import Recovery


def replay(tables: Tables, tenant: str, dead_letter_id: str, actor: str, now: Instant) -> Recovery | None:
    recovery = revive(tables, tenant, dead_letter_id)
    if recovery is not None:
        tables.record(act_of(tenant, dead_letter_id, "replayed", "", actor, now))
    return recovery


def revive(tables: Tables, tenant: str, dead_letter_id: str) -> Recovery | None:
    """A replay whose record is somebody else's business: that of the job it belongs to."""
    grave = dead(tables, tenant, dead_letter_id)
    if grave is None:
        return None
    lane = tables.lanes[grave.lane_id]
    grave.ending = Ending.REPLAYED
    lane.state, lane.attempts, lane.starts, lane.next_at = LaneState.ACTIVE, 0, 0, START
    lane.reason, lane.since = None, None
    return _recovered(tables, lane, grave)


def skip(tables: Tables, tenant: str, dead_letter_id: str, note: str, actor: str, now: Instant) -> Recovery | None:
    """Move the head past the dead one; what follows knows of it by its prev_seq."""
    grave = dead(tables, tenant, dead_letter_id)
    if grave is None:
        return None
    lane = tables.lanes[grave.lane_id]
    grave.ending, grave.note = Ending.SKIPPED, note
    lane.skipped[grave.seq] = note
    move_head(lane, grave.seq + 1)
    tables.record(act_of(tenant, grave.id, "skipped", note, actor, now))
    return _recovered(tables, lane, grave)


def dead(tables: Tables, tenant: str, dead_letter_id: str) -> Grave | None:
    """The dead letter, if it is this tenant's and still dead."""
    grave = tables.graves.get(dead_letter_id)
    if grave is None or grave.ending is not Ending.DEAD or tables.lanes[grave.lane_id].tenant != tenant:
        return None
    return grave


def _recovered(tables: Tables, lane: Lane, grave: Grave) -> Recovery:
    lane.rev += 1  # so that a late repeat of the owner's write cannot undo it
    tables.recoveries.append(lane.id)
    return Recovery(lane.id, lane.endpoint_id, lane.key, grave.seq, lane.tail - grave.seq)
