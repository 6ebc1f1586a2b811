"""Is an endpoint well enough to be sent to? A breaker that holds: it never drops and never burns attempts.

Only faults of the endpoint as a whole count (5xx, timeouts, connection errors): a 4xx is about one event.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hooklane.model.clock import START, Instant
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"
    RAMPING = "ramping"


@dataclass(frozen=True, slots=True)
class BreakerRules:
    window_ms: int = 10_000
    volume_min: int = 20
    fault_rate: float = 0.5
    hold_ms: int = 5_000
    hold_ms_max: int = 30_000
    ramp_start: int = 2


def is_evidence(result: Result) -> bool:
    """Whether a result says anything about the endpoint: what we gave up or refused ourselves does not."""
    return isinstance(result, Answer) or result.failure not in (Failure.ABORTED, Failure.TARGET_NOT_ALLOWED)


def is_fault(result: Result) -> bool:
    """Whether a result speaks against the whole endpoint."""
    match result:
        case Answer(status=status):
            return status >= 500
        case NoAnswer():
            return is_evidence(result)


class Breaker:
    """Closed, until the fault rate of a window says otherwise; then one probe at a time; then a slow start."""

    __slots__ = ("_faults", "_hold_ms", "_ramp", "_rules", "_total", "_window_at", "state", "until")

    def __init__(self, rules: BreakerRules | None = None) -> None:
        self._rules = rules or BreakerRules()
        self.state = BreakerState.CLOSED
        self.until: Instant = START
        self._hold_ms = self._rules.hold_ms
        self._window_at: Instant = START
        self._total = self._faults = 0
        self._ramp = 0

    def room(self, now: Instant, in_flight_max: int) -> int:
        """How many deliveries may be in flight at *now*."""
        if self.state is BreakerState.CLOSED:
            return in_flight_max
        if self.state is BreakerState.OPEN:
            if now < self.until:
                return 0
            self.state = BreakerState.PROBING
        if self.state is BreakerState.PROBING:
            return 1
        return min(self._ramp, in_flight_max)

    def record(self, fault: bool, now: Instant, roll: float, in_flight_max: int) -> None:
        """Take note of one result; *roll* spreads the probes of many endpoints that fell ill together."""
        if self.state is BreakerState.PROBING:
            if fault:
                self._open(now, roll)
            else:
                self.state, self._ramp = BreakerState.RAMPING, self._rules.ramp_start
                self._start_window(now)
            return
        if self.state is BreakerState.OPEN:
            return  # a straggler from before it opened
        if now - self._window_at >= self._rules.window_ms:
            self._start_window(now)
        self._total += 1
        self._faults += fault
        if self._faults >= self._total * self._rules.fault_rate and (
            self._total >= self._rules.volume_min or (self.state is BreakerState.RAMPING and fault)
        ):
            self._open(now, roll)
        elif self.state is BreakerState.RAMPING and not fault:
            self._ramp += 1  # one more for each success: doubles with every round
            if self._ramp >= in_flight_max:
                self.state, self._hold_ms = BreakerState.CLOSED, self._rules.hold_ms
                self._start_window(now)

    def _open(self, now: Instant, roll: float) -> None:
        self.state = BreakerState.OPEN
        self.until = Instant(now + int(self._hold_ms * (1.0 + 0.25 * roll)))
        self._hold_ms = min(self._hold_ms * 2, self._rules.hold_ms_max)
        self._start_window(now)

    def _start_window(self, now: Instant) -> None:
        self._window_at, self._total, self._faults = now, 0, 0
