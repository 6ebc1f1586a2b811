"""What does this process count? The metrics of the contract, under their names; never a label per key."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter as CountOf
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from hooklane.model.attempt import Dead, Delivered, Gone, Retry, Settlement
from hooklane.model.endpoint import Endpoint
from hooklane.model.health import BreakerState
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.model.redelivery import is_redelivery
from hooklane.store.reads import OutboxReads
from hooklane.telemetry.deliveries import Fenced, Happening, Recorded

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400)
_WORDS = {Delivered: "delivered", Retry: "retry", Dead: "dead", Gone: "dead"}
_LEFT_ALONE = {BreakerState.CLOSED: 0, BreakerState.RAMPING: 1, BreakerState.PROBING: 2, BreakerState.OPEN: 3}
_OWED = (DeliveryState.QUEUED, DeliveryState.IN_FLIGHT, DeliveryState.RETRYING)


class Durations(Collector):
    """A histogram that takes many values at once: one lock and one call for each would show on the hot path."""

    def __init__(self, name: str, what: str, registry: CollectorRegistry) -> None:
        self._name = name
        self._what = what
        self._counts = [0] * (len(_SECONDS) + 1)
        self._sum = 0.0
        registry.register(self)

    def add(self, seconds: Sequence[float]) -> None:
        counts = self._counts
        for value in seconds:
            counts[bisect_left(_SECONDS, value)] += 1
        self._sum += sum(seconds)

    def collect(self) -> Iterable[HistogramMetricFamily]:
        total, buckets = 0, []
        for bound, count in zip((*_SECONDS, float("inf")), self._counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), total))
        yield HistogramMetricFamily(self._name, self._what, buckets=buckets, sum_value=self._sum)


class Meter:
    """Counts what happens as it happens, and asks the store for the rest when somebody scrapes."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.published = Counter("hooklane_events_published", "Events made durable.", registry=registry)
        self._attempts = Counter(
            "hooklane_attempts", "Attempts that ended.", ["endpoint", "outcome"], registry=registry
        )
        self._delivery = Durations("hooklane_delivery_seconds", "From publish to ack.", registry)
        self._attempt = Durations("hooklane_attempt_seconds", "One attempt.", registry)
        self._fenced = Counter(
            "hooklane_fence_rejections", "Outcomes that came after the partition had another owner.", registry=registry
        )
        self._lanes = Gauge("hooklane_lanes", "Lanes by state.", ["state"], registry=registry)
        self._backlog = Gauge("hooklane_backlog", "Deliveries owed and not dead.", registry=registry)
        self._oldest = Gauge(
            "hooklane_oldest_pending_seconds", "Age of the oldest event that is still owed.", registry=registry
        )
        self._size = Gauge("hooklane_store_bytes", "Room that the store takes.", registry=registry)
        self._dead = Gauge("hooklane_dead_letters", "Dead letters.", ["side"], registry=registry)
        self._breaker = Gauge(
            "hooklane_breaker_state",
            "Whether an endpoint is left alone: 0 closed, 1 ramping, 2 probing, 3 open.",
            ["endpoint"],
            registry=registry,
        )

    def count_published(self, many: int) -> None:
        """The publisher's observer."""
        self.published.inc(many)

    def listen(self, happening: Happening) -> None:
        """The relay's listener."""
        match happening:
            case Recorded(settlements=settlements):
                self._settled(settlements)
            case Fenced(pids=pids):
                self._fenced.inc(len(pids))
            case _:
                pass  # queued and sent events are counted when they end

    def _settled(self, settlements: Sequence[Settlement]) -> None:
        self._delivery.add(
            [
                max(0, settlement.at - settlement.send.event.created_at) / 1000
                for settlement in settlements
                # A redelivery says nothing about how long its event took to arrive.
                if isinstance(settlement.outcome, Delivered) and not is_redelivery(settlement.send.lane_id)
            ]
        )
        self._attempt.add([one.result.timings.total_ms / 1000 for one in settlements if one.result is not None])
        ended = CountOf((one.send.endpoint.id, _WORDS[type(one.outcome)]) for one in settlements)
        for (endpoint_id, word), many in ended.items():
            self._attempts.labels(endpoint_id, word).inc(many)

    async def exposition(self, reads: OutboxReads, endpoints: Sequence[Endpoint]) -> tuple[bytes, str]:
        """All metrics as text, and its media type."""
        health = await reads.health()
        self._breaker.clear()
        for endpoint in endpoints:
            turned = health.get(endpoint.id)
            self._breaker.labels(endpoint.id).set(_LEFT_ALONE[turned.state] if turned else 0)
        ledger = await reads.ledger("default")
        lanes = await reads.lane_counts()
        oldest = await reads.oldest_pending_at()
        self._size.set(await reads.size_bytes())
        for state in LaneState:
            self._lanes.labels(state).set(lanes.get(state, 0))
        self._backlog.set(sum(ledger.get(state, 0) for state in _OWED))
        self._dead.labels("sender").set(ledger.get(DeliveryState.DEAD, 0))
        self._oldest.set(0 if oldest is None else max(0.0, time.time() - oldest / 1000))
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
