"""Is an endpoint well enough to be sent to? A breaker that holds: it never drops and never burns attempts.

Only faults of the endpoint as a whole count (5xx, timeouts, connection errors): a 4xx is about one event. Workers share
its turns through the store: who finds an endpoint ill opens it for all, one of them makes the probe, and all ramp up.
"""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.model.clock import START, Instant
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result
from hooklane.model.health import BreakerState, Health
from hooklane.model.jumps import JUMP_MS

CLOSED, OPEN, PROBING, RAMPING = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.PROBING, BreakerState.RAMPING


@dataclass(frozen=True, slots=True)
class BreakerRules:
    window_ms: int = 10_000
    volume_min: int = 20
    """So many faults in a row open it. Of all workers together: each judges by its share of the traffic, but never by
    fewer than *volume_floor*, or chance alone would open an endpoint that takes most of what it gets."""
    volume_floor: int = 10
    relapse_min: int = 5
    """The same while it comes back."""
    fault_rate: float = 0.5
    """Above it the evidence grows, below it it shrinks."""
    hold_ms: int = 5_000
    hold_ms_max: int = 30_000
    ramp_start: int = 2
    probe_ms: int = 10_000
    """How long a prober has beside the endpoint's own timeout, before another worker may try."""


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
    """What one worker does about one endpoint: its own window, and the turns that all workers share."""

    __slots__ = (
        "_asked",
        "_behind",
        "_evidence",
        "_is_ours",
        "_probes",
        "_ramp",
        "_rules",
        "_shared",
        "_since",
        "_turn",
        "_volume_min",
        "_window_at",
        "endpoint_id",
        "state",
        "until",
    )

    def __init__(self, endpoint_id: str, rules: BreakerRules) -> None:
        self.endpoint_id = endpoint_id
        self.state = CLOSED
        self.until: Instant = START
        self._rules = rules
        self._volume_min = rules.volume_min
        self._since: Instant = START
        self._probes = 0
        self._ramp = 0
        self._is_ours = False
        """Whether the probe is ours to make."""
        self._window_at: Instant = START
        self._evidence = 0.0
        """How far the faults of this window exceed the rate that is borne, since they last did not."""
        self._turn = 0
        self._shared = CLOSED
        """What the store says, as far as we know."""
        self._asked: Health | None = None
        """The turn that we have asked the store to write; one at a time."""
        self._behind = False
        """We have turned again since we asked."""

    def share(self, share: float) -> None:
        """Our part of the traffic, of which the others see the rest."""
        self._volume_min = max(self._rules.volume_floor, round(self._rules.volume_min * share))

    def jump(self, by: int) -> None:
        """The clock was set."""
        self.until = Instant(self.until + by)
        self._since = Instant(self._since + by)
        self._window_at = Instant(self._window_at + by)

    # --- may something be sent ---

    def room(self, now: Instant, in_flight_max: int) -> int:
        """How many deliveries may be in flight at *now*."""
        if self.state is CLOSED:
            return in_flight_max
        if self.state is RAMPING:
            return min(self._ramp, in_flight_max)
        self._check_clock(now)
        return 1 if self._is_ours and now < self.until else 0

    def wants_probe(self, now: Instant) -> bool:
        """Whether it is time for a probe, and the store has not been asked yet whose it is."""
        return (self.state is OPEN or self.state is PROBING) and self._asked is None and now >= self.until

    def _check_clock(self, now: Instant) -> None:
        # No hold and no probe is ever that long: the store's clock was set back, and we would wait for it to catch up.
        hold_ms = self._hold_ms(max(0, self._probes - 1))
        longest_ms = 1.25 * hold_ms + JUMP_MS if self.state is OPEN else 10 * self._rules.hold_ms_max
        if self.until - now > longest_ms:
            self.until = Instant(now + hold_ms)

    def _hold_ms(self, probes: int) -> int:
        return min(self._rules.hold_ms << min(probes, 20), self._rules.hold_ms_max)

    # --- what happened ---

    def record(self, fault: bool, now: Instant, roll: float, in_flight_max: int, sent_at: Instant) -> Health | None:
        """Take note of one result; the turn to ask the store for, if it made one.

        *roll* spreads the probes of many endpoints that fell ill together. What was *sent_at* a time before the last
        turn says nothing about the time after it.
        """
        state = self.state
        if state is OPEN or (state is not CLOSED and sent_at < self._since):
            return None
        if state is PROBING:
            if not self._is_ours:
                return None
            return self._open(now, roll) if fault else self._ramp_up(now)
        if now - self._window_at >= self._rules.window_ms:
            self._start_window(now)
        # A sum that grows with each fault and shrinks with each success, never below nothing: a share of faults in any
        # fixed few results crosses every limit sooner or later by chance, this one only when the endpoint is ill.
        borne = self._rules.fault_rate
        if not fault:
            self._evidence = max(0.0, self._evidence - borne)
        else:
            self._evidence += 1.0 - borne
            if self._evidence >= (self._rules.relapse_min if state is RAMPING else self._volume_min) * (1.0 - borne):
                return self._open(now, roll)
        if state is RAMPING and not fault:
            self._ramp += 1  # one more for each success: doubles with every round
            if self._ramp >= in_flight_max:
                return self._close(now)
        return None

    def claim(self, now: Instant, timeout_ms: int) -> Health:
        """Ask for the probe: it is ours only when the store says so."""
        until = Instant(now + timeout_ms + self._rules.probe_ms)
        self._asked = Health(self.endpoint_id, self._turn + 1, PROBING, until, self._probes)
        return self._asked

    def _open(self, now: Instant, roll: float) -> Health | None:
        self._enter(OPEN, now, Instant(now + int(self._hold_ms(self._probes) * (1.0 + 0.25 * roll))))
        self._probes += 1
        return self._tell()

    def _ramp_up(self, now: Instant) -> Health | None:
        self._ramp = self._rules.ramp_start
        self._enter(RAMPING, now, now)
        return self._tell()

    def _close(self, now: Instant) -> Health | None:
        self._probes = 0
        self._enter(CLOSED, now, now)
        return None if self._shared is CLOSED else self._tell()

    def _enter(self, state: BreakerState, now: Instant, until: Instant) -> None:
        self.state, self.until, self._since, self._is_ours = state, until, now, False
        self._start_window(now)

    def _start_window(self, now: Instant) -> None:
        self._window_at, self._evidence = now, 0.0

    # --- what all workers know ---

    def _tell(self) -> Health | None:
        if self._asked is not None:
            self._behind = True
            return None
        self._asked = Health(self.endpoint_id, self._turn + 1, self.state, self.until, self._probes)
        return self._asked

    def answered(self, found: Health | None, worker: str, now: Instant) -> Health | None:
        """The store has answered what we asked: *found* is how things stand now. The next turn to ask for, if any."""
        asked, self._asked = self._asked, None
        behind, self._behind = self._behind, False
        if asked is None:
            return None
        if found is None or (found.turn == asked.turn and found.by == worker):  # none: the endpoint is deleted
            self._turn, self._shared = asked.turn, asked.state
            if behind:
                return self._tell()
            if asked.state is PROBING and self.state in (OPEN, PROBING):
                self._enter(PROBING, now, asked.until)
                self._is_ours = True
            return None
        self.see(found, now)
        return None

    def see(self, found: Health, now: Instant) -> None:
        """Another worker has turned it: do as it says."""
        if found.turn <= self._turn or (self._asked is not None and found.turn == self._asked.turn):
            return  # known, or it is about what we asked, and the answer to that is on its way
        self._turn, self._shared, self._probes = found.turn, found.state, found.probes
        match found.state:
            case BreakerState.OPEN | BreakerState.PROBING:
                self._enter(found.state, now, found.until)
            case BreakerState.RAMPING:
                self._ramp = self._rules.ramp_start
                self._enter(RAMPING, now, now)
            case BreakerState.CLOSED if self.state is not CLOSED:
                # The endpoint is well; our own part of its traffic still comes back step by step.
                if self.state is not RAMPING:
                    self._ramp = self._rules.ramp_start
                    self._enter(RAMPING, now, now)
            case BreakerState.CLOSED:
                pass
