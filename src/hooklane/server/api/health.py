"""Health: does the process live, can it do its work, and what does it count?"""

from __future__ import annotations

import asyncio

from hooklane.errors import StoreError, StoreRefused
from hooklane.server.call import Access, Call, Response, Routes, answer
from hooklane.server.problem import problem_of
from hooklane.server.shapes_of_figures import Health

READY_S = 2.0


routes = Routes("health", "")


@routes.get("/healthz", "The process lives.", needs=Access.LOOPBACK, answers=Health)
async def alive(call: Call) -> Response:
    return answer({"status": "ok"})


@routes.get(
    "/readyz",
    "The store answers, what is published is kept, and deliveries flow.",
    needs=Access.LOOPBACK,
    answers=Health,
)
async def ready(call: Call) -> Response:
    """Whether this server can do its work; a load balancer sends nothing here while it cannot."""
    try:
        async with asyncio.timeout(READY_S):
            await call.services.store.roster()  # as a relay asks it: the reads of the API wait in a line of their own
    except (StoreError, TimeoutError) as error:
        why = problem_of(error).detail if isinstance(error, StoreRefused) else "no answer"
        return answer({"status": "unavailable", "store": why}, 503, headers=[("retry-after", "2")])
    if (trouble := call.services.publish_limits.trouble or call.services.publisher.trouble) is not None:
        return answer(
            {"status": "unavailable", "store": problem_of(trouble).detail}, 503, headers=[("retry-after", "2")]
        )
    if not call.services.is_delivering:
        return answer({"status": "unavailable", "relay": "not delivering"}, 503, headers=[("retry-after", "2")])
    return answer({"status": "ready"})


@routes.get(
    "/metrics",
    "Metrics for Prometheus, of all tenants together.",
    gives="text/plain",
    needs=Access.LOOPBACK,
    of_server=True,
)
async def metrics(call: Call) -> Response:
    store, totals = call.services.store, await call.services.totals.of_all()
    letters = await _inbox_dead(call)
    text, media = call.services.meter.exposition(totals, await store.health(), await store.endpoints(), letters)
    return Response(200, text, media=media)


async def _inbox_dead(call: Call) -> int | None:
    """The dead letters of an inbox in the server's database; None where there is none, or it cannot be read."""
    try:
        sources = (await call.services.inbox_sources.of("")).value
    except StoreError:
        return None  # it has another version: `GET /inbox` says so
    return sum(source["dead"] for source in sources) if sources else None
