"""Whose turn is it? One desk per endpoint with its limits, and fair turns between desks and tenants."""

from __future__ import annotations

from collections import deque

from hooklane.core.breaker import Breaker
from hooklane.core.engine.slot import Slot
from hooklane.core.judge import RetryPolicy
from hooklane.model.clock import FOREVER, START, Instant
from hooklane.model.endpoint import Endpoint, EndpointState, OnDead

_SENDABLE = (EndpointState.ACTIVE, EndpointState.DRAINING)


class Desk:
    """The lanes of one endpoint that are ready, and how many of them may go at once."""

    __slots__ = (
        "_spaced_at",
        "alarm_at",
        "breaker",
        "endpoint",
        "fetching",
        "in_flight",
        "policy",
        "queued",
        "ready",
        "share",
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self.ready: deque[Slot] = deque()
        self.in_flight = 0
        self.fetching = 0
        self.queued = False
        """Whether the desk stands in line for its turn."""
        self.breaker = Breaker()
        self.share = 1.0
        self.alarm_at: Instant = START
        """The last time for which the desk asked to be looked at again."""
        self._spaced_at: Instant = START
        self.change(endpoint)

    def change(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.policy = RetryPolicy(endpoint.attempts_max, endpoint.backoff_ms, endpoint.backoff_cap_ms)

    @property
    def is_open(self) -> bool:
        return self.endpoint.state in _SENDABLE

    @property
    def skips_dead(self) -> bool:
        return self.endpoint.on_dead is OnDead.SKIP

    def has_room(self, now: Instant) -> bool:
        """Whether one more delivery may start at *now*."""
        return (
            self.is_open
            and self.in_flight < self.breaker.room(now, self.endpoint.in_flight_max)
            and (self.endpoint.rate_limit is None or self._spaced_at <= now)
        )

    def opens_at(self, now: Instant) -> Instant:
        """When to look again, where time alone will make room; FOREVER where an event must."""
        if not self.is_open:
            return FOREVER
        if self.breaker.room(now, self.endpoint.in_flight_max) == 0:
            return self.breaker.until
        if self.endpoint.rate_limit is not None and self._spaced_at > now:
            return self._spaced_at
        return FOREVER

    def take_off(self, now: Instant) -> None:
        """One delivery starts: it takes a place, and its share of the rate limit."""
        self.in_flight += 1
        if self.endpoint.rate_limit is not None:
            # Evenly spaced, no burst: a limit is a promise to the endpoint, also right after a pause.
            gap_ms = 1000.0 / (self.endpoint.rate_limit * self.share)
            self._spaced_at = Instant(max(now, self._spaced_at) + max(1, round(gap_ms)))


class Turns:
    """A line of desks in which each tenant, and within it each endpoint, gets one turn after the other."""

    __slots__ = ("_line", "_tenants")

    def __init__(self) -> None:
        self._tenants: dict[str, deque[Desk]] = {}
        self._line: deque[str] = deque()

    def __bool__(self) -> bool:
        return bool(self._line)

    def push(self, desk: Desk) -> None:
        if desk.queued or not desk.ready:
            return
        desk.queued = True
        tenant = desk.endpoint.tenant
        desks = self._tenants.get(tenant)
        if desks is None:
            desks = self._tenants[tenant] = deque()
        if not desks:
            self._line.append(tenant)
        desks.append(desk)

    def pop(self) -> Desk:
        tenant = self._line.popleft()
        desks = self._tenants[tenant]
        desk = desks.popleft()
        desk.queued = False
        if desks:
            self._line.append(tenant)
        return desk
