"""Events: publish one or many, search, look at one and ask why it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from hooklane.core.wire import body_of
from hooklane.errors import InvalidEvent
from hooklane.model.api_key import Scope
from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.lane import DeliveryState
from hooklane.sender.draft import admit_idempotency_key, names_in_batch
from hooklane.server import views
from hooklane.server.api.dead_letters import HTTP
from hooklane.server.attempt_views import logged_attempt
from hooklane.server.call import NDJSON, PAGING, Call, Param, Response, Routes, answer, pattern_of
from hooklane.server.event_bodies import BatchBody, EventBody
from hooklane.server.event_types import TypeRules
from hooklane.server.json_body import (
    BATCH_BYTES_MAX,
    EVENT_BODY_BYTES_MAX,
    at,
    draft_from,
    read_batch,
    read_event,
)
from hooklane.server.problem import Problem, refused
from hooklane.server.schema_words import STATUS, SWITCH, TIME, one_of, whole
from hooklane.server.shapes import (
    AttemptShape,
    ListedEvent,
    ListShape,
    PublishedBatch,
    PublishedEvent,
    Story,
    WholeEvent,
    WhyEvent,
)
from hooklane.server.story import story_of
from hooklane.server.why import delivery_sentences
from hooklane.store.dashboard import EventSearch
from hooklane.store.outbox import Draft, Refused
from hooklane.store.reads import Delivery
from hooklane.telemetry.tracing import TRACEPARENT, publishing

PLACES_MAX = 999_999_999
_FILTER = (
    Param("q", "text in the key or the type, or the beginning of the id"),
    Param("id", "exact id"),
    Param("type", "a type, with `*` for anything"),
    Param("key", "exact key"),
    Param("endpoint", "id of an endpoint"),
    Param("state", f"one of {', '.join(DeliveryState)}", one_of(DeliveryState)),
    Param("seq", "its place in a lane", whole(1, PLACES_MAX)),
    Param("attempts_min", "tried at least so often at one endpoint", whole(1, PLACES_MAX)),
    Param("http", "answered so at least once, such as 422 or 5xx", STATUS),
    Param("reason", "failed so at least once, such as timeout, with `*` for anything"),
    Param("after", "published at or after this time", TIME),
    Param("before", "published before this time", TIME),
)
routes = Routes("events", "/api/v1/events")


@routes.post(
    "",
    "Publish an event; answered after the commit. `Idempotency-Key` makes repeating it safe.",
    status=202,
    takes=EventBody,
    body_max=EVENT_BODY_BYTES_MAX,
    scope=Scope.PUBLISH,
    answers=PublishedEvent,
)
async def publish(call: Call) -> Response:
    """Publish one event, as ingest.py does on its faster way: for the command line and for pipelined requests."""
    services = call.services
    if (used_up := services.publish_limits.used_up(call.tenant)) is not None:
        raise refused(used_up)
    draft = draft_from(read_event(call.body), call.tenant, services.now(), call.headers.get("idempotency-key"))
    await services.types.check(draft.event)
    with publishing([draft.event], call.headers.get(TRACEPARENT)):
        result = await services.publisher.publish(draft)
    if isinstance(result, Refused):
        raise refused(result)
    return answer(views.published(result), 202)


LONG_BYTES = 64 * 1024
CHECKS_A_TURN = 10
_long_batches = ThreadPoolExecutor(1, "hooklane batch reader")


def _drafts(text: bytes, headers: Mapping[str, str], tenant: str, now: Instant) -> list[Draft]:
    batch_key = headers.get("idempotency-key")
    if batch_key is not None:
        try:
            admit_idempotency_key(batch_key)
        except InvalidEvent as error:
            raise refused(Refused(error.code, str(error))) from None
    drafts = []
    bodies = read_batch(text, lines=NDJSON in headers.get("content-type", "").lower())
    for position, body in enumerate(bodies):
        names = () if batch_key is None else names_in_batch(batch_key, position, len(bodies))
        try:
            drafts.append(draft_from(body, tenant, now, None, names))
        except InvalidEvent as error:
            raise at(refused(Refused(error.code, str(error))), position) from None
    return drafts


@routes.post(
    "/batch",
    "Publish up to 1,000 events, all or nothing, in order; JSON or NDJSON.",
    status=202,
    takes=BatchBody,
    takes_lines=True,
    body_max=BATCH_BYTES_MAX,
    scope=Scope.PUBLISH,
    answers=PublishedBatch,
)
async def publish_batch(call: Call) -> Response:
    services = call.services
    now = services.now()
    drafts_of = partial(_drafts, call.body, call.headers, call.tenant, now)
    # What is long to read is read beside the event loop, one at a time.
    long = len(call.body) > LONG_BYTES
    drafts = await asyncio.get_running_loop().run_in_executor(_long_batches, drafts_of) if long else drafts_of()
    if services.types.enforced:
        await _check_types(services.types, drafts)
    with publishing([draft.event for draft in drafts], call.headers.get(TRACEPARENT)):
        results = await services.publisher.publish_batch(drafts)
    for position, result in enumerate(results):
        # The others were refused only because this one was.
        if isinstance(result, Refused) and result.code != "batch_refused":
            raise at(refused(result), position)
    published = [result for result in results if not isinstance(result, Refused)]
    return answer({"events": [views.published(result) for result in published]}, 202)


async def _check_types(rules: TypeRules, drafts: list[Draft]) -> None:
    for position, draft in enumerate(drafts):
        try:
            await rules.check(draft.event)
        except Problem as problem:
            raise at(problem, position) from None
        if position % CHECKS_A_TURN == CHECKS_A_TURN - 1:
            await asyncio.sleep(0)  # others are served in between


@routes.get(
    "",
    "Search events, newest first.",
    query=(*_FILTER, Param("data", "true: each event with its data", SWITCH), *PAGING),
    answers=ListShape[ListedEvent],
)
async def search(call: Call) -> Response:
    services, query = call.services, call.query
    state = call.word("state", DeliveryState, None)
    http = query.get("http")
    if http is not None and not HTTP.match(http):
        raise Problem("invalid_parameter", f"http must be a status such as 422 or 5xx, got {http[:40]!r}")
    wanted = EventSearch(
        text=query.get("q"),
        id=query.get("id"),
        seq=call.number("seq", 1, PLACES_MAX, None),
        attempts_min=call.number("attempts_min", 1, PLACES_MAX, None),
        http=None if http is None else http.replace("x", "?"),
        reason=pattern_of(query.get("reason"), "reason"),
        type=pattern_of(query.get("type"), "type"),
        key=query.get("key"),
        endpoint_id=query.get("endpoint"),
        state=None if state is None else DeliveryState(state),
        after=call.instant("after"),
        before=call.instant("before"),
    )
    page = await services.store.events(call.tenant, wanted, call.cursor("events"), call.limit())
    deliveries = await services.store.deliveries(call.tenant, [event.id for event in page.items])
    with_data = call.switch("data")
    items = [views.event(event, deliveries.get(event.id, ()), with_data=with_data) for event in page.items]
    return answer(call.listed("events", page, items))


@routes.get("/{id}", "An event with its deliveries.", answers=WholeEvent)
async def show(call: Call) -> Response:
    event, deliveries = await _find(call)
    return answer(views.event(event, deliveries, with_data=True))


@routes.get("/{id}/attempts", "Every attempt, oldest first.", answers=ListShape[AttemptShape])
async def attempts(call: Call) -> Response:
    event, deliveries = await _find(call)
    keys = {delivery.endpoint_id: delivery.key for delivery in deliveries}
    store = call.services.store
    endpoints = {one.id: one for one in await store.endpoints(call.tenant)}
    history = await store.history([(one.lane_id, one.seq) for one in deliveries if one.seq is not None])
    bodies: dict[str, bytes] = {}
    for one in deliveries:
        endpoint = endpoints.get(one.endpoint_id)
        if endpoint is not None:
            prev_seq = history[one.lane_id].prev_seq if one.lane_id in history else 0
            bodies[endpoint.id] = body_of(
                event, endpoint.payload, order=endpoint.order, key=one.key, seq=one.seq, prev_seq=prev_seq
            )
    items = []
    for row in await store.attempts(call.tenant, event.id):
        bound = endpoints[row.endpoint_id].attempts_max if row.endpoint_id in endpoints else None
        sent = bodies.get(row.endpoint_id, b"")
        items.append(logged_attempt(row, event, keys.get(row.endpoint_id), bound, sent))
    return answer({"items": items, "next": None})


@routes.get(
    "/{id}/story",
    "What happened to it, oldest first: published, waited for which seq, tries, and what people did.",
    answers=Story,
)
async def story(call: Call) -> Response:
    event, deliveries = await _find(call)
    return answer({"event": event.id, "items": await story_of(call, event, deliveries)})


@routes.get("/{id}/why", "One sentence: why it waits.", answers=WhyEvent)
async def why(call: Call) -> Response:
    event, deliveries = await _find(call)
    if not deliveries:
        return answer({"why": "It waits for nothing: no endpoint matched when it was published.", "deliveries": []})
    sentences = [
        {"endpoint": delivery.endpoint_id, "state": delivery.state, "why": sentence}
        for delivery, sentence in zip(deliveries, await delivery_sentences(call, deliveries), strict=True)
    ]
    open_first = sorted(sentences, key=lambda one: one["state"] in ("delivered", "skipped", "cancelled"))
    return answer({"event": event.id, "why": open_first[0]["why"], "deliveries": sentences})


async def _find(call: Call) -> tuple[Event, list[Delivery]]:
    event = await call.services.store.event(call.tenant, call.params["id"])
    if event is None:
        raise Problem("not_found", "there is no event with this id")
    deliveries = await call.services.store.deliveries(call.tenant, [event.id])
    return event, list(deliveries.get(event.id, ()))
