"""What do people ask? Deliveries, lanes, dead letters and the ledger, computed from the tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter
from typing import TypeVar

from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.ids import attempt_id, dead_letter_id
from hooklane.model.lane import DeliveryState, LaneRow, LaneState
from hooklane.store.codec import attempt_fields, decode_detail
from hooklane.store.memory.outbox.tables import DeadRow, Ending, Lane, Tables
from hooklane.store.reads import AttemptRow, DeadLetter, Delivery, EventFilter, LaneView, LetterFilter, Page

T = TypeVar("T")


def matches(pattern: str | None, text: str, *, one_char: bool = False) -> bool:
    """Whether *text* fits: `*` stands for any run and, with *one_char*, `?` for any one; nothing else is special."""
    if pattern is None:
        return True
    glob = pattern.replace("[", "[[]")
    return fnmatchcase(text, glob if one_char else glob.replace("?", "[?]"))


def page(items: Iterable[tuple[int, T]], cursor: str | None, limit: int, *, newest_first: bool = False) -> Page[T]:
    """Up to *limit* of the numbered *items* behind the cursor, which is the number of the last one that was shown."""
    ordered = sorted(items, key=itemgetter(0), reverse=newest_first)
    if cursor is not None:
        shown = int(cursor)
        ordered = [pair for pair in ordered if (pair[0] < shown if newest_first else pair[0] > shown)]
    return Page([item for _, item in ordered[:limit]], str(ordered[limit - 1][0]) if len(ordered) > limit else None)


def state_of(lane: Lane, row: LaneRow, seq: int) -> DeliveryState:
    if seq in lane.skipped:
        return DeliveryState.SKIPPED
    if seq in lane.cancelled:
        return DeliveryState.CANCELLED
    if seq < row.head:
        return DeliveryState.DELIVERED
    if seq > row.head:
        return DeliveryState.QUEUED
    match row.state:
        case LaneState.BLOCKED:
            return DeliveryState.DEAD
        case LaneState.RETRYING:
            return DeliveryState.RETRYING
        case _:
            return DeliveryState.QUEUED


def delivery(tables: Tables, lane: Lane, seq: int) -> Delivery:
    row = tables.row_of(lane)
    event = lane.events[seq - 1]
    state = state_of(lane, row, seq)
    logged = tables.attempts.get((lane.tenant, event.id), ())
    tries = [one.send.attempt for one in logged if one.send.endpoint.id == lane.endpoint_id]
    is_head = seq == row.head
    return Delivery(
        event_id=event.id,
        endpoint_id=lane.endpoint_id,
        lane_id=lane.id,
        key=lane.key,
        seq=None if lane.key is None else seq,
        state=state,
        attempts=row.attempts if is_head else (tries[-1] if tries else 0),
        next_at=row.next_at if state is DeliveryState.RETRYING else None,
        reason=(lane.reason if lane.head == seq else None) if is_head else lane.skipped.get(seq),
        dead_letter_id=dead_letter_id(event.id, event.created_at, lane.endpoint_id)
        if state is DeliveryState.DEAD
        else None,
    )


def attempts(tables: Tables, tenant: str, event_id: str) -> Iterator[AttemptRow]:
    for settlement in tables.attempts.get((tenant, event_id), ()):
        send, kept = settlement.send, attempt_fields(settlement)
        yield AttemptRow(
            id=attempt_id(send.lane_id, send.seq, send.attempt, send.at),
            event_id=event_id,
            endpoint_id=send.endpoint.id,
            seq=None if send.lane_id < 0 else send.seq,
            attempt=send.attempt,
            started_at=send.at,
            took_ms=kept.took_ms,
            outcome=kept.outcome,
            status=kept.status,
            failure=kept.failure,
            detail=decode_detail(kept.detail, kept.said),
        )


def deliveries(tables: Tables, tenant: str, event_ids: Iterable[str]) -> Mapping[str, Sequence[Delivery]]:
    return {
        event_id: [delivery(tables, tables.lanes[lane], seq) for lane, seq in tables.places.get((tenant, event_id), ())]
        for event_id in event_ids
        if (tenant, event_id) in tables.events
    }


def events(tables: Tables, tenant: str, wanted: EventFilter) -> Iterator[tuple[int, Event]]:
    for number, event in enumerate(tables.events.values()):
        if event.tenant == tenant and _is_wanted(tables, event, wanted):
            yield number, event


def _is_wanted(tables: Tables, event: Event, wanted: EventFilter) -> bool:
    if (
        not matches(wanted.type, event.type)
        or (wanted.key is not None and event.key != wanted.key)
        or (wanted.after is not None and event.created_at < wanted.after)
        or (wanted.before is not None and event.created_at >= wanted.before)
    ):
        return False
    if wanted.endpoint_id is None and wanted.state is None:
        return True
    return any(
        (wanted.endpoint_id is None or one.endpoint_id == wanted.endpoint_id)
        and (wanted.state is None or one.state is wanted.state)
        for one in deliveries(tables, event.tenant, [event.id])[event.id]
    )


def shown_state(tables: Tables, lane: Lane, row: LaneRow) -> LaneState:
    """`paused` is derived from the endpoint; a dead head stays the more important news."""
    endpoint = tables.endpoints.get(lane.endpoint_id)
    held = endpoint is not None and (endpoint.state.is_held or endpoint.suspended)
    return LaneState.PAUSED if held and row.state in (LaneState.ACTIVE, LaneState.RETRYING) else row.state


def lane_view(tables: Tables, lane: Lane) -> LaneView:
    assert lane.key is not None
    row = tables.row_of(lane)
    head = lane.events[row.head - 1] if row.head <= row.tail else None
    is_known = lane.head == row.head  # else the row speaks of an earlier head
    blocked = row.state is LaneState.BLOCKED and head is not None
    return LaneView(
        lane_id=lane.id,
        endpoint_id=lane.endpoint_id,
        key=lane.key,
        state=shown_state(tables, lane, row),
        head=row.head,
        tail=row.tail,
        attempts=row.attempts,
        next_at=row.next_at if row.state is LaneState.RETRYING else None,
        since=lane.since if is_known else None,
        reason=lane.reason if is_known else None,
        dead_letter_id=dead_letter_id(head.id, head.created_at, lane.endpoint_id) if blocked and head else None,
        head_event_id=head.id if head else None,
        head_type=head.type if head else None,
    )


def ordered_lanes(tables: Tables, tenant: str | None) -> Iterator[Lane]:
    for lane in tables.lanes.values():
        if lane.key is not None and tenant in (None, lane.tenant):
            yield lane


def dead_letter(tables: Tables, dead_row: DeadRow) -> DeadLetter:
    lane = tables.lanes[dead_row.lane_id]
    event = lane.events[dead_row.seq - 1]
    return DeadLetter(
        id=dead_row.id,
        event_id=event.id,
        type=event.type,
        endpoint_id=lane.endpoint_id,
        lane_id=lane.id,
        key=lane.key,
        seq=None if lane.key is None else dead_row.seq,
        attempts=dead_row.attempts,
        reason=dead_row.reason,
        died_at=dead_row.died_at,
        waiting=lane.tail - dead_row.seq,
        note=dead_row.note,
    )


def dead_letters(tables: Tables, tenant: str, wanted: LetterFilter) -> Iterator[tuple[int, DeadLetter]]:
    for number, dead_row in enumerate(tables.dead_letters.values()):
        one = dead_letter(tables, dead_row)
        if (
            dead_row.ending is Ending.DEAD
            and tables.lanes[dead_row.lane_id].tenant == tenant
            and wanted.endpoint_id in (None, one.endpoint_id)
            and wanted.key in (None, one.key)
            and matches(wanted.type, one.type)
            and matches(wanted.reason, one.reason, one_char=True)
            and (wanted.after is None or one.died_at >= wanted.after)
            and (wanted.before is None or one.died_at < wanted.before)
        ):
            yield number, one


def ledger(tables: Tables, tenant: str | None, endpoint_id: str | None = None) -> Mapping[DeliveryState | str, int]:
    counts: Counter[DeliveryState | str] = Counter(dict.fromkeys(DeliveryState, 0))
    counts["accepted"] = 0
    for lane in tables.lanes.values():
        if tenant not in (None, lane.tenant) or endpoint_id not in (None, lane.endpoint_id):
            continue
        row = tables.row_of(lane)
        counts["accepted"] += lane.tail
        for seq in range(1, lane.tail + 1):
            counts[state_of(lane, row, seq)] += 1
    return counts


def oldest_pending_at(tables: Tables, tenant: str | None = None) -> Instant | None:
    oldest: Instant | None = None
    for lane in tables.lanes.values():
        if tenant not in (None, lane.tenant):
            continue
        row = tables.row_of(lane)
        first = row.head + 1 if row.state is LaneState.BLOCKED else row.head
        if first <= row.tail and (oldest is None or lane.events[first - 1].created_at < oldest):
            oldest = lane.events[first - 1].created_at
    return oldest
