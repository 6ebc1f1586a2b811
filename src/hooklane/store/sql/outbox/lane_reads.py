"""How do the lanes stand? Those that need attention come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hooklane.model.lane import LaneId, LaneState
from hooklane.model.plan import PlacedEvent
from hooklane.store.budget import Budget
from hooklane.store.cursors import rank_and_lane_of
from hooklane.store.reads import Delivery, LaneFilter, LaneView, Page
from hooklane.store.shown import EXCERPT_BYTES, RANKED, RANKS, excerpt_of, ranks_of
from hooklane.store.sql.outbox.event_reads import deliveries_at, with_tries
from hooklane.store.sql.outbox.steps import N_MAX, Batch, Flow, sql

_OF_ALL = ("lane_window", "lanes_of_rank")
_INDEXED = {
    RANKS[LaneState.BLOCKED]: ("lane_window_blocked", "lanes_blocked"),
    RANKS[LaneState.RETRYING]: ("lane_window_retrying", "lanes_retrying"),
}
"""Lanes that are not well have an index."""


def lane(tenant: str, endpoint_id: str, key: str) -> Flow[LaneView | None]:
    rows = yield sql("lane", tenant=tenant, endpoint=endpoint_id, key=key)
    return view(rows[0]) if rows else None


def lanes(
    tenant: str, wanted: LaneFilter, cursor: str | None, limit: int, budget: Budget | None = None
) -> Flow[Page[LaneView]]:
    """Those that need attention first (blocked, retrying, paused, active), then the idle; in each the newest first.

    A page that looked at enough lanes ends early, and `next` goes on from there.
    """
    params = {"tenant": tenant, "endpoint": wanted.endpoint_id, "text": wanted.text}
    first, below = rank_and_lane_of(cursor)
    budget = budget or Budget()
    found: list[Sequence[Any]] = []
    for rank in ranks_of(wanted.states, first):
        if rank == RANKS[LaneState.PAUSED] and not (yield sql("any_paused_endpoint")):
            continue
        window, fitting = _INDEXED.get(rank, _OF_ALL)
        at = below if rank == first else N_MAX
        while True:
            ((looked, floor),) = yield sql(window, below=at, window=budget.window)
            span = {"below": at, "floor": floor or 0, "rank": rank, "limit": limit + 1 - len(found)}
            found += yield sql(fitting, **params, **span)
            if len(found) > limit:
                last = found[limit - 1]
                return Page([view(row) for row in found[:limit]], f"{last[-1]}.{last[0]}")
            is_over = looked < budget.window
            budget.spend(looked)
            if is_over:
                break
            at = floor
            if budget.is_spent:
                return Page([view(row) for row in found], f"{rank}.{at}")
    return Page([view(row) for row in found], None)


def view(row: Sequence[Any]) -> LaneView:
    lane_id, endpoint_id, key, head, tail, attempts, next_at, since, reason, letter, *of_head, rank = row
    event_id, type_, created_at = of_head
    return LaneView(
        lane_id=lane_id,
        endpoint_id=endpoint_id,
        key=key,
        state=RANKED[rank],
        head=head,
        tail=tail,
        attempts=attempts,
        next_at=next_at or None,
        since=since or None,
        reason=reason,
        dead_letter_id=letter,
        head_event_id=event_id,
        head_type=type_,
        head_created_at=created_at,
    )


def lane_deliveries(lane_id: LaneId, from_seq: int, limit: int) -> Flow[list[Delivery]]:
    rows = yield sql("events_of_lane", lane_id=lane_id, seq=from_seq, limit=limit)
    types = {row[3]: row[4] for row in rows}
    born = {row[0]: row[5] for row in rows}
    found = yield from deliveries_at([(row[0], row[1], row[2], row[3]) for row in rows])
    return [replace(one, type=types[one.seq]) for one in (yield from with_tries(found, born))]


def lane_events(places: Sequence[tuple[LaneId, int]], limit: int) -> Flow[list[PlacedEvent]]:
    wanted = [{"lane_id": lane_id, "seq": seq} for lane_id, seq in places]
    rows = yield Batch("lane_events", wanted, {"limit": limit, "chars": EXCERPT_BYTES})
    return [PlacedEvent(lane_id, seq, id, type_, excerpt_of(bytes(data))) for lane_id, seq, id, type_, data in rows]
