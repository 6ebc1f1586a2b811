"""What became of an event? Its deliveries follow from where the heads of its lanes stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.ids import attempt_id
from hooklane.model.lane import DeliveryState, LaneId
from hooklane.store.budget import Budget
from hooklane.store.codec import decode_detail
from hooklane.store.cursors import number_of
from hooklane.store.dashboard import EventSearch
from hooklane.store.reads import AttemptRow, Delivery, EventFilter, Page
from hooklane.store.shown import delivery_of, state_at
from hooklane.store.sql.outbox.steps import N_MAX, Batch, Flow, pattern, sql

SETTLED = (DeliveryState.DELIVERED, DeliveryState.SKIPPED, DeliveryState.CANCELLED)
NAMED_MAX = 200
"""Events whose id begins as asked that are looked at, the newest."""
_ID = re.compile(r"evt_[0-9a-z]+\Z")

Stamped = tuple[str, str, LaneId, int | None]
"""Event, endpoint, lane, seq."""


def event(tenant: str, event_id: str) -> Flow[Event | None]:
    rows = yield sql("event", tenant=tenant, id=event_id)
    return Event(*rows[0]) if rows else None


def events(tenant: str, wanted: EventFilter, cursor: str | None, limit: int) -> Flow[Page[Event]]:
    """Newest first; a page that looked at enough ends early, and `next` goes on from there."""
    if isinstance(wanted, EventSearch) and not wanted.is_plain:
        return (yield from _search(tenant, wanted, cursor, limit))
    params = _params(tenant, wanted)
    fitting = "fitting_events" if wanted.endpoint_id is None and wanted.state is None else "fitting_deliveries"
    if wanted.key is not None and wanted.endpoint_id is not None:
        lanes = yield from lanes_of_key(tenant, wanted.key, wanted.endpoint_id)
        if lanes is not None:
            return (yield from _windows("fitting_deliveries_in_lanes", params, cursor, limit, lanes))
    return (yield from _windows(fitting, params, cursor, limit))


def _search(tenant: str, wanted: EventSearch, cursor: str | None, limit: int) -> Flow[Page[Event]]:
    """The same by text, deliveries and attempts; what names an id is looked up by it."""
    params = {
        **_params(tenant, wanted),
        "q": wanted.text,
        "seq": wanted.seq,
        "attempts_min": wanted.attempts_min,
        "http": pattern(wanted.http, one=True),
        "reason": pattern(wanted.reason, one=True),
        "by_delivery": wanted.by_delivery,
        "by_attempt": wanted.by_attempt,
    }
    begins = wanted.id or (wanted.text if _ID.match(wanted.text or "") else None)
    if begins is None:
        return (yield from _windows("searched_events", params, cursor, limit))
    # The last letter of an id's alphabet, so often that no id comes after it, in whichever order a database compares.
    span = (begins, begins if wanted.id else begins + "z" * 30)
    below = number_of(cursor) or N_MAX
    numbers = yield sql("event_numbers", tenant=tenant, first=span[0], last=span[1], limit=NAMED_MAX)
    found: list[int] = []
    for n in sorted((n for (n,) in numbers), reverse=True):
        if n < below and len(found) <= limit:
            found += [one for (one,) in (yield sql("searched_events", **params, below=n + 1, floor=n, limit=1))]
    following = str(found[limit - 1]) if len(found) > limit else None
    return Page((yield from _by_number(found[:limit])), following)


def _params(tenant: str, wanted: EventFilter) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "type": pattern(wanted.type),
        "key": wanted.key,
        "after": wanted.after,
        "before": wanted.before,
        "endpoint": wanted.endpoint_id,
        "state": wanted.state,
    }


def _windows(
    fitting: str, params: dict[str, Any], cursor: str | None, limit: int, lanes: Sequence[int] | None = None
) -> Flow[Page[Event]]:
    """With *lanes*, windows are of the events that stand in those."""
    window, within = ("event_window", {}) if lanes is None else ("event_window_in_lanes", {"lanes": lanes})
    found: list[int] = []
    budget, below = Budget(), number_of(cursor) or N_MAX
    while True:
        ((looked, floor),) = yield sql(window, **within, below=below, window=budget.window)
        rows = yield sql(fitting, **params, **within, below=below, floor=floor or 0, limit=limit + 1 - len(found))
        found += [n for (n,) in rows]
        if len(found) > limit:
            return Page((yield from _by_number(found[:limit])), str(found[limit - 1]))
        if looked < budget.window:
            return Page((yield from _by_number(found)), None)
        below = floor
        budget.spend(looked)
        if budget.is_spent:
            return Page((yield from _by_number(found)), str(below))


def lanes_of_key(tenant: str, key: str, endpoint_id: str | None) -> Flow[list[int] | None]:
    """The lanes in which the deliveries of *key* stand, at this endpoint or at all there are; None where some of them
    stand in no lane of the key, as where an endpoint has another order, and all events must be looked at."""
    orders = yield sql("orders", tenant=tenant, endpoint=endpoint_id)
    if [order for (order,) in orders] != ["key"]:
        return None
    at = {} if endpoint_id is None else {"endpoint": endpoint_id}
    rows = yield sql("lane_of_key" if at else "lanes_of_key", tenant=tenant, key=key, **at)
    return [lane_id for (lane_id,) in rows]


def _by_number(numbers: Sequence[int]) -> Flow[list[Event]]:
    rows = (yield sql("events_by_number", ns=list(numbers))) if numbers else ()
    return [Event(*row) for row in rows]


def deliveries(tenant: str, event_ids: Sequence[str]) -> Flow[Mapping[str, Sequence[Delivery]]]:
    rows = yield sql("stamps", tenant=tenant, ids=list(event_ids))
    stamps = {event_id: msgspec.json.decode(stamps) for event_id, stamps, _ in rows}
    born = {event_id: created_at for event_id, _, created_at in rows}
    flat = [(event_id, *stamp) for event_id, some in stamps.items() for stamp in some]
    found: dict[str, list[Delivery]] = {event_id: [] for event_id in event_ids if event_id in stamps}
    for one in (yield from with_tries((yield from deliveries_at(flat)), born)):
        found[one.event_id].append(one)
    return found


def deliveries_at(stamped: Sequence[Stamped]) -> Flow[list[Delivery]]:
    """How each of these stands now, in the given order."""
    ordered = [{"lane_id": lane_id, "seq": seq} for _, _, lane_id, seq in stamped if seq is not None]
    rows = yield Batch("deliveries_in_lanes", ordered)
    known = {(row[0], row[1]): row for row in rows}
    if loose := [-lane_id for _, _, lane_id, seq in stamped if seq is None]:
        known |= {(row[0], 1): row for row in (yield sql("loose_deliveries", ns=loose))}
    return [_delivery(one, known.get((one[2], one[3] or 1))) for one in stamped]


def with_tries(found: Sequence[Delivery], born: Mapping[str, Instant]) -> Flow[list[Delivery]]:
    """The same with the tries of what is settled, of events that were published when *born* says.

    A lane's row counts the tries of its head; those of others are in the log, for as long as it is kept.
    """
    tried = yield Batch(
        "tries",
        [
            {"event_at": born[one.event_id], "lane_id": one.lane_id, "seq": one.seq or 1}
            for one in found
            if one.state in SETTLED
        ],
    )
    tries = {(lane_id, seq): many for lane_id, seq, many in tried}
    return [replace(one, attempts=tries.get((one.lane_id, one.seq or 1), one.attempts)) for one in found]


def _delivery(stamped: Stamped, row: Sequence[Any] | None) -> Delivery:
    event_id, endpoint_id, lane_id, seq = stamped
    if row is None:  # a loose delivery that is done leaves no row
        state, key, attempts, next_at, reason, letter = "delivered", None, 0, None, None, None
    else:
        _, _, key, head, state, attempts, next_at, reason, kind, letter = row
        if seq is not None:
            state = state_at(seq, head, state, kind)
            if seq != head:
                attempts, next_at, reason = 0, None, None
    return delivery_of(event_id, endpoint_id, lane_id, seq, (key, state, attempts, next_at, reason, letter))


def attempts(tenant: str, event_id: str) -> Flow[list[AttemptRow]]:
    found = yield sql("stamps", tenant=tenant, ids=[event_id])
    if not found:
        return []
    ((_, stamps, created_at),) = found
    at = {(lane_id, seq or 1): (endpoint_id, seq) for endpoint_id, lane_id, seq in msgspec.json.decode(stamps)}
    rows = yield Batch("attempts", [{"event_at": created_at, "lane_id": lane, "seq": seq} for lane, seq in at])
    tried = [_attempt(event_id, *at[row[0], row[1]], row) for row in rows]
    return sorted(tried, key=lambda one: (one.started_at, one.attempt))


def _attempt(event_id: str, endpoint_id: str, seq: int | None, row: Sequence[Any]) -> AttemptRow:
    lane_id, place, started_at, attempt, took_ms, outcome, status, failure, said, detail = row
    return AttemptRow(
        id=attempt_id(lane_id, place, attempt, started_at),
        event_id=event_id,
        endpoint_id=endpoint_id,
        seq=seq,
        attempt=attempt,
        started_at=started_at,
        took_ms=took_ms,
        outcome=outcome,
        status=status,
        failure=failure,
        detail=decode_detail(detail, said),
    )
