"""The overview: is anything stuck?"""

from __future__ import annotations

from hooklane.server.call import Call, Response, Route, answer
from hooklane.server.overview import overview_of
from hooklane.server.shapes_of_recovery import Overview


async def overview(call: Call) -> Response:
    services = call.services
    endpoints = {endpoint.id: endpoint for endpoint in await services.store.endpoints(call.tenant)}
    return answer({**overview_of(await services.totals.of(call.tenant), endpoints), "features": services.features})


ROUTES = (
    Route(
        "GET", "/api/v1/overview", overview, "Totals, and whether anything is stuck.", tag="overview", answers=Overview
    ),
)
