"""Is a handler's dependency down? A breaker pauses the handler; it never loses what is stored."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.model.clock import START, Instant

PARTS = 60
"""Calls are counted by parts of the window, and forgotten part by part: a busy handler has thousands a second."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """Opens at a failure *rate* over a window with a minimum of calls; a few probes decide whether it closes."""

    window_ms: int = 60_000
    calls_min: int = 10
    failure_rate: float = 0.5
    open_ms: int = 30_000
    probes: int = 3

    def __post_init__(self) -> None:
        if not 0.0 < self.failure_rate <= 1.0:
            raise ValueError(f"failure_rate must lie in (0, 1], got {self.failure_rate}")
        if min(self.window_ms, self.calls_min, self.open_ms, self.probes) < 1:
            raise ValueError("window_ms, calls_min, open_ms and probes must be at least 1")


@dataclass(slots=True)
class _Part:
    """What happened in one part of the window."""

    number: int
    calls: int = 0
    failed: int = 0


@dataclass(slots=True)
class Breaker:
    """The state of one handler. *now* is of a clock that never jumps. Whoever owns it guards it with a lock."""

    policy: BreakerPolicy = field(default_factory=BreakerPolicy)
    state: BreakerState = BreakerState.CLOSED
    _opened_at: Instant = START
    _parts: deque[_Part] = field(default_factory=deque)
    _probing: int = 0
    _passed: int = 0

    def room(self, now: Instant, wanted: int = 1) -> int:
        """How many calls may begin now; those granted while half open count as probes until `record` or `forgo`."""
        if self.state is BreakerState.OPEN and now - self._opened_at >= self.policy.open_ms:
            self.state, self._probing, self._passed = BreakerState.HALF_OPEN, 0, 0
        match self.state:
            case BreakerState.CLOSED:
                return wanted
            case BreakerState.OPEN:
                return 0
            case BreakerState.HALF_OPEN:
                granted = max(0, min(wanted, self.policy.probes - self._probing - self._passed))
                self._probing += granted
                return granted

    def forgo(self, calls: int) -> None:
        """Granted calls that did not take place."""
        self._probing = max(0, self._probing - calls)

    def record(self, ok: bool, now: Instant) -> BreakerState:
        """A call ended. Rejected and unreadable messages are not recorded: one poison event is no outage."""
        if self.state is BreakerState.HALF_OPEN:
            self._probing = max(0, self._probing - 1)
            if not ok:
                self._open(now)
            else:
                self._passed += 1
                if self._passed >= self.policy.probes:
                    self.state = BreakerState.CLOSED
                    self._parts.clear()
            return self.state
        part = self._part(now)
        part.calls += 1
        if not ok:
            part.failed += 1
            if self.state is BreakerState.CLOSED and self._is_too_much():
                self._open(now)
        return self.state

    def _part(self, now: Instant) -> _Part:
        """The part of the window that *now* is in; those that have left the window are forgotten."""
        number = now * PARTS // self.policy.window_ms
        if not self._parts or self._parts[-1].number != number:
            self._parts.append(_Part(number))
            while number - self._parts[0].number > PARTS:
                self._parts.popleft()
        return self._parts[-1]

    def _is_too_much(self) -> bool:
        calls = sum(part.calls for part in self._parts)
        failed = sum(part.failed for part in self._parts)
        return calls >= self.policy.calls_min and failed >= self.policy.failure_rate * calls

    def open_left_ms(self, now: Instant) -> int:
        """How long it stays open; 0 unless it is."""
        if self.state is not BreakerState.OPEN:
            return 0
        return max(0, self._opened_at + self.policy.open_ms - now)

    def _open(self, now: Instant) -> None:
        self.state, self._opened_at = BreakerState.OPEN, now
        self._parts.clear()
