"""What does this process count? The metrics of the contract, under their names; never a label per key."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from hooklane.core.figures import SECONDS
from hooklane.model.endpoint import Endpoint
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.server.tally import EndpointTally, Spread, Tally
from hooklane.server.totals import Counted
from hooklane.telemetry.deliveries import Happening

_BREAKER = {BreakerState.CLOSED: 0, BreakerState.RAMPING: 1, BreakerState.PROBING: 2, BreakerState.OPEN: 3}


class _Attempts(Collector):
    """A tally as Prometheus reads it. Plain counts are kept: a lock and a call for each would show on the hot path."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def collect(self) -> Iterable[Metric]:
        tally = self._meter.total
        ended = CounterMetricFamily("hooklane_attempts", "Attempts that ended.", labels=["endpoint", "outcome"])
        for endpoint_id, outcomes in tally.attempts.items():
            for word, many in outcomes.items():
                ended.add_metric([endpoint_id, word], many)
        yield ended
        yield _histogram("hooklane_delivery_seconds", "From publish to ack.", tally.delivery)
        yield _histogram("hooklane_attempt_seconds", "One attempt.", tally.attempt)
        yield CounterMetricFamily(
            "hooklane_fence_rejections",
            "Outcomes that came after the partition had another owner.",
            value=tally.fenced,
        )
        yield CounterMetricFamily(
            "hooklane_missed_by_polls",
            "Lanes or endpoints with news that a sweep found and no poll had told: anything but 0 is a defect.",
            value=tally.missed,
        )
        yield CounterMetricFamily(
            "hooklane_lost",
            "Deliveries that the database has lost though they were sent or published, as a failover may lose them.",
            value=tally.lost,
        )


def _histogram(name: str, what: str, spread: Spread) -> HistogramMetricFamily:
    total, buckets = 0, []
    for bound, count in zip((*SECONDS, float("inf")), spread.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), total))
    return HistogramMetricFamily(name, what, buckets=buckets, sum_value=spread.total_s)


class Meter:
    """Counts what happens as it happens, and asks the store for the rest at each scrape."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.published = Counter("hooklane_events_published", "Events made durable.", registry=registry)
        self.tally = Tally()
        """What was counted since the last `take`."""
        self._past = Tally()
        self._published: dict[str, int] = {}
        registry.register(_Attempts(self))
        self._lanes = Gauge("hooklane_lanes", "Lanes by state.", ["state"], registry=registry)
        self._backlog = Gauge("hooklane_backlog", "Deliveries owed and not dead.", registry=registry)
        self._oldest = Gauge(
            "hooklane_oldest_pending_seconds", "Age of the oldest event that is still owed.", registry=registry
        )
        self._size = Gauge("hooklane_store_bytes", "Bytes that the database takes on disk.", registry=registry)
        self._dead = Gauge("hooklane_dead_letters", "Dead letters.", ["side"], registry=registry)
        self._breaker = Gauge(
            "hooklane_breaker_state",
            "The breaker of an endpoint: 0 closed, 1 ramping, 2 probing, 3 open.",
            ["endpoint"],
            registry=registry,
        )

    def count_published(self, counts: Mapping[str, int]) -> None:
        """The publisher's observer: how many events of each tenant."""
        self.published.inc(sum(counts.values()))
        for tenant, many in counts.items():
            self._published[tenant] = self._published.get(tenant, 0) + many

    def listen(self, happening: Happening) -> None:
        """The relay's listener."""
        self.tally.listen(happening)

    def absorb(self, other: Tally) -> None:
        """Add what a worker process has counted."""
        self.tally.absorb(other)

    def busy(self) -> list[str]:
        """The endpoints of which something was counted since it was taken last."""
        return list(self.tally.endpoints)

    def take(self, endpoints: Sequence[str] | None = None) -> Tally:
        """What was counted since the last call: for the series, or for the process that this one counts for.

        Of *endpoints*, or of all: with very many that takes its time.
        """
        taken = self.tally.part(endpoints) if endpoints is not None else self.tally
        if endpoints is None:
            self.tally = Tally()
        self._past.absorb(taken)
        return taken

    def take_published(self) -> dict[str, int]:
        """The events published since the last call, by tenant."""
        taken, self._published = self._published, {}
        return taken

    @property
    def total(self) -> Tally:
        """What was counted since the process began."""
        total = Tally()
        total.absorb(self._past)
        total.absorb(self.tally)
        return total

    def exposition(
        self,
        counted: Counted,
        health: Mapping[str, Health],
        endpoints: Sequence[Endpoint],
        inbox_dead: int | None = None,
    ) -> tuple[bytes, str]:
        """All metrics as text, and its media type; *inbox_dead* where an inbox is in the server's database."""
        self._forget_deleted({one.id for one in endpoints})
        self._breaker.clear()
        for endpoint in endpoints:
            breaker = health.get(endpoint.id)
            self._breaker.labels(endpoint.id).set(_BREAKER[breaker.state] if breaker else 0)
        ledger, lanes, oldest = counted.ledger, counted.lanes, counted.oldest_pending_at
        self._size.set(counted.store_bytes)
        for state in LaneState:
            self._lanes.labels(state).set(lanes.get(state, 0))
        self._backlog.set(counted.backlog)
        self._dead.labels("sender").set(ledger.get(DeliveryState.DEAD, 0))
        if inbox_dead is not None:
            self._dead.labels("inbox").set(inbox_dead)
        self._oldest.set(0 if oldest is None else max(0.0, time.time() - oldest / 1000))
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def _forget_deleted(self, there: Collection[str]) -> None:
        """Count endpoints that are not *there* any more as one without a name: else each keeps its label for ever."""
        gone = self._past.part([one for one in self._past.endpoints if one and one not in there])
        for counted in gone.endpoints.values():
            self._past.endpoints.setdefault("", EndpointTally()).absorb(counted)
