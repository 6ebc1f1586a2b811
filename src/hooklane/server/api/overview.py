"""The overview: is anything stuck, and how is it going?"""

from __future__ import annotations

from typing import Any

from hooklane.model.clock import rfc3339
from hooklane.model.endpoint import Endpoint
from hooklane.model.lane import LaneState
from hooklane.server import views
from hooklane.server.call import Call, Param, Response, Routes, answer
from hooklane.server.overview import figures_view, overview_of
from hooklane.server.schema_words import one_of
from hooklane.server.shapes_of_figures import OldestLane, Overview
from hooklane.store.reads import LaneFilter

RANGES = {"15m": 900, "1h": 3_600, "24h": 24 * 3_600, "7d": 7 * 24 * 3_600}
RANGE = Param("range", f"how far back figures go: {', '.join(RANGES)}; 1h unless given", one_of(RANGES))


routes = Routes("overview", "/api/v1/overview")


@routes.get(
    "",
    "Totals, whether anything is stuck, and the figures of a range; counts are as of `as_of`.",
    query=(RANGE,),
    answers=Overview,
)
async def overview(call: Call) -> Response:
    services = call.services
    word, range_s = range_of(call)
    endpoints = {endpoint.id: endpoint for endpoint in await services.store.endpoints(call.tenant)}
    counted = await services.totals.of(call.tenant)
    figures = (await services.series.total(call.tenant, range_s))[""]
    last_minute = (await services.series.total(call.tenant, 60))[""]
    is_ours = call.caller.tenant is None  # what follows is about the whole installation
    workers = await services.store.workers() if is_ours else {}
    return answer(
        {
            **overview_of(counted, endpoints),
            **figures_view(figures, last_minute, endpoints),
            "store_bytes": counted.store_bytes if is_ours else 0,
            "features": services.features,
            "as_of": rfc3339(counted.as_of),
            "range": word,
            "oldest": await _oldest(call, endpoints),
            "workers": [{"id": name, "partitions": many} for name, many in sorted(workers.items())],
        }
    )


def range_of(call: Call) -> tuple[str, int]:
    word = call.word("range", RANGES, "1h")
    return word, RANGES[word]


async def _oldest(call: Call, endpoints: dict[str, Endpoint]) -> dict[str, Any] | None:
    """The lane that a person should look at first."""
    wanted = LaneFilter(states=(LaneState.BLOCKED, LaneState.RETRYING))
    page = await call.services.store.attention(call.tenant, wanted, None, 1)
    for lane in page.items:
        name = endpoints[lane.endpoint_id].name if lane.endpoint_id in endpoints else ""
        cells = await call.services.store.cells([lane], 0)
        return views.filled(OldestLane, lane, endpoint_name=name, said=cells[lane.lane_id].head_said)
    return None
