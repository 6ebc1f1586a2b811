"""What the engine wants to have read or shared: in batches, one of each kind under way at a time, again if it fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hooklane.core.engine import Fetch, Fetched, HealthSeen, Reloaded
from hooklane.core.worker.effects import Call
from hooklane.core.worker.state import WorkerState
from hooklane.model.clock import FOREVER, START, Instant
from hooklane.model.health import Health
from hooklane.model.lane import LaneId

BATCH_MAX = 256
REST_MS = 1_000
"""After a call that failed."""


class Line(ABC):
    """Items of one kind, and one call for some of them under way at a time; what gathers meanwhile makes the next."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._items: list[Any] = []
        self._batch: list[Any] = []
        """What is being asked for now."""
        self._due: Instant = START

    def add(self, items: Iterable[Any]) -> None:
        self._items.extend(items)

    def wake_at(self) -> Instant:
        return self._due if self._items and not self._batch else FOREVER

    def go_on(self, boot: Instant) -> None:
        if self._items and not self._batch and boot >= self._due:
            self._batch, self._items = self._items[:BATCH_MAX], self._items[BATCH_MAX:]
            self._ask(self._batch, boot)

    def answered(self, call: Call, result: Any) -> None:
        batch, self._batch = self._batch, []
        self._tell(call, batch, result)

    def failed(self, boot: Instant) -> None:
        """To ask again is safe for each kind: the answer says how things stand."""
        self._items.extend(self._batch)
        self._batch = []
        self._due = Instant(boot + REST_MS)

    @abstractmethod
    def _ask(self, batch: list[Any], boot: Instant) -> None:
        """Ask the store about *batch*."""

    @abstractmethod
    def _tell(self, call: Call, batch: list[Any], result: Any) -> None:
        """Tell the engine what came of it."""


class Fetches(Line):
    """Events that are due soon and not in memory."""

    def _ask(self, batch: list[Fetch], boot: Instant) -> None:
        self._state.ask("fetch", boot, (batch,))

    def _tell(self, call: Call, batch: list[Fetch], result: Sequence[Any]) -> None:
        self._state.inputs.append(Fetched(result, [want.lane_id for want in batch]))


class Reloads(Line):
    """Lanes of which the engine wants to know what the store knows."""

    @property
    def asked(self) -> frozenset[LaneId]:
        """Those of which the answer is still to come."""
        return frozenset(self._items) | frozenset(self._batch)

    def _ask(self, batch: list[LaneId], boot: Instant) -> None:
        self._state.ask("reload", boot, (batch,), dict(self._state.epochs))

    def _tell(self, call: Call, batch: list[LaneId], result: Sequence[Any]) -> None:
        self._state.inputs.append(Reloaded(result, batch, call.epochs))


class BreakerTurns(Line):
    """Turns of breakers to be shared, unless another worker was first. One that was ours is still found to be ours."""

    def _ask(self, batch: list[Health], boot: Instant) -> None:
        self._state.ask("note_health", boot, ([replace(turn, by=self._state.name) for turn in batch],))

    def _tell(self, call: Call, batch: list[Health], result: Sequence[Health]) -> None:
        self._state.inputs.append(HealthSeen(result, call.worker, [turn.endpoint_id for turn in batch]))
