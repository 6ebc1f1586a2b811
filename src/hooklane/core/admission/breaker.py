"""Is a handler's dependency down? A breaker pauses the handler; it never loses what is stored."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.model.clock import START, Instant
from hooklane.model.whole import is_whole

PARTS = 60
"""Calls are counted by parts of the window, and forgotten part by part: a busy handler has thousands a second."""
PROBE_WAIT_MS = 1_000
"""How long to wait, half open, while all probes are under way."""


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
        rate: object = self.failure_rate
        if not isinstance(rate, int | float) or not 0.0 < rate <= 1.0:
            raise ValueError(f"failure_rate must lie in (0, 1], got {rate!r}")
        for name in ("window_ms", "calls_min", "open_ms", "probes"):
            if not is_whole(value := getattr(self, name)):
                raise ValueError(f"{name} is a whole number of at least 1, got {value!r}")


@dataclass(slots=True)
class _Part:
    """What happened in one part of the window."""

    number: int
    calls: int = 0
    failed: int = 0


@dataclass(slots=True)
class Breaker:
    """The state of one handler. *now* is of a clock that never jumps. Its owner guards it with a lock.

    *turn* grows whenever the state changes. A call that began in an earlier turn says nothing about this one: with
    many slow calls under way the end of one would otherwise pass for a probe, and make room for one more.
    """

    policy: BreakerPolicy = field(default_factory=BreakerPolicy)
    state: BreakerState = BreakerState.CLOSED
    turn: int = 0
    _since: Instant = START
    """When it opened; half open: when its last probes were let through."""
    _parts: deque[_Part] = field(default_factory=deque)
    _probing: int = 0
    _passed: int = 0

    def room(self, now: Instant, wanted: int = 1) -> int:
        """How many calls may begin now; those granted while half open count as probes until `record` or `forgo`."""
        if self.state is BreakerState.OPEN and now - self._since >= self.policy.open_ms:
            self._passed = 0
            self._become(BreakerState.HALF_OPEN, now)
        match self.state:
            case BreakerState.CLOSED:
                return wanted
            case BreakerState.OPEN:
                return 0
            case BreakerState.HALF_OPEN:
                if now - self._since >= self.policy.open_ms:
                    self._probing = 0  # they hang, or will never be heard of: others take their place
                granted = max(0, min(wanted, self.policy.probes - self._probing - self._passed))
                self._probing += granted
                if granted:
                    self._since = now
                return granted

    def forgo(self, calls: int, turn: int | None = None) -> None:
        """Granted calls that did not take place."""
        if turn in (None, self.turn):
            self._probing = max(0, self._probing - calls)

    def record(self, ok: bool, now: Instant, turn: int | None = None) -> BreakerState:
        """A call ended. Rejected and unreadable messages are not recorded: one poison event is no outage."""
        if turn not in (None, self.turn):
            return self.state
        if self.state is BreakerState.HALF_OPEN:
            self._probing = max(0, self._probing - 1)
            if not ok:
                self._become(BreakerState.OPEN, now)
            else:
                self._passed += 1
                if self._passed >= self.policy.probes:
                    self._become(BreakerState.CLOSED, now)
            return self.state
        part = self._part(now)
        part.calls += 1
        if not ok:
            part.failed += 1
            if self.state is BreakerState.CLOSED and self._is_too_much():
                self._become(BreakerState.OPEN, now)
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

    def wait_ms(self, now: Instant) -> int:
        """How long to wait before `room` is worth asking again; 0 while it is closed."""
        match self.state:
            case BreakerState.CLOSED:
                return 0
            case BreakerState.OPEN:
                return max(1, self._since + self.policy.open_ms - now)
            case BreakerState.HALF_OPEN:
                return PROBE_WAIT_MS

    def _become(self, state: BreakerState, now: Instant) -> None:
        self.state, self._since, self._probing = state, now, 0
        self.turn += 1
        self._parts.clear()
