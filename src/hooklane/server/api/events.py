"""Events: publish one or many, search, look at one and ask why it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from hooklane.errors import InvalidEvent
from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.lane import DeliveryState
from hooklane.sender.draft import draft_of
from hooklane.server import views
from hooklane.server.attempt_views import logged_attempt
from hooklane.server.call import NDJSON, PAGING, Call, Param, Response, Route, answer, pattern_of
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
from hooklane.server.shapes import (
    AttemptShape,
    EventShape,
    ListShape,
    PublishedBatch,
    PublishedEvent,
    WholeEvent,
    WhyEvent,
)
from hooklane.server.why import delivery_sentence
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
    services = call.services
    draft = draft_from(read_event(call.body), call.tenant, services.now(), call.headers.get("idempotency-key"))
    result = await services.publisher.publish(draft)
    if isinstance(result, Refused):
        raise refused(result)
    return answer(views.published(result), 202)


LONG_BYTES = 64 * 1024
_long_batches = ThreadPoolExecutor(1, "hooklane batch reader")


def _drafts(text: bytes, headers: Mapping[str, str], tenant: str, now: Instant) -> list[Draft]:
    batch_key = headers.get("idempotency-key")
    drafts = []
    for position, body in enumerate(read_batch(text, lines=NDJSON in headers.get("content-type", ""))):
        # Each event of the batch gets a name of its own, so that repeating the batch repeats every event.
        name = None if batch_key is None else f"{batch_key}#{position}"
        try:
            drafts.append(draft_from(body, tenant, now, name))
        except InvalidEvent as error:
            raise at(refused(Refused(error.code, str(error))), position) from None
    return drafts


async def publish_batch(call: Call) -> Response:
    services = call.services
    now = services.now()
    drafts_of = partial(_drafts, call.body, call.headers, call.tenant, now)
    # What is long to read is read beside the event loop, one at a time.
    long = len(call.body) > LONG_BYTES
    drafts = await asyncio.get_running_loop().run_in_executor(_long_batches, drafts_of) if long else drafts_of()
    results = await services.publisher.publish_batch(drafts)
    for position, result in enumerate(results):
        # The others were refused only because this one was.
        if isinstance(result, Refused) and result.code != "batch_refused":
            raise at(refused(result), position)
    return answer({"events": [views.published(result) for result in results if not isinstance(result, Refused)]}, 202)


async def search(call: Call) -> Response:
    services, query = call.services, call.query
    state = query.get("state")
    if state is not None and state not in tuple(DeliveryState):
        raise Problem("invalid_parameter", f"state must be one of {', '.join(DeliveryState)}, got {state[:40]!r}")
    wanted = EventFilter(
        type=pattern_of(query.get("type"), "type"),
        key=query.get("key"),
        endpoint_id=query.get("endpoint"),
        state=None if state is None else DeliveryState(state),
        after=call.instant("after"),
        before=call.instant("before"),
    )
    cursor = call.cursor("events")
    page = await services.store.events(call.tenant, wanted, cursor, call.limit())
    deliveries = await services.store.deliveries(call.tenant, [event.id for event in page.items])
    items = [views.event(event, deliveries.get(event.id, ()), with_data=False) for event in page.items]
    return answer(services.sealed(call, "events", page, items))


async def show(call: Call) -> Response:
    event, deliveries = await _find(call)
    return answer(views.event(event, deliveries, with_data=True))


async def attempts(call: Call) -> Response:
    event, deliveries = await _find(call)
    keys = {delivery.endpoint_id: delivery.key for delivery in deliveries}
    bounds = {one.id: one.attempts_max for one in await call.services.store.endpoints(call.tenant)}
    items = [
        logged_attempt(row, event, keys.get(row.endpoint_id), bounds.get(row.endpoint_id))
        for row in await call.services.store.attempts(call.tenant, event.id)
    ]
    return answer({"items": items, "next": None})


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
    event = await call.services.store.event(call.tenant, call.params["id"])
    if event is None:
        raise Problem("not_found", "there is no event with this id")
    deliveries = await call.services.store.deliveries(call.tenant, [event.id])
    return event, list(deliveries.get(event.id, ()))


_FILTER = (
    Param("type", "exact type"),
    Param("key", "exact key"),
    Param("endpoint", "id of an endpoint"),
    Param("state", f"one of {', '.join(DeliveryState)}"),
    Param("after", "published at or after this time"),
    Param("before", "published before this time"),
)


ROUTES = (
    Route(
        "POST",
        "/api/v1/events",
        publish,
        "Publish an event; answered after the commit. `Idempotency-Key` makes repeating it safe.",
        status=202,
        takes=EventBody,
        body_max=EVENT_BODY_BYTES_MAX,
        tag="events",
        answers=PublishedEvent,
    ),
    Route(
        "POST",
        "/api/v1/events/batch",
        publish_batch,
        "Publish up to 1,000 events, all or nothing, in order; JSON or NDJSON.",
        status=202,
        takes=BatchBody,
        body_max=BATCH_BYTES_MAX,
        tag="events",
        answers=PublishedBatch,
    ),
    Route(
        "GET",
        "/api/v1/events",
        search,
        "Search events, newest first.",
        tag="events",
        query=(*_FILTER, *PAGING),
        answers=ListShape[EventShape],
    ),
    Route("GET", "/api/v1/events/{id}", show, "An event with its deliveries.", tag="events", answers=WholeEvent),
    Route(
        "GET",
        "/api/v1/events/{id}/attempts",
        attempts,
        "Every attempt, oldest first.",
        tag="events",
        answers=ListShape[AttemptShape],
    ),
    Route("GET", "/api/v1/events/{id}/why", why, "One sentence: why it waits.", tag="events", answers=WhyEvent),
)
