"""How does a dead head get out of the way? Only while it is still dead."""

from __future__ import annotations

from hooklane.model.clock import START
from hooklane.model.lane import LaneState
from hooklane.store.memory.outbox.settling import move_head
from hooklane.store.memory.outbox.tables import DeadRow, Ending, Lane, Tables
from hooklane.store.outbox import Recovery


def replay(tables: Tables, tenant: str, dead_letter_id: str) -> Recovery | None:
    dead_row = dead(tables, tenant, dead_letter_id)
    if dead_row is None:
        return None
    lane = tables.lanes[dead_row.lane_id]
    dead_row.ending = Ending.REPLAYED
    lane.state, lane.attempts, lane.starts, lane.next_at = LaneState.ACTIVE, 0, 0, START
    lane.reason, lane.since = None, None
    return _recovered(tables, lane, dead_row)


def skip(tables: Tables, tenant: str, dead_letter_id: str, note: str) -> Recovery | None:
    """Move the head past the dead one; what follows knows of it by its prev_seq."""
    dead_row = dead(tables, tenant, dead_letter_id)
    if dead_row is None:
        return None
    lane = tables.lanes[dead_row.lane_id]
    dead_row.ending, dead_row.note = Ending.SKIPPED, note or dead_row.note
    lane.skipped[dead_row.seq] = note
    move_head(lane, dead_row.seq + 1)
    return _recovered(tables, lane, dead_row)


def dead(tables: Tables, tenant: str, dead_letter_id: str) -> DeadRow | None:
    """The dead letter, if it is this tenant's and still dead."""
    dead_row = tables.dead_letters.get(dead_letter_id)
    if dead_row is None or dead_row.ending is not Ending.DEAD or tables.lanes[dead_row.lane_id].tenant != tenant:
        return None
    return dead_row


def _recovered(tables: Tables, lane: Lane, dead_row: DeadRow) -> Recovery:
    lane.rev += 1  # so that a late repeat of the owner's write cannot undo it
    tables.recoveries.append(lane.id)
    return Recovery(lane.id, lane.endpoint_id, lane.key, dead_row.seq, lane.tail - dead_row.seq)
