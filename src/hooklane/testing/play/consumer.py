"""The consumer: each copy that arrives is handed to all receivers, each of which does with it what its code says."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from hooklane.testing.play.meters import Meters
from hooklane.testing.play.ours import Ours
from hooklane.testing.play.samples import Application, CheckThenMark, Copy, DeliveredAtGuard, Io, Naive
from hooklane.testing.play.trace import Receiver, Tally
from hooklane.testing.play.weather import Crash
from hooklane.testing.sim.world import World

WORK_MS = 15.0
"""All receivers have answered by then; the sender hears them no sooner, so that none of them changes the traffic."""
BESIDE_MS = 3.0
"""A copy that comes within this time meets the first one at work."""

Did = Callable[[str, Copy, Receiver, int | None, Tally | None], None]
"""Kind of step, the copy, whose, the status, and what was applied so far."""

SAMPLES: dict[Receiver, Callable[[Application], Any]] = {
    "naive": Naive,
    "check_then_mark": CheckThenMark,
    "delivered_at": DeliveredAtGuard,
}


class Consumer:
    """Four receivers of the same copies. What the first of *names* (ours, if it is there) answers is the answer."""

    def __init__(self, world: World, names: Sequence[Receiver], ours: Callable[..., Ours], did: Did) -> None:
        self.world = world
        self.meters = {name: Meters() for name in names}
        self.busy = 0
        """Receivers at work."""
        self._did = did
        self._statuses: dict[int, tuple[int, str | None]] = {}
        self._samples = {
            name: SAMPLES[name](Application(partial(self._applied, name))) for name in names if name != "ours"
        }
        self._ours = ours(told=partial(self._applied, "ours")) if "ours" in names else None
        self._stage: Receiver = "ours" if self._ours else names[0]
        self._waiting: list[tuple[Copy, Crash | None]] = []

    def take(self, copy: Copy, crash: Crash | None) -> None:
        """A copy arrived; the consumer dies with it where *crash* says so."""
        if crash == "before":
            return
        for name, sample in self._samples.items():
            self.busy += 1
            self._go_on(name, copy, crash, sample.receive(copy), self.meters[name].tally())
        if self._ours is not None:
            self.busy += 1
            self._waiting.append((copy, crash))
            self.world.after_without_chance(BESIDE_MS, self._take_ours)

    def answer(self, copy: Copy) -> tuple[int, str | None]:
        """The status that the sender is told, and a `Retry-After`."""
        return self._statuses.pop(copy.number)

    def close(self) -> None:
        if self._ours is not None:
            self._ours.close()

    # The samples: coroutines, whose awaits take simulated time

    def _go_on(
        self, name: Receiver, copy: Copy, crash: Crash | None, work: Coroutine[Io, None, str], before: Tally
    ) -> None:
        try:
            wait = work.send(None)
        except StopIteration as end:
            self._end(name, copy, crash, 200, end.value)
        except Exception:
            self._end(name, copy, crash, 500, "failed")  # what a web framework makes of it
        else:
            if crash == "between" and self.meters[name].tally() != before:
                work.close()
                self.busy -= 1
                return
            self.world.after_without_chance(wait.ms, self._go_on, name, copy, crash, work, before)

    def _end(self, name: Receiver, copy: Copy, crash: Crash | None, status: int, word: str) -> None:
        self.busy -= 1
        if word != "applied":  # which was told when it happened
            self._did(word, copy, name, status, None)
        if name == self._stage and crash is None:
            self._statuses[copy.number] = (status, None)

    # Ours: one call, with the other worker's copy in the middle of it

    def _take_ours(self) -> None:
        if not self._waiting:
            return
        assert self._ours is not None
        copy, crash = self._waiting.pop(0)
        beside = [each for each in self._waiting if each[0].event_id == copy.event_id and each[1] is None]
        self._waiting = [each for each in self._waiting if each not in beside]
        self._ours.receive(copy, [each for each, _ in beside], crash)
        for each in (copy, *(other for other, _ in beside)):
            self.busy -= 1
            if each.number not in self._ours.verdicts:
                continue
            status, verdict, retry_after = self._ours.verdicts[each.number]
            if verdict != "applied":
                self._did(verdict if verdict in ("duplicate", "stale") else _word(each), each, "ours", status, None)
            self._statuses[each.number] = (status, retry_after)

    def _applied(self, name: Receiver, copy: Copy) -> None:
        self.meters[name].applied(copy.key, copy.seq)
        self._did("applied", copy, name, 200, self.meters[name].tally())


def _word(copy: Copy) -> str:
    """Ours says `busy` to what must be sent again: because its handler failed, or because another worker is at it."""
    return "failed" if copy.is_poison else "busy"
