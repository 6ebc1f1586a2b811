"""Lanes: which keys wait at which endpoint, for what, and what stands in line."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.core.forecast import forecast
from hooklane.core.judge import RetryPolicy
from hooklane.model.clock import rfc3339
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import LaneState
from hooklane.server import views
from hooklane.server.call import PAGING, Call, Param, Response, Routes, answer
from hooklane.server.live_stream import SETTLED
from hooklane.server.problem import Problem
from hooklane.server.schema_words import one_of, some_of, whole
from hooklane.server.shapes import Board, LineDelivery, WholeLane, Why
from hooklane.server.why import lane_sentence
from hooklane.store.reads import LaneFilter, LaneView

SHOWN_BEFORE_HEAD = 20
SHOWN = 100
CELLS_MAX = 40
ORDERS = ("number", "attention")


routes = Routes("lanes", "/api/v1/lanes")


@routes.get(
    "",
    "Lanes, those that need attention first; how many there are in each state, as of `as_of`.",
    query=(
        Param("state", f"some of {', '.join(LaneState)}, with commas", some_of(LaneState)),
        Param("endpoint", "id of an endpoint"),
        Param("q", "text in the key"),
        Param(
            "order",
            "attention: blocked lanes, the longest first, then retrying, paused and active ones (idle ones only"
            " where `state` names them); number: by state too, in each the newest lane first, idle ones last",
            one_of(ORDERS),
        ),
        Param(
            "cells",
            f"so many events before the head in `settled`, and `deliveries` round the head, 0-{CELLS_MAX}",
            whole(0, CELLS_MAX),
        ),
        *PAGING,
    ),
    answers=Board,
)
async def search(call: Call) -> Response:
    services, query = call.services, call.query
    order = call.word("order", ORDERS, "number")
    ask = services.store.attention if order == "attention" else services.store.lanes
    wanted = LaneFilter(states=call.words("state", LaneState), endpoint_id=query.get("endpoint"), text=query.get("q"))
    page = await ask(call.tenant, wanted, call.cursor("lanes"), call.limit())
    endpoints = await _endpoints(call)
    drawn = call.number("cells", 0, CELLS_MAX, 0)
    cells = await services.store.cells(page.items, drawn or SETTLED)
    items = []
    for lane in page.items:
        view = services.live_stream.shown(lane, endpoints, cells[lane.lane_id])
        if drawn:
            view["deliveries"] = await _deliveries(call, lane, drawn // 2, drawn)
        items.append(view)
    return answer({**call.listed("lanes", page, items), **await _counts(call)})


async def _counts(call: Call) -> views.View:
    counted = await call.services.totals.of(call.tenant)
    endpoint_id = call.query.get("endpoint")
    lanes = counted.lanes if endpoint_id is None else counted.lanes_by_endpoint.get(endpoint_id, {})
    return {
        "counts": {str(state): lanes.get(state, 0) for state in LaneState},
        "quiet": lanes.get(LaneState.IDLE, 0),
        "as_of": rfc3339(counted.as_of),
    }


@routes.get("/{endpoint}/{key}", "A lane with what stands in line; percent-encode the key, `/` too.", answers=WholeLane)
async def show(call: Call) -> Response:
    lane = await _find(call)
    store = call.services.store
    endpoints = await _endpoints(call)
    cells = await store.cells([lane], SHOWN_BEFORE_HEAD)
    view = call.services.live_stream.shown(lane, endpoints, cells[lane.lane_id])
    view["why"] = await lane_sentence(call, lane)
    view["deliveries"] = await _deliveries(call, lane, SHOWN_BEFORE_HEAD, SHOWN)
    said = await store.said_in_lane(lane.lane_id, max(1, lane.head - SHOWN_BEFORE_HEAD), lane.head)
    return answer({**view, **_forecast(call, lane, endpoints.get(lane.endpoint_id)), "consumer": _consumer(said)})


def _forecast(call: Call, lane: LaneView, endpoint: Endpoint | None) -> views.View:
    """The coming attempts of a head that waits; the clock of one that is held back stands still, so it has none."""
    if endpoint is None or lane.state is not LaneState.RETRYING:
        return {"forecast": [], "dies_between": None}
    policy = RetryPolicy(endpoint.attempts_max, endpoint.backoff_ms, endpoint.backoff_cap_ms)
    coming = forecast(policy, attempts=lane.attempts, next_at=lane.next_at or call.services.now())
    tries = [{"try": one.attempt, "from": rfc3339(one.first), "to": rfc3339(one.last)} for one in coming.tries]
    dies = coming.dies
    return {
        "forecast": tries,
        "dies_between": None if dies is None else {"from": rfc3339(dies.first), "to": rfc3339(dies.last)},
    }


def _consumer(said: Sequence[tuple[int, str]]) -> views.View:
    """What the receiver told about the newest events, where it tells (`hooklane-outcome`)."""
    took = [seq for seq, word in said if word in ("applied", "stored", "duplicate", "stale")]
    return {
        "last_applied": max(took, default=None),
        "duplicates": sum(word == "duplicate" for _, word in said),
        "outcome": said[-1][1] if said else None,
    }


@routes.get("/{endpoint}/{key}/why", "One sentence: what the lane waits for.", answers=Why)
async def why(call: Call) -> Response:
    return answer({"why": await lane_sentence(call, await _find(call))})


async def _endpoints(call: Call) -> dict[str, Endpoint]:
    return {endpoint.id: endpoint for endpoint in await call.services.store.endpoints(call.tenant)}


async def _deliveries(call: Call, lane: LaneView, before: int, most: int) -> list[views.View]:
    first = max(1, lane.head - before)
    found = await call.services.store.lane_deliveries(lane.lane_id, first, most)
    return [views.filled(LineDelivery, one) for one in found]


async def _find(call: Call) -> LaneView:
    lane = await call.services.store.lane(call.tenant, call.params["endpoint"], call.params["key"])
    if lane is None:
        raise Problem("not_found", "this endpoint has no lane with this key: no event with the key was published to it")
    return lane
