"""The receiver's happenings as metrics for Prometheus; never a label per key or event."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hooklane.errors import HooklaneError, MissingExtra
from hooklane.telemetry.events import (
    BreakerTurned,
    CommitHookFailed,
    FenceRejected,
    Handled,
    InboxEvent,
    LeaseTakenOver,
    Received,
    Refused,
)
from hooklane.telemetry.sinks import both

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_BREAKER = {"closed": 0, "half_open": 1, "open": 2}
_NOT_ABOUT_PROOF = ("broken_off", "method", "rate", "store_unavailable", "too_large", "unknown_source")


class InboxMetrics:
    """A sink: `Inbox(…, emit=InboxMetrics())`, in the default registry unless another is given.

    Counts what it is told. What only the store knows (dead letters, the oldest that is owed) is asked for at
    each scrape, of every inbox that tells this registry.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        try:
            from prometheus_client import REGISTRY
        except ImportError as error:
            raise MissingExtra("prometheus-client", "server") from error
        target = REGISTRY if registry is None else registry
        self._families = _FAMILIES.get(target) or _FAMILIES.setdefault(target, _Families(target))

    def __call__(self, event: InboxEvent) -> None:
        self._families.count(event)

    def bind(self, inbox: Any) -> None:
        """Ask *inbox* for its figures at each scrape."""
        self._families.inboxes.add(inbox)


class _Families:
    """The metrics of one registry: a name can be there only once, however many inboxes there are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        self.inboxes: weakref.WeakSet[Any] = weakref.WeakSet()
        self._received = Counter(
            "hooklane_inbox_received_total", "Messages by verdict", ["source", "outcome"], registry=registry
        )
        self._unproven = Counter(
            "hooklane_inbox_verify_failures_total",
            "Requests that did not prove who sent them, by reason",
            ["source", "reason"],
            registry=registry,
        )
        self._refused = Counter(
            "hooklane_inbox_refused_total",
            "Requests refused for another reason: size, method, rate, the store away, an unknown source",
            ["source", "reason"],
            registry=registry,
        )
        self._seconds = Histogram(
            "hooklane_inbox_handler_seconds",
            "How long handlers take",
            ["source", "handler", "status"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._lag = Histogram(
            "hooklane_inbox_lag_seconds", "From receipt to the end of a handler", buckets=_SECONDS, registry=registry
        )
        self._takeovers = Counter(
            "hooklane_inbox_lease_takeovers_total", "Claims whose owner's lease had run out", registry=registry
        )
        self._fenced = Counter(
            "hooklane_fence_rejections_total", "Work rolled back because its claim was taken over", registry=registry
        )
        self._hooks = Counter(
            "hooklane_inbox_commit_hook_failures_total", "Functions of event.on_commit that raised", registry=registry
        )
        self._breaker = Gauge(
            "hooklane_inbox_breaker_state", "0 closed, 1 half open, 2 open", ["source", "handler"], registry=registry
        )
        registry.register(_Asked(self.inboxes))

    def count(self, event: InboxEvent) -> None:
        match event:
            case Received():
                self._received.labels(event.source, str(event.verdict)).inc()
            case Refused(source=source, reason=reason):
                # An unknown source's name is whatever a stranger wrote into the path.
                label = "" if reason == "unknown_source" else source
                (self._refused if reason in _NOT_ABOUT_PROOF else self._unproven).labels(label, reason).inc()
            case Handled():
                self._seconds.labels(event.source, event.handler, str(event.status)).observe(event.took_ms / 1000)
                self._lag.observe(max(0.0, event.lag_ms / 1000))
            case LeaseTakenOver():
                self._takeovers.inc()
            case FenceRejected():
                self._fenced.inc()
            case CommitHookFailed():
                self._hooks.inc()
            case BreakerTurned():
                self._breaker.labels(event.source, event.handler).set(_BREAKER[event.state])
            case _:
                pass  # a log line tells it better than a number


class _Asked:
    """Figures that the store is asked for at each scrape; an inbox whose store is away is left out."""

    def __init__(self, inboxes: weakref.WeakSet[Any]) -> None:
        self._inboxes = inboxes

    def describe(self) -> Iterator[Any]:
        """The names, without asking an inbox: so the registry can refuse a second of them."""
        return self._families([], [])

    def collect(self) -> Iterator[Any]:
        dead: list[int] = []
        lag_ms: list[int] = []
        for inbox in list(self._inboxes):
            try:
                stats = inbox.stats()
            except HooklaneError:
                continue
            dead.append(stats.dead)
            lag_ms.append(stats.lag_ms)
        return self._families(dead, lag_ms)

    def _families(self, dead: list[int], lag_ms: list[int]) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        letters = GaugeMetricFamily("hooklane_dead_letters", "Dead letters.", labels=["side"])
        oldest = GaugeMetricFamily("hooklane_inbox_oldest_pending_seconds", "Age of the oldest event that is owed.")
        if dead:
            letters.add_metric(["inbox"], sum(dead))
            oldest.add_metric([], max(lag_ms) / 1000)
        yield letters
        yield oldest


_FAMILIES: weakref.WeakKeyDictionary[Any, _Families] = weakref.WeakKeyDictionary()

__all__ = ["InboxMetrics", "both"]
