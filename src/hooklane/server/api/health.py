"""Health: does the process live, can it do its work, and what does it count?"""

from __future__ import annotations

import asyncio

from hooklane.errors import StoreError
from hooklane.server.call import Access, Call, Response, Route, answer

READY_S = 2.0


async def alive(call: Call) -> Response:
    return answer({"status": "ok"})


async def ready(call: Call) -> Response:
    """Whether the store answers and deliveries flow; a load balancer sends nothing here while it does not."""
    try:
        async with asyncio.timeout(READY_S):
            await call.gateway.store.endpoints(call.tenant)
    except (StoreError, TimeoutError):
        return answer({"status": "unavailable", "store": "no answer"}, 503, headers=[("retry-after", "2")])
    if not call.gateway.is_delivering:
        return answer({"status": "unavailable", "relay": "not delivering"}, 503, headers=[("retry-after", "2")])
    return answer({"status": "ready"})


async def metrics(call: Call) -> Response:
    store = call.gateway.store
    text, media = await call.gateway.meter.exposition(store, await store.endpoints())
    return Response(200, text, media=media)


ROUTES = (
    Route(method="GET", path="/healthz", run=alive, summary="The process lives.", tag="health", needs=Access.LOOPBACK),
    Route(method="GET", path="/readyz", run=ready, summary="The store answers.", tag="health", needs=Access.LOOPBACK),
    Route(
        method="GET",
        path="/metrics",
        run=metrics,
        gives="text/plain",
        summary="Metrics for Prometheus.",
        tag="health",
        needs=Access.LOOPBACK,
    ),
)
