"""The board of lanes: those that need attention, the longest waiting first, and what is drawn beside each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hooklane.model.lane import DeliveryState, LaneId, LaneState
from hooklane.store.budget import Budget
from hooklane.store.codec import decode_detail
from hooklane.store.cursors import age_place_of
from hooklane.store.dashboard import Cells
from hooklane.store.reads import LaneFilter, LaneView, Page
from hooklane.store.shown import RANKED, RANKS
from hooklane.store.sql.outbox import lane_reads
from hooklane.store.sql.outbox.steps import N_MAX, Batch, Flow, sql

BY_AGE = (LaneState.BLOCKED, LaneState.RETRYING)
"""These have an index by how long they have been so."""
SHOWN = (*BY_AGE, LaneState.PAUSED, LaneState.ACTIVE)
SPARE = 50
SAID_CHARS_MAX = 200
ANSWER_CHARS = 2 * SAID_CHARS_MAX
_LAST = 10**18 - 1
"""Larger than any lane's number, and short enough for a cursor."""


def attention(tenant: str, wanted: LaneFilter, cursor: str | None, limit: int) -> Flow[Page[LaneView]]:
    """Blocked lanes and then retrying ones by age; after them those that only the list by number knows."""
    states = SHOWN if wanted.states is None else tuple(wanted.states)
    params = {"tenant": tenant, "endpoint": wanted.endpoint_id, "text": wanted.text}
    budget = Budget()
    found: list[LaneView] = []
    place = age_place_of(cursor)
    if place is not None:
        for state in BY_AGE:
            rank = RANKS[state]
            if state not in states or rank < place[0]:
                continue
            after = place[1:] if rank == place[0] else (0, 0)
            rows, following = yield from _by_age(state, params, after, budget, limit - len(found))
            found += rows
            if following is not None:
                return Page(found, f"{rank}.{following[0]}.{following[1]}")
    others = [state for state in RANKED if state in states and state not in BY_AGE]
    if not others:
        return Page(found, None)
    if len(found) >= limit:
        return Page(found, f"{RANKS[others[0]]}.{_LAST}")
    rest = yield from lane_reads.lanes(
        tenant, replace(wanted, states=others), cursor if place is None else None, limit - len(found), budget
    )
    return Page([*found, *rest.items], rest.next)


def _by_age(
    state: LaneState, params: Mapping[str, Any], after: tuple[int, ...], budget: Budget, limit: int
) -> Flow[tuple[list[LaneView], tuple[int, int] | None]]:
    """Up to *limit* lanes after a place, and where the next page goes on; None at the end."""
    at = (after[0], after[1])
    found: list[Sequence[Any]] = []
    # Where nothing is filtered out nearly every lane that is looked at fits, so few more than are asked for are enough.
    window = limit + SPARE if params["endpoint"] is None and params["text"] is None else budget.window
    while True:
        span = {"since": at[0], "lane": at[1]}
        last = yield sql(f"age_window_{state}", **span, at=window - 1)
        upto = (last[0][0], last[0][1]) if last else (N_MAX, N_MAX)
        asked = {**params, **span, "upto_since": upto[0], "upto_lane": upto[1], "rank": RANKS[state]}
        found += yield sql(f"lanes_{state}_by_age", **asked, limit=limit + 1 - len(found))
        lanes = [lane_reads.view(row) for row in found[:limit]]
        if len(found) > limit:
            return lanes, (lanes[-1].since or 0, lanes[-1].lane_id) if lanes else at
        if not last:
            return lanes, None
        budget.spend(window)
        at, window = upto, budget.window
        if budget.is_spent:
            return lanes, at


def lanes_named(tenant: str, lanes: Sequence[tuple[str, str]]) -> Flow[list[LaneView]]:
    wanted = [{"endpoint": endpoint_id, "key": key} for endpoint_id, key in lanes]
    rows = yield Batch("lanes_named", wanted, {"tenant": tenant})
    return [lane_reads.view(row) for row in rows]


def cells(lanes: Sequence[LaneView], settled: int) -> Flow[dict[LaneId, Cells]]:
    """What was settled before each head follows from the head itself, but for what was passed over."""
    spans = {one.lane_id: (max(1, one.head - settled), one.head - 1) for one in lanes}
    before = [
        {"lane_id": lane_id, "first": first, "last": last} for lane_id, (first, last) in spans.items() if first <= last
    ]
    passed: dict[LaneId, list[tuple[int, int, str]]] = {}
    for lane_id, seq, upto, kind in (yield Batch("passed_between", before)):
        passed.setdefault(lane_id, []).append((seq, upto, kind))
    tried = [one for one in lanes if one.attempts and one.head_created_at is not None]
    words = yield from last_words([(one.head_created_at or 0, one.lane_id, one.head) for one in tried])
    return {
        lane_id: Cells(
            [(seq, _settled(seq, passed.get(lane_id, ()))) for seq in range(first, last + 1)],
            words.get(lane_id, (None, None))[1],
        )
        for lane_id, (first, last) in spans.items()
    }


def _settled(seq: int, passed: Sequence[tuple[int, int, str]]) -> DeliveryState:
    kinds = [kind for first, last, kind in passed if first <= seq <= last]
    return DeliveryState(kinds[0]) if kinds else DeliveryState.DELIVERED


def last_words(tried: Sequence[tuple[int, LaneId, int]]) -> Flow[dict[LaneId, tuple[str | None, str | None]]]:
    """By lane: what the receiver says that it did, and what it answered; *tried* is (event at, lane, seq) of each."""
    wanted = [{"event_at": event_at, "lane_id": lane_id, "seq": seq} for event_at, lane_id, seq in tried]
    rows = yield Batch("last_words", wanted)
    return {lane_id: (said, _answered(detail)) for lane_id, _, said, detail in rows}


def _answered(detail: bytes | None) -> str | None:
    """What an endpoint answered, as far as it is text; it was kept byte for byte."""
    text: str = decode_detail(detail, None).get("response_body", "")[:ANSWER_CHARS]
    return " ".join(text.encode("latin-1", "replace").decode("utf-8", "replace").split())[:SAID_CHARS_MAX] or None


def said_in_lane(lane_id: LaneId, first: int, last: int) -> Flow[list[tuple[int, str]]]:
    rows = yield sql("said_in_lane", lane_id=lane_id, first=first, last=last)
    return [(seq, said) for seq, said in rows]
