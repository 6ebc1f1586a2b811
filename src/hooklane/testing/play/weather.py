"""What befalls an attempt? Asked by its event and number, never by its turn: all receivers stand in the same rain."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from hooklane.model.attempt import Send
from hooklane.testing.play.scenarios import Mishap, Scenario
from hooklane.testing.play.trace import CrashPoint, Faults, WorkerCrashPoint

WAY_MS = 300.0
"""One way through the network, so that an eye can follow it."""
RIGHT_BEHIND_MS = 1.0
LATE_MS = 1_300.0
STALL_MS = 3_500.0
"""Three and a half leases."""

Crash = Literal["before", "between", "after"]
"""Before the work, between the effect and all that follows it, or after everything but the answer."""
_CRASHES: dict[CrashPoint, Crash] = {"before_work": "before", "before_commit": "between", "before_answer": "after"}
_WORKER_CRASHES = tuple(point for point in get_args(WorkerCrashPoint) if point != "anywhere")


@dataclass(frozen=True, slots=True)
class Fate:
    """Everything that happens to one attempt."""

    there_ms: float
    back_ms: float
    request_lost: bool = False
    ack_lost: bool = False
    copy_after_ms: float | None = None
    """How long after the first the network's own copy arrives."""
    crash: Crash | None = None
    status: int | None = None
    """What is answered in the consumer's place."""
    works: bool = True
    """Whether the consumer gets to do its work."""


class Weather:
    """The fate of each attempt, from the scenario's script and from chances."""

    def __init__(self, scenario: Scenario, seed: int, faults: Faults, start_ms: float, *, is_crowd: bool) -> None:
        self._scenario = scenario
        self._seed = seed
        self._faults = faults
        self._start_ms = start_ms
        self._is_crowd = is_crowd

    def fate(self, send: Send, now_ms: float) -> Fate:
        """What befalls *send*, which leaves now."""
        key, faults = str(send.key), self._faults
        chance = self._chance("fate", key, send.seq, send.attempt)
        # Each is rolled whether it counts or not: a slider moves what it is about, and nothing else.
        there, back = (WAY_MS * (0.8 + 0.4 * chance.random()) + 2 * faults.delay_ms * chance.random() for _ in "ab")
        lost, ack_lost, doubled, crashes = (chance.random() for _ in range(4))
        crash: Crash = chance.choice(tuple(_CRASHES.values()))
        crash = _CRASHES.get(faults.crash_at, crash)
        late_ms, down = RIGHT_BEHIND_MS + faults.reorder_ms * chance.random(), chance.random() < 0.5
        mishap = self._mishap(send)
        copy_after_ms = late_ms if doubled < faults.duplicate else None
        if mishap in (Mishap.DOUBLED, Mishap.DOUBLED_LATE):
            copy_after_ms = RIGHT_BEHIND_MS if mishap is Mishap.DOUBLED else LATE_MS
        is_down = any(begin <= now_ms - self._start_ms + there < end for begin, end in self._scenario.flaps)
        refused = mishap is Mishap.UNAVAILABLE or (is_down and down)
        masked = mishap is Mishap.BAD_GATEWAY or (is_down and not down)
        return Fate(
            there,
            back,
            request_lost=mishap is Mishap.REQUEST_LOST or lost < faults.drop_request,
            ack_lost=mishap is Mishap.ACK_LOST or ack_lost < faults.drop_ack,
            copy_after_ms=copy_after_ms,
            crash=crash if crashes < faults.crash else None,
            status=503 if refused else 502 if masked else None,
            works=not refused,
        )

    def stalls(self, send: Send) -> bool:
        """Whether the worker stands still before it sends this."""
        if self._mishap(send) is Mishap.STALLED:
            return True
        every = self._scenario.stall_every if self._is_crowd and send.attempt == 1 else 0
        return bool(every) and self._chance("stall", str(send.key), send.seq).random() < 1.0 / every

    def worker_crash(self, send: Send) -> WorkerCrashPoint | None:
        """Where the worker that has this event in its hands dies, if it does."""
        chance = self._chance("worker crash", str(send.key), send.seq)
        dies, point = chance.random() < self._faults.worker_crash, chance.choice(_WORKER_CRASHES)
        if not dies:
            return None
        return point if self._faults.worker_crash_at == "anywhere" else self._faults.worker_crash_at

    def is_poison(self, key: str, seq: int) -> bool:
        """Whether handlers fail on this event."""
        if (key, seq) in self._scenario.poison:
            return True
        share = self._scenario.poison_share if self._is_crowd else 0.0
        return self._chance("poison", key, seq).random() < share

    def _mishap(self, send: Send) -> Mishap | None:
        return self._scenario.mishaps.get((str(send.key), send.seq, send.attempt))

    def _chance(self, *about: object) -> Random:
        return Random(f"{self._seed}/{'/'.join(map(str, about))}")
