"""One trace from a publish over its attempts into the receiver's handler; nothing of it while tracing is off."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.promises.sending.api.conftest import Api, Start
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Request, Sink

from hooklane import Inbox
from hooklane.core.signing import new_secret
from hooklane.model.message import Request as Inbound
from hooklane.telemetry import otel

SECRET = new_secret(b"0" * 32)
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{CALLER}-01"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """Where the spans of this process end up, while it is traced."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    otel.enable(provider)
    yield exporter
    otel.disable()


class Shop:
    """A receiver of ours behind real HTTP, which is down for the first two requests."""

    def __init__(self, mode: Any) -> None:
        self.inbox = Inbox("memory://", mode=mode)
        self.seen: list[str] = []
        self._refusals = 2
        source = self.inbox.source("hooklane", secrets=[SECRET])

        @source.on("order.*", order="none")
        def handle(event: Any, tx: Any) -> None:
            self.seen.append(event.id)

    def react(self, request: Request) -> Answer:
        if self._refusals:
            self._refusals -= 1
            return Answer(status=503)
        inbound = Inbound.of(request.method, "/hooklane", request.headers, request.body)
        reply = self.inbox.receive(inbound, "hooklane")
        return Answer(status=reply.status, headers=dict(reply.headers), body=reply.body)


def parent(span: ReadableSpan) -> str:
    assert span.parent is not None
    return f"{span.parent.span_id:016x}"


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


@pytest.mark.parametrize("mode", ["inline", "durable"])
async def test_a_publish_its_failed_attempts_its_delivery_and_the_handler_are_one_trace(
    api: Api, sink: Sink, spans: InMemorySpanExporter, mode: str
) -> None:
    shop = Shop(mode)
    sink.react = shop.react
    await api.endpoint(sink.url("/hooklane"), secret=SECRET, backoff_ms=20)
    body = {"type": "order.created", "data": {"card": "canary"}, "key": "order:1"}
    answer = await api.call("POST", "/api/v1/events", body, {"traceparent": TRACEPARENT})
    await sink.arrived(3)

    async def handled() -> bool:
        if mode == "durable":
            shop.inbox.run_once()
        return bool(shop.seen) and len(spans.get_finished_spans()) >= 5

    await eventually(handled)
    shop.inbox.close()
    told = sorted(spans.get_finished_spans(), key=lambda span: span.start_time or 0)
    [publish], attempts, [handler] = (
        [span for span in told if span.name.startswith(word)] for word in ("publish", "attempt", "handle")
    )
    assert {f"{span.context.trace_id:032x}" for span in told if span.context} == {TRACE}
    assert parent(publish) == CALLER
    assert [parent(span) for span in attempts] == [id_of(publish)] * 3
    assert [(span.attributes or {})["hooklane.outcome"] for span in attempts] == ["retry", "retry", "delivered"]
    assert [span.status.is_ok for span in attempts] == [False, False, True]
    assert parent(handler) == id_of(attempts[-1])
    assert shop.seen == [answer.json["id"]]
    everything = "".join(span.to_json() for span in told)
    for secret in ("canary", SECRET.removeprefix("whsec_"), "v1,"):
        assert secret not in everything


async def test_an_event_that_another_process_delivers_stays_in_the_trace(
    shared_db: str, start: Start, sink: Sink, spans: InMemorySpanExporter
) -> None:
    publishes: Api = await start(db=shared_db, role=("api",))
    await publishes.endpoint(sink.url())
    batch = {"events": [{"type": "a", "data": 1, "key": "k"}, {"type": "b", "data": 2, "key": "k"}]}
    await publishes.call("POST", "/api/v1/events/batch", batch, {"traceparent": TRACEPARENT})

    await start(db=shared_db)  # which has only the store to know it from

    requests = await sink.arrived(2)
    assert {request.headers["traceparent"][3:35] for request in requests} == {TRACE}
    assert len({request.headers["traceparent"] for request in requests}) == 2  # an attempt each


async def test_a_traceparent_that_is_none_begins_a_new_trace(
    api: Api, sink: Sink, endpoint: Any, spans: InMemorySpanExporter
) -> None:
    for odd in ("", "00-zz-00-01", f"00-{'0' * 32}-{'0' * 16}-01", "x" * 4000):
        body = {"type": "a", "data": 1}
        assert (await api.call("POST", "/api/v1/events", body, {"traceparent": odd} if odd else {})).status == 202
    for request in await sink.arrived(4):
        assert request.headers["traceparent"].startswith("00-")


async def test_while_tracing_is_off_nothing_is_sent_along(api: Api, sink: Sink, endpoint: Any) -> None:
    await api.call("POST", "/api/v1/events", {"type": "a", "data": 1}, {"traceparent": TRACEPARENT})
    [request] = await sink.arrived(1)

    assert "traceparent" not in request.headers


def test_while_tracing_is_off_nothing_of_it_is_loaded() -> None:
    code = "import sys, hooklane, hooklane.cli.process; print('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"False"


async def test_spans_go_out_over_http_as_the_usual_variables_say(
    api: Api, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Sink() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url("").rstrip("/"))
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-webhooks")
        end = otel.export_over_http()
        await api.endpoint(sink.url())
        await api.publish("order.created", key="k")
        await sink.arrived(1)

        async def delivered() -> bool:
            page = await api.get("/api/v1/attempts")
            return bool(page["items"])

        await eventually(delivered)
        await asyncio.to_thread(end)
        sent = [ExportTraceServiceRequest.FromString(request.body) for request in await collector.arrived(1)]

    names = {
        span.name for one in sent for group in one.resource_spans for scope in group.scope_spans for span in scope.spans
    }
    assert names == {"publish order.created", "attempt order.created"}
    [service] = {
        pair.value.string_value
        for one in sent
        for group in one.resource_spans
        for pair in group.resource.attributes
        if pair.key == "service.name"
    }
    assert service == "shop-webhooks"


async def test_an_empty_batch_is_answered_while_tracing_is_on(api: Api, spans: InMemorySpanExporter):
    answer = await api.call("POST", "/api/v1/events/batch", {"events": []})

    assert (answer.status, answer.json) == (202, {"events": []})
