"""What does this process count? The metrics of the contract, under their names; never a label per key."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from hooklane.model.attempt import Dead, Delivered, Gone, Retry, Settlement
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.model.redelivery import is_redelivery
from hooklane.store.reads import OutboxReads
from hooklane.telemetry.deliveries import Fenced, Happening, Recorded

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400)
_OWED = (DeliveryState.QUEUED, DeliveryState.IN_FLIGHT, DeliveryState.RETRYING)


class Meter:
    """Counts what happens as it happens, and asks the store for the rest when somebody scrapes."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.published = Counter("hooklane_events_published", "Events made durable.", registry=registry)
        self._attempts = Counter(
            "hooklane_attempts", "Attempts that ended.", ["endpoint", "outcome"], registry=registry
        )
        self._delivery = Histogram(
            "hooklane_delivery_seconds", "From publish to ack.", buckets=_SECONDS, registry=registry
        )
        self._attempt = Histogram("hooklane_attempt_seconds", "One attempt.", buckets=_SECONDS, registry=registry)
        self._fenced = Counter(
            "hooklane_fence_rejections", "Outcomes that came after the partition had another owner.", registry=registry
        )
        self._lanes = Gauge("hooklane_lanes", "Lanes by state.", ["state"], registry=registry)
        self._backlog = Gauge("hooklane_backlog", "Deliveries owed and not dead.", registry=registry)
        self._oldest = Gauge(
            "hooklane_oldest_pending_seconds", "Age of the oldest event that is still owed.", registry=registry
        )
        self._dead = Gauge("hooklane_dead_letters", "Dead letters.", ["side"], registry=registry)

    def count_published(self, many: int) -> None:
        """The publisher's observer."""
        self.published.inc(many)

    def listen(self, happening: Happening) -> None:
        """The relay's listener."""
        match happening:
            case Recorded(settlements=settlements):
                for settlement in settlements:
                    self._settled(settlement)
            case Fenced(pids=pids):
                self._fenced.inc(len(pids))
            case _:
                pass  # queued and sent events are counted when they end

    def _settled(self, settlement: Settlement) -> None:
        match settlement.outcome:
            case Delivered():
                outcome = "delivered"
                # A redelivery says nothing about how long its event took to arrive.
                if not is_redelivery(settlement.send.lane_id):
                    self._delivery.observe(max(0, settlement.at - settlement.send.event.created_at) / 1000)
            case Retry():
                outcome = "retry"
            case Dead() | Gone():
                outcome = "dead"
        self._attempts.labels(settlement.send.endpoint.id, outcome).inc()
        if settlement.result is not None:
            self._attempt.observe(settlement.result.timings.total_ms / 1000)

    async def exposition(self, reads: OutboxReads) -> tuple[bytes, str]:
        """All metrics as text, and its media type."""
        ledger = await reads.ledger("default")
        lanes = await reads.lane_counts()
        oldest = await reads.oldest_pending_at()
        for state in LaneState:
            if state is not LaneState.PAUSED:
                self._lanes.labels(state).set(lanes.get(state, 0))
        self._backlog.set(sum(ledger.get(state, 0) for state in _OWED))
        self._dead.labels("sender").set(ledger.get(DeliveryState.DEAD, 0))
        self._oldest.set(0 if oldest is None else max(0.0, time.time() - oldest / 1000))
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
