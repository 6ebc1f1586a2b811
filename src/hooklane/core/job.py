"""Which members of a job are next? In order per key, at a rate, and a key stops at its first new failure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import OPEN, JobMember, Op, Progress

OUTSTANDING_MAX = 4_000
"""How much of a job is on its way at once: enough to keep endpoints busy, few enough that new events get through."""
TRIFLE = 1e-4
"""The part of a member that floats may lose: with a burst of one, 0.99999 would be none, for ever."""
AGAIN_WINDOW = 16
"""Redelivery lanes keep their order themselves, so some of a key may be given to them at once."""

_STOPS = (Progress.FAILED, Progress.HELD, Progress.CANCELLED)


@dataclass(slots=True)
class _Line:
    """The members of one key at one endpoint that wait, in order, and those that are on their way."""

    waiting: deque[int] = field(default_factory=deque)
    out: set[int] = field(default_factory=set)
    window: int = 1
    queued: bool = False


class JobRun:
    """A job in the memory of its runner; it says what to release, and is told what came of it."""

    def __init__(self, op: Op, members: Iterable[JobMember]) -> None:
        self.counts: Counter[Progress] = Counter()
        self._lines: dict[str, _Line] = {}
        self._line_of: dict[int, str] = {}
        self._ready: deque[_Line] = deque()
        stopped: set[str] = set()
        for one in members:
            self.counts[one.progress] += 1
            name = one.member.line
            if one.progress in _STOPS:
                stopped.add(name)
            if one.progress not in OPEN:
                continue
            line = self._lines.get(name)
            if line is None:
                line = self._lines[name] = _Line(window=_window(op, one.member.state))
            self._line_of[one.n] = name
            if one.progress is Progress.RELEASED:
                line.out.add(one.n)
            else:
                line.waiting.append(one.n)
        self._unheld = [n for name in stopped if name in self._lines for n in self._lines[name].waiting]
        for name in stopped:
            if name in self._lines:
                self._lines[name].waiting.clear()
        for line in self._lines.values():
            self._queue(line)

    @property
    def outstanding(self) -> int:
        return self.counts[Progress.RELEASED]

    @property
    def is_over(self) -> bool:
        return not self.counts[Progress.PLANNED] and not self.counts[Progress.RELEASED]

    def begin(self) -> list[int]:
        """Members that an earlier runner should have held, had it not died: to be marked so now."""
        held, self._unheld = self._unheld, []
        self._count(held, Progress.PLANNED, Progress.HELD)
        return held

    def take(self, room: int) -> list[int]:
        """Up to *room* members to release now, one key after the other, in order inside each."""
        taken: list[int] = []
        room = min(room, OUTSTANDING_MAX - self.outstanding)
        while self._ready and len(taken) < room:
            line = self._ready.popleft()
            line.queued = False
            if not line.waiting:
                continue  # it stopped while it stood in line
            n = line.waiting.popleft()
            line.out.add(n)
            taken.append(n)
            self._queue(line)
        self._count(taken, Progress.PLANNED, Progress.RELEASED)
        return taken

    def settled(self, n: int, progress: Progress) -> list[int]:
        """Member *n* came to *progress*; the members of its key that are held because of it."""
        line = self._lines[self._line_of[n]]
        line.out.discard(n)
        self._count([n], Progress.RELEASED, progress)
        held: list[int] = []
        if progress in _STOPS:
            held, line.waiting = list(line.waiting), deque()
            self._count(held, Progress.PLANNED, Progress.HELD)
        else:
            self._queue(line)
        return held

    def stop(self) -> list[int]:
        """Release nothing more: the members that will not be."""
        left = [n for line in self._lines.values() for n in line.waiting]
        for line in self._lines.values():
            line.waiting.clear()
        self._ready.clear()
        self._count(left, Progress.PLANNED, Progress.CANCELLED)
        return left

    def _queue(self, line: _Line) -> None:
        if line.waiting and len(line.out) < line.window and not line.queued:
            line.queued = True
            self._ready.append(line)

    def _count(self, numbers: list[int], before: Progress, after: Progress) -> None:
        self.counts[before] -= len(numbers)
        self.counts[after] += len(numbers)


def _window(op: Op, state: DeliveryState) -> int:
    if op is Op.SKIP or state is DeliveryState.SKIPPED:
        return OUTSTANDING_MAX  # done in one go: nothing is waited for
    return AGAIN_WINDOW if state is DeliveryState.DELIVERED else 1


@dataclass(slots=True)
class Pace:
    """How many may go now at a rate; what was not used while nothing could go is not saved up."""

    rate: float | None
    since: float

    def room(self, now: Instant) -> int:
        if self.rate is None:
            return OUTSTANDING_MAX
        burst = max(1.0, self.rate / 4)
        self.since = max(self.since, now - 1000 * burst / self.rate)
        return int((now - self.since) * self.rate / 1000 + TRIFLE)

    def used(self, many: int) -> None:
        if self.rate is not None:
            self.since += many * 1000 / self.rate


def counts_of(run: JobRun) -> Mapping[Progress, int]:
    """What people see: every word, also those that no member has come to."""
    return {progress: run.counts[progress] for progress in Progress}
