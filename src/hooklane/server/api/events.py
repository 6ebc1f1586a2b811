"""Events: publish one or many, search, look at one and ask why it waits."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.errors import InvalidEvent
from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.lane import DeliveryState
from hooklane.sender.draft import draft_of
from hooklane.server import views
from hooklane.server.call import NDJSON, PAGING, Call, Handler, Param, Response, Route, answer
from hooklane.server.json_body import (
    BATCH_BYTES_MAX,
    EVENT_BODY_BYTES_MAX,
    BatchBody,
    EventBody,
    at,
    read_batch,
    read_event,
)
from hooklane.server.problem import Problem, refused
from hooklane.server.waiting import delivery_sentence
from hooklane.store.outbox import Draft, Refused
from hooklane.store.reads import Delivery, EventFilter


def draft_from(body: EventBody, tenant: str, now: Instant, idempotency_key: str | None) -> Draft:
    """The draft that a body of the wire asks for."""
    return draft_of(
        body.type,
        bytes(body.data),
        now=now,
        key=body.key,
        event_id=body.id,
        endpoints=body.endpoints,
        idempotency_key=idempotency_key,
        tenant=tenant,
    )


async def publish(call: Call) -> Response:
    """Publish one event, as ingest.py does on its faster way: for the command line and for pipelined requests."""
    gateway = call.gateway
    draft = draft_from(read_event(call.body), call.tenant, gateway.now(), call.headers.get("idempotency-key"))
    result = await gateway.publisher.publish(draft)
    if isinstance(result, Refused):
        raise refused(result.code, result.detail)
    return answer(views.published(result), 202)


async def publish_batch(call: Call) -> Response:
    gateway = call.gateway
    now = gateway.now()
    bodies = read_batch(call.body, lines=NDJSON in call.headers.get("content-type", ""))
    batch_key = call.headers.get("idempotency-key")
    drafts = []
    for position, body in enumerate(bodies):
        # Each event of the batch gets a name of its own, so that repeating the batch repeats every event.
        name = None if batch_key is None else f"{batch_key}#{position}"
        try:
            drafts.append(draft_from(body, call.tenant, now, name))
        except InvalidEvent as error:
            raise at(refused(error.code, str(error)), position) from None
    results = await gateway.publisher.publish_batch(drafts)
    for position, result in enumerate(results):
        # The others were refused only because this one was.
        if isinstance(result, Refused) and result.code != "batch_refused":
            raise at(refused(result.code, result.detail), position)
    return answer({"events": [views.published(result) for result in results if not isinstance(result, Refused)]}, 202)


async def search(call: Call) -> Response:
    gateway, query = call.gateway, call.query
    state = query.get("state")
    if state is not None and state not in tuple(DeliveryState):
        raise Problem("invalid_parameter", f"state must be one of {', '.join(DeliveryState)}, got {state[:40]!r}")
    wanted = EventFilter(
        type=query.get("type"),
        key=query.get("key"),
        endpoint_id=query.get("endpoint"),
        state=None if state is None else DeliveryState(state),
        after=call.instant("after"),
        before=call.instant("before"),
    )
    cursor = gateway.cursors.open("events", query)
    page = await gateway.store.events(call.tenant, wanted, cursor, call.limit())
    deliveries = await gateway.store.deliveries(call.tenant, [event.id for event in page.items])
    items = [views.event(event, deliveries.get(event.id, ()), with_data=False) for event in page.items]
    return answer(gateway.sealed(call, "events", page, items))


async def show(call: Call) -> Response:
    event, deliveries = await _find(call)
    return answer(views.event(event, deliveries, with_data=True))


async def attempts(call: Call) -> Response:
    event, _ = await _find(call)
    rows = await call.gateway.store.attempts(call.tenant, event.id)
    return answer({"items": [views.attempt(row) for row in rows], "next": None})


async def why(call: Call) -> Response:
    event, deliveries = await _find(call)
    if not deliveries:
        return answer({"why": "It waits for nothing: no endpoint matched when it was published.", "deliveries": []})
    sentences = [
        {"endpoint": delivery.endpoint_id, "state": delivery.state, "why": await delivery_sentence(call, delivery)}
        for delivery in deliveries
    ]
    open_first = sorted(sentences, key=lambda one: one["state"] in ("delivered", "skipped", "cancelled"))
    return answer({"event": event.id, "why": open_first[0]["why"], "deliveries": sentences})


async def _find(call: Call) -> tuple[Event, list[Delivery]]:
    event = await call.gateway.store.event(call.tenant, call.params["id"])
    if event is None:
        raise Problem("not_found")
    deliveries = await call.gateway.store.deliveries(call.tenant, [event.id])
    return event, list(deliveries.get(event.id, ()))


_FILTER = (
    Param("type", "exact type"),
    Param("key", "exact key"),
    Param("endpoint", "id of an endpoint"),
    Param("state", f"one of {', '.join(DeliveryState)}"),
    Param("after", "published at or after this time"),
    Param("before", "published before this time"),
)


def _get(path: str, run: Handler, summary: str, query: Sequence[Param] = ()) -> Route:
    return Route(method="GET", path=path, run=run, query=query, summary=summary, tag="events")


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/events",
        run=publish,
        status=202,
        takes=EventBody,
        body_max=EVENT_BODY_BYTES_MAX,
        summary="Publish an event; answered after the commit. `Idempotency-Key` makes repeating it safe.",
        tag="events",
    ),
    Route(
        method="POST",
        path="/api/v1/events/batch",
        run=publish_batch,
        status=202,
        takes=BatchBody,
        body_max=BATCH_BYTES_MAX,
        summary="Publish up to 1,000 events, all or nothing, in order; JSON or NDJSON.",
        tag="events",
    ),
    _get("/api/v1/events", search, "Search events, newest first.", (*_FILTER, *PAGING)),
    _get("/api/v1/events/{id}", show, "An event with its deliveries."),
    _get("/api/v1/events/{id}/attempts", attempts, "Every try, oldest first."),
    _get("/api/v1/events/{id}/why", why, "One sentence: why it waits."),
)
