"""The overview: is anything stuck?"""

from __future__ import annotations

from hooklane.server.call import Call, Response, Route, answer
from hooklane.server.picture import overview_of


async def overview(call: Call) -> Response:
    store = call.gateway.store
    endpoints = {endpoint.id: endpoint for endpoint in await store.endpoints(call.tenant)}
    return answer({**await overview_of(store, endpoints), "features": call.gateway.features})


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/overview",
        run=overview,
        summary="Totals, and whether anything is stuck.",
        tag="overview",
    ),
)
