"""What all parts of a worker share: its name, partitions and clock, what the engine is told and the store asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hooklane.core.engine import Engine, Input
from hooklane.core.worker.effects import Call, Note
from hooklane.model.clock import FOREVER, START, Instant
from hooklane.model.jumps import jump
from hooklane.model.lane import PARTITIONS

SLACK_MS = 100
_NONE: dict[int, int] = {}


class WorkerState:
    """One worker's name and partitions, and what waits for its next turn."""

    def __init__(self, engine: Engine, new_name: Callable[[], str], skew_ms: int) -> None:
        """*new_name* makes a name that no worker has had; *skew_ms* is how far the host's wall clock is ahead."""
        self.engine = engine
        self.new_name = new_name
        self.name = new_name()
        self.epochs: dict[int, int] = {}
        """The partitions that are ours, each with the epoch under which it is."""
        self.lease_until: Instant = FOREVER
        """Until when we may send, by the store's clock."""
        self.inputs: list[Input] = []
        """Always the same list: the shell keeps it at hand, for each attempt that ends."""
        self.calls: list[Call] = []
        self.notes: list[Note] = []
        self._skew_ms = skew_ms
        self.told_at: Instant = START
        """When the store was asked for the time that it said last."""

    @property
    def share(self) -> float:
        """Our part of all partitions."""
        return max(1, len(self.epochs)) / PARTITIONS

    def ask(
        self, verb: str, boot: Instant, args: tuple[Any, ...], epochs: Mapping[int, int] = _NONE, tries: int = 0
    ) -> Call:
        """Call the store, under the name that we have now."""
        call = Call(verb, args, self.name, boot, epochs, tries)
        self.calls.append(call)
        return call

    # --- the store's clock, carried on between its answers by one that never jumps ---

    def now(self, boot: Instant) -> Instant:
        return Instant(boot + self._skew_ms)

    def boot_at(self, at: Instant) -> Instant:
        """The time *at* of the store's clock, by the one that never jumps."""
        return Instant(at - self._skew_ms) if at < FOREVER else FOREVER

    def follow(self, store_now: Instant, asked_at: Instant, boot: Instant) -> int:
        """The store has said what time it is, some time between *asked_at* and *boot*.

        By how much its clock was set since it last did, or 0.
        """
        asked, answered = self.now(asked_at), self.now(boot)
        self.told_at = asked_at
        # Small differences mean nothing; followed, they would make waits a little shorter than the schedule.
        if not asked - SLACK_MS <= store_now <= answered + SLACK_MS:
            self._skew_ms = store_now - boot
        return jump(asked, answered, store_now)
