"""Test and probe an endpoint: one request made at once, outside of all lanes, and its result."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec

from hooklane.core.endpoint import within_bounds
from hooklane.core.entry import admit_data, admit_type
from hooklane.model.attempt import Send
from hooklane.model.endpoint import Endpoint, Order
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Result
from hooklane.model.ids import new_id
from hooklane.sender.egress import UrlNotAllowed
from hooklane.sender.signed_request import SignedRequests
from hooklane.server import views
from hooklane.server.api.endpoints import find
from hooklane.server.call import Call, Response, Routes, answer
from hooklane.server.problem import Problem
from hooklane.server.schema_words import TYPE, told
from hooklane.server.shapes import Probed, Tested

TEST_TYPE = "hooklane.test"
PING_TYPE = "hooklane.ping"


class TestBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The event to send as a test; it is not stored."""

    type: Annotated[str, told(TYPE)] = TEST_TYPE
    data: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b'{"test":true}'))


routes = Routes("endpoints", "/api/v1/endpoints")


@routes.post(
    "/{id}/test",
    "Send a test event at once, outside of all lanes, and answer what came of it.",
    takes=TestBody,
    answers=Tested,
)
async def test(call: Call) -> Response:
    body = call.read(TestBody)
    admit_type(body.type)
    data = bytes(body.data)
    admit_data(data)
    endpoint = await find(call)
    event = _event(call, body.type, data)
    result = await _send(call, endpoint, event)
    return answer({"event": event.id, "endpoint": endpoint.id, **views.exchange(result)})


@routes.post("/{id}/probe", "Send a ping at once and answer whether the endpoint can be reached.", answers=Probed)
async def probe(call: Call) -> Response:
    endpoint = await find(call)
    result = await _send(call, endpoint, _event(call, PING_TYPE, b"{}"))
    view = views.exchange(result)
    return answer({"endpoint": endpoint.id, "reachable": view["status"] is not None, **view})


def _event(call: Call, type_: str, data: bytes) -> Event:
    now = call.services.now()
    return Event(new_id("evt", now), type_, None, data, now, call.tenant)


async def _send(call: Call, endpoint: Endpoint, event: Event) -> Result:
    """Through the same guard, signature and transport as every delivery."""
    services = call.services
    if endpoint.suspended:
        raise Problem("tenant_suspended", "this tenant is suspended: nothing is sent to its endpoints")
    try:
        services.guard.check(endpoint.url)
    except UrlNotAllowed as error:
        raise Problem("url_not_allowed", str(error)) from None
    now = services.now()
    # On a key of its own, where it is the first: it stands in no real line, and a receiver that checks order takes it.
    lane, key = (1, f"test:{event.id}") if endpoint.order is Order.KEY else (-1, None)
    alone = Send(
        lane, 0, 0, 0, key=key, seq=1, prev_seq=0, attempt=1, event=event, endpoint=within_bounds(endpoint), at=now
    )
    requests = SignedRequests()
    target, headers, body = requests.write(alone, now)
    answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    # A test stands in no line, so it needs a bound of its own: each holds a connection that deliveries may want.
    with services.tests.taken(call.tenant):
        services.transport.send(target, headers, body, lambda it: None if answered.done() else answered.set_result(it))
        result = await answered
    if isinstance(result, Answer):
        requests.hide(alone, result)
    return result
