"""The breaker of an endpoint: what it did lately, and closing it by hand."""

from __future__ import annotations

import re

from hooklane.model.clock import START
from hooklane.model.health import BreakerState, Health
from hooklane.server import views
from hooklane.server.api.endpoints import find
from hooklane.server.call import Call, Param, Response, Routes, answer
from hooklane.server.last_hour import ENDPOINTS_MAX, last_hour
from hooklane.server.problem import Problem
from hooklane.server.shapes import BreakerChange, BreakerShape, LastHour

CHANGES_SHOWN = 200
TRIES = 5
_IDS = f"[a-z0-9_]{{1,64}}(,[a-z0-9_]{{1,64}}){{0,{ENDPOINTS_MAX - 1}}}"
_HELD = (BreakerState.OPEN, BreakerState.PROBING)


routes = Routes("endpoints", "/api/v1/endpoints")


@routes.get(
    "/last-hour",
    "The last hour of endpoints in slots of two minutes: what was delivered, what failed, what the breaker did.",
    query=(
        Param(
            "ids",
            f"whose, with commas, at most {ENDPOINTS_MAX}; the {ENDPOINTS_MAX} oldest unless given",
            {"type": "string", "pattern": f"^{_IDS}$"},
        ),
    ),
    answers=LastHour,
)
async def hours(call: Call) -> Response:
    store, text = call.services.store, call.query.get("ids")
    if text is None:
        endpoints = (await store.endpoints(call.tenant))[:ENDPOINTS_MAX]
    else:
        if not re.fullmatch(_IDS, text):
            raise Problem("invalid_parameter", f"ids must be 1 to {ENDPOINTS_MAX} ids of endpoints, got {text[:40]!r}")
        found = [await store.endpoint(call.tenant, id) for id in dict.fromkeys(text.split(","))]
        endpoints = [one for one in found if one is not None]
    return answer(await last_hour(call.services, call.tenant, endpoints))


@routes.get("/{id}/breaker", "The breaker and what it did lately, with times.", answers=BreakerShape)
async def show(call: Call) -> Response:
    endpoint = await find(call)
    return answer(await _breaker(call, endpoint.id))


@routes.post(
    "/{id}/close",
    "Close the breaker by hand: send again at once, a few at first; this is on record.",
    answers=BreakerShape,
)
async def close(call: Call) -> Response:
    """Send again at once, step by step; what is still ill opens it again."""
    endpoint = await find(call)
    store = call.services.store
    for _ in range(TRIES):
        known = (await store.health(call.tenant)).get(endpoint.id)
        if known is None or known.state is BreakerState.CLOSED:
            break
        now = call.services.now()
        closed = Health(endpoint.id, known.turn + 1, BreakerState.CLOSED, now, 0, call.actor)
        if closed in await store.note_health([closed]):
            await store.record(call.act("breaker.closed", endpoint.id))
            call.services.endpoints_changed()
            break
    else:
        raise Problem("changed", "the breaker turns by itself at this moment; nothing was changed, so send it again")
    return answer(await _breaker(call, endpoint.id))


async def _breaker(call: Call, endpoint_id: str) -> views.View:
    store = call.services.store
    health = (await store.health(call.tenant)).get(endpoint_id)
    turns = await store.breaker_turns(call.tenant, endpoint_id, START, CHANGES_SHOWN)
    changes = [
        views.filled(
            BreakerChange,
            turn,
            until=turn.until if turn.state in _HELD else None,
            by=turn.by if call.caller.tenant is None else "",  # the name of a worker tells a host
        )
        for turn in reversed(turns)
    ]
    return {**views.breaker(health), "changes": changes}
