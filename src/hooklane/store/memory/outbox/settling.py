"""What do an owner's writes change? Each is fenced by the epoch, and each is one that may come twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Send, Settlement, Start, Write
from hooklane.model.clock import START
from hooklane.model.endpoint import EndpointState
from hooklane.model.ids import dead_letter_id
from hooklane.model.lane import LaneId, LaneRow, LaneState
from hooklane.model.lost import skip_note
from hooklane.store.memory.outbox.owning import is_owner
from hooklane.store.memory.outbox.tables import DeadRow, Ending, Lane, Tables
from hooklane.store.outbox import CommitReport


def commit(tables: Tables, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
    fenced: set[int] = set()
    stale: set[LaneId] = set()
    for write in writes:
        if not is_owner(tables.parts[write.pid], worker, epochs.get(write.pid)):
            fenced.add(write.pid)
            continue
        lane = tables.lanes.get(write.lane_id)
        if lane is None or not _write(tables, lane, write):
            stale.add(write.lane_id)
    return CommitReport(tables.clock(), frozenset(fenced), frozenset(stale))


def _write(tables: Tables, lane: Lane, write: Write) -> bool:
    match write:
        case Settlement(send=send):
            # Tables that lost their last moments may hold another event in that place.
            return holds(lane, send) and settle(tables, lane, write)
        case Start():
            return _start(tables, lane, write)
        case Cancel():
            return _cancel(tables, lane, write)


def holds(lane: Lane, send: Send) -> bool:
    """Whether the event that was sent stands where it stood."""
    return send.seq <= lane.tail and lane.events[send.seq - 1].id == send.event.id


def settle(tables: Tables, lane: Lane, settlement: Settlement) -> bool:
    """Make one outcome durable; False when the lane is not where the owner believed it to be."""
    send, outcome = settlement.send, settlement.outcome
    row = tables.row_of(lane)
    if isinstance(outcome, Delivered):
        if row.head > send.seq:
            return True  # repeated
        if row.head < send.seq or row.rev != send.rev or row.state is LaneState.BLOCKED:
            return False
        # Appended only: the row of the lane is not touched by a success.
        tables.acks[lane.id] = send.seq + 1
        _log(tables, settlement)
        return True
    if row.rev != send.rev:
        return False  # a person has acted on this head, and what we know of it is from before
    if _is_repeated(row, send, outcome):
        return True
    # An attempt that was announced may be in the count already; one whose worker died counts as well.
    announced = lane.starts > 0 and lane.head == row.head and row.attempts == send.attempt
    counts = announced or row.attempts == send.attempt - 1
    if row.head != send.seq or row.state is LaneState.BLOCKED or not counts:
        return False
    _fail(tables, lane, settlement, outcome)
    return True


def _is_repeated(row: LaneRow, send: Send, outcome: Retry | Dead | Gone) -> bool:
    """Whether the store says already what this write would make it say."""
    match outcome:
        case Retry(at=at):
            return row.head == send.seq and row.attempts == send.attempt and row.next_at == at
        case Gone():
            return False
        case Dead(skip=True):
            return row.head > send.seq
        case Dead():
            return row.head == send.seq and row.state is LaneState.BLOCKED


def _fail(tables: Tables, lane: Lane, settlement: Settlement, outcome: Retry | Dead | Gone) -> None:
    send, at = settlement.send, settlement.at
    move_head(lane, send.seq)  # acks that are not folded yet have moved on from what the row knows
    lane.attempts, lane.reason, lane.since = send.attempt, outcome.reason, at
    _log(tables, settlement)
    match outcome:
        case Retry(at=next_at):
            lane.state, lane.next_at = LaneState.RETRYING, next_at
        case Gone():
            lane.state = LaneState.RETRYING
            _disable(tables, lane.endpoint_id)
        case Dead(skip=True, reason=reason):
            lane.skipped[send.seq] = skip_note(reason)
            move_head(lane, send.seq + 1)
        case Dead(reason=reason):
            lane.state = LaneState.BLOCKED
            letter = _dead_letter_id(lane, send.seq)
            _add_dead_letter(tables, DeadRow(letter, lane.id, send.seq, send.attempt, reason, at))


def move_head(lane: Lane, head: int) -> None:
    """The lane stands at *head* now, and nothing is known of that head yet."""
    lane.head, lane.state, lane.attempts, lane.starts = head, LaneState.ACTIVE, 0, 0
    lane.next_at, lane.reason, lane.since = START, None, None


def _dead_letter_id(lane: Lane, seq: int) -> str:
    event = lane.events[seq - 1]
    return dead_letter_id(event.id, event.created_at, lane.endpoint_id)


def _add_dead_letter(tables: Tables, dead_row: DeadRow) -> None:
    earlier = tables.dead_letters.get(dead_row.id)
    if earlier is not None:
        dead_row.note = earlier.note  # it was replayed and died again
    tables.dead_letters[dead_row.id] = dead_row


def _disable(tables: Tables, endpoint_id: str) -> None:
    endpoint = tables.endpoints[endpoint_id]
    if endpoint.state is EndpointState.ACTIVE:  # what a person paused or deleted stays so
        tables.endpoints[endpoint_id] = replace(endpoint, state=EndpointState.DISABLED)
        tables.changes.append(endpoint_id)


def _start(tables: Tables, lane: Lane, start: Start) -> bool:
    row = tables.row_of(lane)
    if row.head != start.seq or row.rev != start.rev or row.state is LaneState.BLOCKED:
        return False
    if (row.attempts, row.starts) == (start.attempt, start.starts):
        return True  # repeated
    if row.starts >= start.starts or start.attempt - row.attempts not in (0, 1):
        return False
    if lane.head < start.seq:
        move_head(lane, start.seq)
    lane.attempts, lane.starts = start.attempt, start.starts
    return True


def _cancel(tables: Tables, lane: Lane, cancel: Cancel) -> bool:
    row = tables.row_of(lane)
    if row.rev != cancel.rev:
        return False
    if row.head > cancel.tail:
        return True  # repeated
    if row.head != cancel.seq:
        return False
    if row.state is LaneState.BLOCKED:
        tables.dead_letters[_dead_letter_id(lane, row.head)].ending = Ending.CANCELLED
    lane.cancelled.update(range(cancel.seq, cancel.tail + 1))
    move_head(lane, cancel.tail + 1)
    return True


def fold(tables: Tables) -> None:
    """Move acks into the lanes; attempts and state are reset only where a head really moves."""
    for lane_id, head in tables.acks.items():
        lane = tables.lanes[lane_id]
        if lane.head < head:
            move_head(lane, head)
    tables.acks.clear()


def _log(tables: Tables, settlement: Settlement) -> None:
    event = settlement.send.event
    tables.attempts.setdefault((event.tenant, event.id), []).append(settlement)
