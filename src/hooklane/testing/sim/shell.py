"""The shell of the engine in a simulated process: it does what the engine asks, and may break off in the middle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hooklane.core.engine import (
    Committed,
    Effects,
    Engine,
    Fetch,
    Fetched,
    HealthSeen,
    Input,
    Reloaded,
    Settled,
)
from hooklane.model.attempt import Send, Write
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.exchange import Result
from hooklane.model.health import Health
from hooklane.model.lane import LaneId
from hooklane.store.outbox import CommitReport
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.process import Process
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import World

STALL_MS_MAX = 2_500.0
"""Two and a half leases."""


class Shell(Process):
    """An engine, and what the relay does around it: attempts, commits, fetches, reloads."""

    name: str
    """Under which it is in the roster now; none is used twice."""
    epochs: dict[int, int]
    """The partitions that it believes to own."""

    def __init__(
        self, world: World, store: SimStore, network: Network, checker: Invariants, number: int, engine: Engine
    ) -> None:
        super().__init__(world, number)
        self.store = store
        self.network = network
        self.checker = checker
        self.engine = engine
        self._inputs: list[Input] = []
        self._turn_is_set = False
        self._alarm_at: Instant = FOREVER
        self._commits: list[Write] = []
        self._committing = False
        self._fetches: list[Fetch] = []
        self._fetching = False
        self._reloads: list[LaneId] = []
        self._reloading = False

    # --- the engine's turns ---

    def put(self, *inputs: Input) -> None:
        self._inputs.extend(inputs)
        if not self._turn_is_set:
            self._turn_is_set = True
            self.after(0.3 * self.world.roll(), self._turn)

    def _turn(self) -> None:
        self._turn_is_set = False
        inputs, self._inputs = self._inputs, []
        effects = self.engine.step(self.now(), inputs)
        if self.world.roll() < self.world.faults.turn_broken:
            self._break(effects)
        else:
            self.perform(effects)
        self._set_alarm(effects.wake_at)

    def perform(self, effects: Effects) -> None:
        if effects.writes:
            self._commits.extend(effects.writes)
            self._pump_commits()
        if effects.fetches:
            self._fetches.extend(effects.fetches)
            self._pump_fetches()
        if effects.reloads:
            self._reloads.extend(effects.reloads)
            self._pump_reloads()
        if effects.health:
            self._note_health(self.name, effects.health)
        for send in effects.sends:
            if self.network.kills(send):
                self.checker.killed(self.name, send.epoch, send.lane_id, send.seq, send.attempt)
                self.world.counts["killed"] += 1
                self.crash()
                return
            self.network.send(self.name, send, partial(self.do, self._settled, self.name))

    def _break(self, effects: Effects) -> None:
        """Do some of what the engine asked for, then crash or stall, and do the rest after waking up."""
        parts = [Effects(sends=[send]) for send in effects.sends]
        parts += [
            Effects(health=effects.health),
            Effects(writes=effects.writes),
            Effects(fetches=effects.fetches),
            Effects(reloads=effects.reloads),
        ]
        self.world.chance.shuffle(parts)
        cut = self.world.chance.randrange(len(parts) + 1)
        for part in parts[:cut]:
            self.perform(part)
        if self.world.roll() < 0.5:
            self.crash()
        else:
            self.stall(STALL_MS_MAX * self.world.roll(), clock_stops=self.world.roll() < 0.5)
            for part in parts[cut:]:
                self.do(self.perform, part)

    def _set_alarm(self, at: Instant) -> None:
        if at < FOREVER and at != self._alarm_at:
            self._alarm_at = at
            self.after(max(0.0, (at - self.now()) / self._clock_rate) + 1.0, self._ring)

    def _ring(self) -> None:
        self._alarm_at = FOREVER
        self.put()

    # --- attempts ---

    def _settled(self, name: str, send: Send, result: Result) -> None:
        self.checker.settled(name, send.epoch, send.lane_id)
        self.put(Settled(send, result, self.world.roll()))

    # --- the store ---

    def call(self, verb: Callable[[], Any], ok: Callable[..., None], failed: Callable[[], None]) -> None:
        self.store.call(verb, lambda result: self.do(ok, result), lambda: self.do(failed))

    def _pump_commits(self) -> None:
        if not self._committing and self._commits:
            self._committing = True
            writes, self._commits = self._commits, []
            epochs = {pid: self.epochs[pid] for pid in {write.pid for write in writes} if pid in self.epochs}
            self._commit(self.name, epochs, writes)

    def _commit(self, name: str, epochs: dict[int, int], writes: list[Write]) -> None:
        """A failed commit is unknown, not "no": the same one is repeated until it is known."""
        self.call(
            lambda: self.store.commit(name, epochs, writes),
            lambda report: self._committed(epochs, writes, report),
            lambda: self.after(10.0 + 300.0 * self.world.roll(), self._commit_again, name, epochs, writes),
        )

    def _commit_again(self, name: str, epochs: dict[int, int], writes: list[Write]) -> None:
        if name == self.name:
            self._commit(name, epochs, writes)
        else:  # the lease is lost: whoever owns the lanes now will settle them
            self._committing = False
            self._pump_commits()

    def _committed(self, epochs: dict[int, int], writes: list[Write], report: CommitReport) -> None:
        self._committing = False
        for pid in report.fenced:
            if self.epochs.get(pid) == epochs.get(pid):
                self.epochs.pop(pid, None)
        self.put(Committed(writes, report.fenced, report.stale, epochs))
        self._pump_commits()

    def _pump_fetches(self) -> None:
        if not self._fetching and self._fetches:
            self._fetching = True
            wants, self._fetches = self._fetches, []
            self._fetch(wants)

    def _fetch(self, wants: list[Fetch]) -> None:
        def ok(items: Sequence[Any]) -> None:
            self._fetching = False
            self.put(Fetched(items, [want.lane_id for want in wants]))
            self._pump_fetches()

        self.call(lambda: self.store.fetch(wants), ok, lambda: self.after(20.0, self._fetch, wants))

    def _pump_reloads(self) -> None:
        if not self._reloading and self._reloads:
            self._reloading = True
            lane_ids, self._reloads = self._reloads, []
            self._reload(lane_ids)

    def _reload(self, lane_ids: list[LaneId]) -> None:
        epochs = dict(self.epochs)

        def ok(rows: Sequence[Any]) -> None:
            self._reloading = False
            self.put(Reloaded(rows, lane_ids, epochs))
            self._pump_reloads()

        self.call(lambda: self.store.reload(lane_ids), ok, lambda: self.after(20.0, self._reload, lane_ids))

    def _note_health(self, name: str, turns: list[Health]) -> None:
        asked = [replace(turn, by=name) for turn in turns]

        def ok(found: Sequence[Health]) -> None:
            self.put(HealthSeen(found, name, [turn.endpoint_id for turn in turns]))

        self.call(lambda: self.store.note_health(asked), ok, lambda: self.after(20.0, self._note_health, name, turns))
