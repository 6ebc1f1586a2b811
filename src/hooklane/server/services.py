"""The services of one server process: store, publisher, transport, relay, live stream, metrics.

Every handler of the API gets them with its call.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hooklane.config import Settings
from hooklane.model.clock import Instant, wall_now
from hooklane.model.health import BreakerState
from hooklane.model.lane import LaneId
from hooklane.sender.egress import EgressGuard
from hooklane.sender.lost import PublishedPlaces
from hooklane.sender.operational import OperationalEvents
from hooklane.sender.publish_limits import PublishLimits
from hooklane.sender.publisher import Publisher
from hooklane.sender.recovery import Jobs
from hooklane.sender.relay import Relay
from hooklane.sender.tenant_directory import TenantDirectory
from hooklane.sender.transport import Transport
from hooklane.server.arriving import ArrivingBodies
from hooklane.server.cursor import Cursors
from hooklane.server.endpoint_facts import FactsOfEndpoints
from hooklane.server.event_types import TypeRules
from hooklane.server.inbox_tally import InboxTally
from hooklane.server.kept import Kept
from hooklane.server.key_ring import KeyRing
from hooklane.server.live_streams import LiveStreams
from hooklane.server.metrics import Meter
from hooklane.server.places import Places
from hooklane.server.recent_attempts import RecentAttempts, Told
from hooklane.server.series import Series
from hooklane.server.sessions import Sessions
from hooklane.server.tally import Tally
from hooklane.server.totals import Totals
from hooklane.server.views import View
from hooklane.store.dashboard import Cause
from hooklane.store.open import Outbox

TESTS_MAX = 32


class Workers(Protocol):
    """Processes that deliver for this one."""

    @property
    def is_ready(self) -> bool: ...

    def nudge(self) -> None:
        """Something changed in the store: they need not wait for their next poll."""


@dataclass(slots=True)
class Services:
    """One process: its store, its publisher, and where it delivers too, its relay or its worker processes."""

    settings: Settings
    store: Outbox
    publisher: Publisher
    guard: EgressGuard
    transport: Transport
    live_stream: LiveStreams
    meter: Meter
    totals: Totals
    series: Series
    recent: RecentAttempts
    facts: FactsOfEndpoints
    causes: Kept[Sequence[Cause]]
    inbox_sources: Kept[list[View]]
    inbox_tally: InboxTally
    cursors: Cursors
    jobs: Jobs
    publish_limits: PublishLimits
    tenants: TenantDirectory
    operational: OperationalEvents
    published: PublishedPlaces | None
    """What this process published, where it has no worker that remembers it."""
    keys: KeyRing
    sessions: Sessions
    types: TypeRules
    relay: Relay | None = None
    workers: Workers | None = None
    features: tuple[str, ...] = ()
    """What this server can do besides: the page shows controls only for these."""
    now: Callable[[], Instant] = wall_now
    chance: Callable[[int], bytes] = os.urandom

    tests: Places = field(default_factory=lambda: Places(TESTS_MAX, "tests of endpoints"))
    arriving: ArrivingBodies = field(default_factory=ArrivingBodies)

    creating: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Endpoints are created one at a time: a quota of them is not overrun by calls that come together."""

    @property
    def is_delivering(self) -> bool:
        """Whether what this process is to deliver is delivered, by itself or by its workers."""
        if self.relay is not None:
            return self.relay.is_ready
        return self.workers is None or self.workers.is_ready

    def nudge(self) -> None:
        """Something changed in the store: the relay, or the workers, need not wait for the next poll."""
        if self.relay is not None:
            self.relay.nudge()
        elif self.workers is not None:
            self.workers.nudge()

    async def heard(self) -> None:
        """Returns once the relay of this process knows what was changed; workers elsewhere know it a poll later."""
        if self.relay is not None:
            await self.relay.heard()

    def wake(self, lane_id: LaneId) -> None:
        """A lane was recovered: the relay, or the worker that owns it, looks at it again."""
        if self.relay is not None:
            self.relay.wake([lane_id])
        else:
            self.nudge()

    def breakers(self) -> dict[str, BreakerState]:
        """The breaker of each endpoint that this process delivers to."""
        if self.relay is None:
            return {}
        return {endpoint_id: queue.breaker.state for endpoint_id, queue in self.relay.engine.queues.items()}

    def absorb(self, tally: Tally, attempts: Sequence[Told], certificates: Mapping[str, Instant]) -> None:
        """What a worker process has counted, tried and seen since it was last heard of."""
        self.meter.absorb(tally)
        self.recent.add(attempts)
        self.facts.certificates.update(certificates)

    def endpoints_changed(self) -> None:
        """An endpoint was saved: neither relay nor page waits for its next poll."""
        self.live_stream.endpoints_changed()
        self.nudge()
