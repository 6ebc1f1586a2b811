"""Lanes: which keys wait at which endpoint, for what, and what stands in line."""

from __future__ import annotations

from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import LaneState
from hooklane.server import views
from hooklane.server.call import PAGING, Call, Param, Response, Route, answer
from hooklane.server.problem import Problem
from hooklane.server.shapes import LaneShape, ListShape, WholeLane, Why
from hooklane.server.why import lane_sentence
from hooklane.store.reads import LaneView

SHOWN_BEFORE_HEAD = 20
SHOWN = 100
CELLS_MAX = 40


async def search(call: Call) -> Response:
    services, query = call.services, call.query
    page = await services.store.lanes(
        call.tenant,
        states=_states(query.get("state")),
        endpoint_id=query.get("endpoint"),
        text=query.get("q"),
        cursor=call.cursor("lanes"),
        limit=call.limit(),
    )
    endpoints = await _endpoints(call)
    cells = _cells(query.get("cells"))
    items = []
    for lane in page.items:
        view = services.live_stream.shown(lane, endpoints)
        if cells:
            view["deliveries"] = await _deliveries(call, lane, cells // 2, cells)
        items.append(view)
    return answer(services.sealed(call, "lanes", page, items))


async def show(call: Call) -> Response:
    lane = await _find(call)
    view = call.services.live_stream.shown(lane, await _endpoints(call))
    view["why"] = await lane_sentence(call, lane)
    view["deliveries"] = await _deliveries(call, lane, SHOWN_BEFORE_HEAD, SHOWN)
    return answer(view)


async def why(call: Call) -> Response:
    return answer({"why": await lane_sentence(call, await _find(call))})


async def _endpoints(call: Call) -> dict[str, Endpoint]:
    return {endpoint.id: endpoint for endpoint in await call.services.store.endpoints(call.tenant)}


async def _deliveries(call: Call, lane: LaneView, before: int, most: int) -> list[views.View]:
    first = max(1, lane.head - before)
    return [views.delivery(one) for one in await call.services.store.lane_deliveries(lane.lane_id, first, most)]


async def _find(call: Call) -> LaneView:
    lane = await call.services.store.lane(call.tenant, call.params["endpoint"], call.params["key"])
    if lane is None:
        raise Problem("not_found", "this endpoint has no lane with this key: no event with the key was published to it")
    return lane


def _states(text: str | None) -> list[LaneState] | None:
    if text is None:
        return None
    words = text.split(",")
    if unknown := [word for word in words if word not in tuple(LaneState)]:
        raise Problem(
            "invalid_parameter", f"state must be one or more of {', '.join(LaneState)}, got {unknown[0][:40]!r}"
        )
    return [LaneState(word) for word in words]


def _cells(text: str | None) -> int:
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and int(text) <= CELLS_MAX):
        raise Problem("invalid_parameter", f"cells must be a number from 0 to {CELLS_MAX}, got {text[:40]!r}")
    return int(text)


ROUTES = (
    Route(
        "GET",
        "/api/v1/lanes",
        search,
        "Lanes, those that need attention first.",
        query=(
            Param("state", f"some of {', '.join(LaneState)}, with commas"),
            Param("endpoint", "id of an endpoint"),
            Param("q", "text in the key"),
            Param("cells", f"with up to this many deliveries round the head, 0-{CELLS_MAX}"),
            *PAGING,
        ),
        tag="lanes",
        answers=ListShape[LaneShape],
    ),
    Route(
        "GET",
        "/api/v1/lanes/{endpoint}/{key}",
        show,
        "A lane with what stands in line; percent-encode the key, `/` too.",
        tag="lanes",
        answers=WholeLane,
    ),
    Route(
        "GET",
        "/api/v1/lanes/{endpoint}/{key}/why",
        why,
        "One sentence: what the lane waits for.",
        tag="lanes",
        answers=Why,
    ),
)
