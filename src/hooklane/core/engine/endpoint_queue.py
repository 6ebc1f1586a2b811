"""Whose turn is it? One queue per endpoint with its limits, and fair turns between queues and tenants."""

from __future__ import annotations

from collections import deque
from typing import Final

from hooklane.core.breaker import Breaker, BreakerRules
from hooklane.core.endpoint import within_bounds
from hooklane.core.engine.owned_lane import OwnedLane
from hooklane.core.judge import RetryPolicy
from hooklane.model.clock import START, Instant
from hooklane.model.endpoint import Endpoint, EndpointState, OnDead, Order

FREE_PART: Final = 0.25
"""How much of the free places of the process a queue may hold: many that never answer still leave some for others."""
RESERVED_PART: Final = 1 / 32
"""How many of all places are kept for endpoints that answer: those that do not may be more than there are places."""
LATE_MS: Final = 20.0
"""How far a busy queue that comes late to its turn may catch up: a fiftieth of a second is within the limit's bounds.

One that sends less than twenty times a second may not, and counts from the end of the millisecond that it is told:
there a single delivery too many in a second is a tenth of the limit.
"""

ANNOUNCED_MS: Final = 50.0
"""What is announced at an endpoint with a rate limit must be able to fly so soon: until then it is under suspicion."""

_SENDABLE: Final = (EndpointState.ACTIVE, EndpointState.DRAINING)


class TenantPlaces:
    """How many of the process's places the endpoints of one tenant hold together, and which of them wait for one.

    Where there are several tenants, one may hold as many places as are still free: however many endpoints of it never
    answer, half of the places are left, and half of those for the next. Its own deliveries that end wake what waits.
    """

    __slots__ = ("busy", "is_capped", "waiting")

    def __init__(self) -> None:
        self.busy = 0
        self.is_capped = False
        self.waiting: deque[EndpointQueue] = deque()

    def is_full(self, free: int) -> bool:
        return self.is_capped and self.busy >= free


class EndpointQueue:
    """The lanes of one endpoint that are ready, and how many of them may go at once."""

    __slots__ = (
        "_gap_ms",
        "_share",
        "_spaced_at",
        "alarm_at",
        "answers",
        "breaker",
        "cap",
        "endpoint",
        "fetching",
        "in_flight",
        "policy",
        "queued",
        "ready",
        "starting",
        "tenant",
        "waits_for_place",
    )

    def __init__(
        self,
        endpoint: Endpoint,
        share: float = 1.0,
        rules: BreakerRules | None = None,
        tenant: TenantPlaces | None = None,
    ) -> None:
        self.tenant = tenant or TenantPlaces()
        self.ready: deque[OwnedLane] = deque()
        self.in_flight = 0
        self.fetching = 0
        self.starting = 0
        """Attempts that are being announced: they will fly next."""
        self.answers = False
        """Whether the last attempt got an answer, of whatever kind."""
        self.waits_for_place = False
        self.queued = False
        """Whether the queue stands in line for its turn."""
        self.breaker = Breaker(endpoint.id, rules or BreakerRules())
        self.alarm_at: Instant = START
        """The last time for which the queue asked to be looked at again."""
        self._share = share
        self._spaced_at = 0.0
        self.change(endpoint)

    def change(self, endpoint: Endpoint) -> None:
        """The endpoint has other rules from now on."""
        endpoint = self.endpoint = within_bounds(endpoint)
        self.policy = RetryPolicy(endpoint.attempts_max, endpoint.backoff_ms, endpoint.backoff_cap_ms)
        self._set_limits()

    def forget(self, rules: BreakerRules) -> None:
        """What the breaker shares with others is counted anew: by the old count it would wait for ever."""
        self.breaker = Breaker(self.endpoint.id, rules)
        self._set_limits()

    def share(self, share: float) -> None:
        """Our part of the whole work has changed, and with it our part of what all workers may do together."""
        self._share = share
        self._set_limits()

    def jump(self, by: int) -> None:
        """The clock was set."""
        self._spaced_at += by
        self.alarm_at = Instant(self.alarm_at + by)
        self.breaker.jump(by)

    def _set_limits(self) -> None:
        endpoint = self.endpoint
        # An endpoint that is one lane has one owner, who may use the whole of its limits.
        share = 1.0 if endpoint.order is Order.GLOBAL else self._share
        self.breaker.share(share)
        self.cap = max(1, int(endpoint.in_flight_max * share))
        self._gap_ms = None if endpoint.rate_limit is None else 1000.0 / (endpoint.rate_limit * share)

    @property
    def is_open(self) -> bool:
        return self.endpoint.state in _SENDABLE and not self.endpoint.suspended

    @property
    def skips_dead(self) -> bool:
        return self.endpoint.on_dead is OnDead.SKIP

    def has_room(self, now: Instant, free: int, places: int) -> bool:
        """Whether one more delivery may start at *now*, when *free* of the process's *places* are."""
        busy = self.in_flight + self.starting
        left = free if self.answers else free - int(places * RESERVED_PART)
        return (
            self.is_open
            and not self.tenant.is_full(free)
            and busy < self.breaker.room(now, self.cap)
            and busy < left * FREE_PART
            and self._is_spaced(now)
            and self.starting * (self._gap_ms or 0.0) < ANNOUNCED_MS
        )

    def wants_probe(self, now: Instant) -> bool:
        """Whether the endpoint is held and it is time to try it with one of our lanes."""
        return self.is_open and bool(self.ready) and self.breaker.wants_probe(now)

    def opens_at(self, now: Instant) -> Instant:
        """When to look again, where time alone will make room; what is past where an event must."""
        return self.breaker.until if self.breaker.room(now, self.cap) == 0 else Instant(int(self._spaced_at))

    def lacks_place(self, now: Instant) -> bool:
        """Whether nothing but the process's places keeps it from sending, and nothing of its own will end and tell."""
        return (
            self.is_open
            and self.in_flight + self.starting == 0
            and self.breaker.room(now, self.cap) > 0
            and self._is_spaced(now)
        )

    def _is_spaced(self, now: Instant) -> bool:
        """Whether the rate limit lets another go in the millisecond of *now*."""
        return self._gap_ms is None or self._spaced_at < now + 1

    def take_off(self, now: Instant) -> None:
        """One delivery starts: it takes a place, and its share of the rate limit."""
        self.in_flight += 1
        self.tenant.busy += 1
        gap_ms = self._gap_ms
        if gap_ms is not None:
            # Evenly spaced, no burst: a limit is a promise to the endpoint, also right after a pause.
            late_ms = LATE_MS if gap_ms <= 50.0 else -1.0
            self._spaced_at = max(self._spaced_at, now - late_ms) + gap_ms


class Turns:
    """A line of queues in which each tenant, and within it each endpoint, gets one turn after the other."""

    __slots__ = ("_line", "_tenants")

    def __init__(self) -> None:
        self._tenants: dict[str, deque[EndpointQueue]] = {}
        self._line: deque[str] = deque()

    def __bool__(self) -> bool:
        return bool(self._line)

    def push(self, queue: EndpointQueue) -> None:
        if queue.queued or not queue.ready:
            return
        queue.queued = True
        tenant = queue.endpoint.tenant
        queues = self._tenants.get(tenant)
        if queues is None:
            queues = self._tenants[tenant] = deque()
        if not queues:
            self._line.append(tenant)
        queues.append(queue)

    def pop(self) -> EndpointQueue:
        tenant = self._line.popleft()
        queues = self._tenants[tenant]
        queue = queues.popleft()
        queue.queued = False
        if queues:
            self._line.append(tenant)
        return queue
