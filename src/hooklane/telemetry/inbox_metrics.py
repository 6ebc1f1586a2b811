"""The receiver's happenings as metrics for Prometheus; never a label per key or event."""

from __future__ import annotations

from typing import Any

from hooklane.errors import MissingExtra
from hooklane.telemetry.events import (
    BreakerTurned,
    FenceRejected,
    Handled,
    InboxEvent,
    LeaseTakenOver,
    Received,
    Refused,
)

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_BREAKER = {"closed": 0, "half_open": 1, "open": 2}


class InboxMetrics:
    """A sink: `Inbox(…, emit=InboxMetrics(registry))`."""

    def __init__(self, registry: Any = None) -> None:
        try:
            from prometheus_client import REGISTRY, Counter, Gauge, Histogram
        except ImportError as error:
            raise MissingExtra("prometheus-client", "server") from error
        target: Any = REGISTRY if registry is None else registry
        self._received = Counter(
            "hooklane_inbox_received_total", "Messages by verdict", ["source", "outcome"], registry=target
        )
        self._refused = Counter(
            "hooklane_inbox_verify_failures_total", "Requests refused, by reason", ["source", "reason"], registry=target
        )
        self._seconds = Histogram(
            "hooklane_inbox_handler_seconds",
            "How long handlers take",
            ["source", "handler", "status"],
            buckets=_SECONDS,
            registry=target,
        )
        self._lag = Histogram(
            "hooklane_inbox_lag_seconds", "From receipt to the end of a handler", buckets=_SECONDS, registry=target
        )
        self._takeovers = Counter(
            "hooklane_inbox_lease_takeovers_total", "Claims whose owner's lease had run out", registry=target
        )
        self._fenced = Counter(
            "hooklane_fence_rejections_total", "Work rolled back because its claim was taken over", registry=target
        )
        self._breaker = Gauge(
            "hooklane_inbox_breaker_state", "0 closed, 1 half open, 2 open", ["source", "handler"], registry=target
        )

    def __call__(self, event: InboxEvent) -> None:
        match event:
            case Received():
                self._received.labels(event.source, str(event.verdict)).inc()
            case Refused(source=source, reason=reason):
                # An unknown source's name is whatever a stranger wrote into the path.
                self._refused.labels("" if reason == "unknown_source" else source, reason).inc()
            case Handled():
                self._seconds.labels(event.source, event.handler, str(event.status)).observe(event.took_ms / 1000)
                self._lag.observe(event.lag_ms / 1000)
            case LeaseTakenOver():
                self._takeovers.inc()
            case FenceRejected():
                self._fenced.inc()
            case BreakerTurned():
                self._breaker.labels(event.source, event.handler).set(_BREAKER[event.state])
            case _:
                pass  # a log line tells it better than a number


def both(*sinks: Any) -> Any:
    """One sink out of several."""

    def emit(event: InboxEvent) -> None:
        for sink in sinks:
            sink(event)

    return emit
