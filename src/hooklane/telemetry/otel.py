"""Spans for OpenTelemetry (extra `otel`): publish, each attempt, and the receiver's handler, as one trace.

    from hooklane.telemetry import otel
    otel.enable()       # with the application's tracer provider; `hooklane serve` does it with HOOKLANE_OTEL=true

A span tells ids, numbers and words; never a body, a header's value, a secret or a URL beyond its host.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any
from urllib.parse import urlsplit

from hooklane.errors import MissingExtra
from hooklane.model.attempt import Delivered, Send, Settlement, outcome_word
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, NoAnswer
from hooklane.telemetry import tracing
from hooklane.telemetry.deliveries import Happening, Recorded
from hooklane.telemetry.tracing import TRACEPARENT, Handling

try:
    from opentelemetry import context as contexts
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as missing:
    raise MissingExtra("opentelemetry", "otel") from missing

OPEN_MAX = 10_000
"""Spans of attempts under way; of an outcome that was fenced off nothing is told, and its span ends to make room."""
_W3C = TraceContextTextMapPropagator()

_Place = tuple[int, int, int]
"""Lane, seq and attempt."""


def enable(provider: TracerProvider | None = None) -> OpenTelemetry:
    """Trace this process, with *provider* or the one that the application has set."""
    made = OpenTelemetry(provider)
    tracing.use(made)
    return made


def disable() -> None:
    tracing.use(None)


def export_over_http() -> Callable[[], None]:
    """Trace this process and send spans over OTLP/HTTP, as the `OTEL_…` variables say; call the result at the end."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as SdkProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as missing:
        raise MissingExtra("opentelemetry-exporter-otlp-proto-http", "otel") from missing
    # What OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say wins over the name given here.
    provider = SdkProvider(resource=Resource({"service.name": "hooklane"}).merge(Resource.create()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    enable(provider)

    def end() -> None:
        disable()
        provider.shutdown()

    return end


class OpenTelemetry:
    """`Tracing` by OpenTelemetry's API: which spans are recorded, and where they go, its provider knows."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("hooklane", tracer_provider=provider)
        self._open: OrderedDict[_Place, Span] = OrderedDict()

    @contextmanager
    def publishing(self, events: Sequence[Event], parent: str | None) -> Iterator[None]:
        first = events[0]
        attributes: dict[str, Any] = {"messaging.system": "hooklane", "messaging.operation.type": "send"}
        if len(events) == 1:
            attributes |= {"messaging.message.id": first.id, "hooklane.type": first.type, **_keyed(first.key)}
        else:
            attributes["messaging.batch.message_count"] = len(events)
        name = f"publish {first.type}" if len(events) == 1 else "publish batch"
        with self._tracer.start_as_current_span(
            name, context=_context(parent), kind=SpanKind.PRODUCER, attributes=attributes
        ) as span:
            text = traceparent_of(span)
            for event in events:
                event.trace = text
            yield

    def sending(self, send: Send) -> bytes:
        endpoint = send.endpoint
        attributes: dict[str, Any] = {
            "messaging.system": "hooklane",
            "messaging.message.id": send.event.id,
            "hooklane.type": send.event.type,
            "hooklane.endpoint": endpoint.id,
            "hooklane.attempt": send.attempt,
            "server.address": urlsplit(endpoint.url).hostname or "",
            **_keyed(send.key),
        }
        if not send.is_loose:
            attributes["hooklane.seq"] = send.seq
        span = self._tracer.start_span(
            f"attempt {send.event.type}",
            context=_context(send.event.trace) or Context(),
            kind=SpanKind.CLIENT,
            attributes=attributes,
        )
        while len(self._open) >= OPEN_MAX:
            self._open.popitem(last=False)[1].end()
        self._open[_place_of(send)] = span
        return b"%b: %b\r\n" % (TRACEPARENT.encode(), traceparent_of(span).encode())

    def listen(self, happening: Happening) -> None:
        if isinstance(happening, Recorded):
            for settlement in happening.settlements:
                span = self._open.pop(_place_of(settlement.send), None)
                if span is not None:
                    _end(span, settlement)

    def handling(self, fn: Callable[..., Any], about: Handling) -> Callable[..., Any]:
        parent = next((value for name, value in about.headers if name.lower() == TRACEPARENT), None)

        @contextmanager
        def span() -> Iterator[None]:
            attributes: dict[str, Any] = {
                "messaging.system": "hooklane",
                "messaging.operation.type": "process",
                "messaging.message.id": about.id,
                "hooklane.type": about.type,
                "hooklane.source": about.source,
                "hooklane.handler": about.handler,
                "hooklane.attempt": about.attempt,
            }
            with self._tracer.start_as_current_span(
                f"handle {about.type}",
                context=_context(parent),
                kind=SpanKind.CONSUMER,
                attributes=attributes,
                record_exception=False,  # its text may quote the payload
                set_status_on_exception=False,
            ) as one:
                try:
                    yield
                except BaseException as error:
                    one.set_status(Status(StatusCode.ERROR, type(error).__name__))
                    raise

        if inspect.iscoroutinefunction(fn):

            @wraps(fn)
            async def later(*args: Any) -> Any:
                with span():
                    return await fn(*args)

            return later

        @wraps(fn)
        def now(*args: Any) -> Any:
            with span():
                return fn(*args)

        return now


def traceparent_of(span: Span) -> str:
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _context(parent: str | None) -> Context | None:
    """The context that *parent* names; None, the current one, where it names none."""
    if parent is None:
        return None
    found = _W3C.extract({TRACEPARENT: parent}, context=Context())
    return found if trace.get_current_span(found).get_span_context().is_valid else contexts.get_current()


def _keyed(key: str | None) -> dict[str, str]:
    return {} if key is None else {"hooklane.key": key}


def _place_of(send: Send) -> _Place:
    return send.lane_id, send.seq, send.attempt


def _end(span: Span, settlement: Settlement) -> None:
    outcome, result = settlement.outcome, settlement.result
    span.set_attribute("hooklane.outcome", outcome_word(outcome))
    if isinstance(result, Answer):
        span.set_attribute("http.response.status_code", result.status)
        if result.outcome is not None:
            span.set_attribute("hooklane.said", result.outcome[:40])
    elif isinstance(result, NoAnswer):
        span.set_attribute("error.type", str(result.failure))
    if not isinstance(outcome, Delivered):
        span.set_status(Status(StatusCode.ERROR, outcome.reason))
    span.end()
