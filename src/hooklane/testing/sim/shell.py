"""The shell of a worker in a simulated process: it does what the worker asks for, and may break off in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hooklane.core.engine import Engine, Settled
from hooklane.core.worker import Call, ClockSet, Effects, LeaseLost, Lost, MarkLost, Missed, Note, Parts, Worker
from hooklane.core.worker.sweeping import Rounds
from hooklane.model.attempt import Send
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.exchange import Result
from hooklane.model.lane import LaneId
from hooklane.store.outbox import PublishReport
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.process import Process
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import T0, World

LEASE_MS = 1_000
POLL_MS = 50
GRACE_MS = 300
REST_MS_MIN = 20
"""Between two partitions of a sweep; everything here is some thirty times as quick as it is in earnest."""
STALL_MS_MAX = 2_500.0
"""Two and a half leases."""


class Shell(Process):
    """One process of the sender. *number* makes its names unlike all others."""

    def __init__(
        self,
        world: World,
        store: SimStore,
        network: Network,
        checker: Invariants,
        number: int,
        engine: Engine,
        parts: Parts | None = None,
    ) -> None:
        super().__init__(world, number)
        self.store = store
        self.network = network
        self.checker = checker
        self._lives = 0
        self._turn_is_set = False
        self._alarm_at: Instant = FOREVER
        self.worker = Worker(
            engine,
            self._new_name,
            skew_ms=T0,
            is_gone=world.is_gone,
            lease_ms=LEASE_MS,
            poll_ms=POLL_MS,
            grace_ms=GRACE_MS,
            rounds=Rounds(REST_MS_MIN),
            parts=parts,
        )
        self._soon()

    @property
    def name(self) -> str:
        return self.worker.name

    @property
    def epochs(self) -> dict[int, int]:
        return self.worker.epochs

    def _new_name(self) -> str:
        self._lives += 1
        return f"w{self.number}.{self._lives}"

    def crash(self) -> None:
        super().crash()
        if self.world.roll() < self.world.faults.same_host:
            self.world.gone.add(f"w{self.number}")

    # --- what others call ---

    def feed(self, published: PublishReport) -> None:
        """News of this process's own publishes."""
        if self.store.is_same_run(self.name):
            self.worker.fed(published.grown, published.span)
        self._soon()

    def wake(self, lane_ids: Sequence[LaneId]) -> None:
        """A person recovered lanes through this process."""
        self.worker.wake(lane_ids)
        self._soon()

    def stop(self) -> None:
        """End in good order: a deploy, not a crash."""
        self.world.counts["left"] += 1
        self.worker.stop(self.boot())
        self._soon()

    # --- the worker's turns ---

    def _soon(self) -> None:
        if not self._turn_is_set:
            self._turn_is_set = True
            self.after(self.world.faults.turn_ms * self.world.roll(), self._turn)

    def _turn(self) -> None:
        self._turn_is_set = False
        effects = self.worker.turn(self.boot())
        for note in effects.notes:
            self._count(note)
        if self.world.roll() < self.world.faults.turn_broken:
            self._break(effects)
        else:
            self._perform(effects)
        if effects.is_drained:
            self.do(self._end)
        self._set_alarm(effects.wake_at)

    def _perform(self, effects: Effects) -> None:
        for call in effects.calls:
            self._ask(call)
        for send in effects.sends:
            self._send(send)
        if effects.has_more:
            self._send_more_soon()

    def _break(self, effects: Effects) -> None:
        """Do some of what the worker asked for, then crash or stall, and do the rest after waking up."""
        nothing = replace(effects, calls=[], sends=[], has_more=False)
        parts = [replace(nothing, sends=[send]) for send in effects.sends]
        parts += [replace(nothing, calls=[call]) for call in effects.calls]
        self.world.chance.shuffle(parts)
        parts.append(replace(nothing, has_more=effects.has_more))
        cut = self.world.chance.randrange(len(parts))
        for part in parts[:cut]:
            self._perform(part)
        if self.world.roll() < 0.5:
            self.crash()
        else:
            self.stall(STALL_MS_MAX * self.world.roll(), clock_stops=self.world.roll() < 0.5)
            for part in parts[cut:]:
                self.do(self._perform, part)

    def _set_alarm(self, at: Instant) -> None:
        if at < self._alarm_at:
            self._alarm_at = at
            self.after(max(0.0, (at - self.boot()) / self._clock_rate) + 1.0, self._ring)

    def _ring(self) -> None:
        self._alarm_at = FOREVER
        self._soon()

    def _end(self) -> None:
        """Everything has come to rest, or has had its grace: leave the roster, under every name."""
        self.alive = False
        if self.worker.is_cut_off:
            self.world.counts["cut off"] += 1
            self.checker.forgot(self.worker.epochs)
        self._leave(list(self.worker.ownership.names))

    def _leave(self, names: list[str]) -> None:
        if names:
            leave, then = partial(self.store.leave, names[0]), partial(self._leave, names[1:])
            self.store.call(leave, lambda _: then(), lambda: None)

    # --- sending ---

    def _send_more_soon(self) -> None:
        self.after(0.3 * self.world.roll(), self._send_more)

    def _send_more(self) -> None:
        sends = self.worker.next_sends(self.boot())
        self.world.counts["held back"] += not sends
        for send in sends:
            self._send(send)
        if self.worker.sending.has_more:
            self._send_more_soon()

    def _send(self, send: Send) -> None:
        if self.network.kills(send):
            self.checker.killed(self.name, send.epoch, send.lane_id, send.seq, send.attempt)
            self.world.counts["killed"] += 1
            self.crash()
        elif self.alive:
            self.network.send(self.name, send, partial(self.do, self._settled, self.name))

    def _settled(self, name: str, send: Send, result: Result) -> None:
        self.checker.settled(name, send.epoch, send.lane_id)
        self.worker.inputs.append(Settled(send, result, self.world.roll()))
        self._soon()

    # --- the store ---

    def _ask(self, call: Call) -> None:
        if call.verb == "release":
            self.world.counts["handed over"] += len(call.args[1])
        steps = self.store.steps(call.verb, call.args)
        self.store.call_in_steps(steps, partial(self.do, self._answered, call), partial(self.do, self._failed, call))

    def _answered(self, call: Call, result: Any) -> None:
        if call.verb in ("fetch", "reload", "owed") and not self.store.is_same_run(call.worker):
            self._failed(call)
            return
        self.worker.answered(call, result, self.boot())
        self._soon()

    def _failed(self, call: Call) -> None:
        if not self.worker.is_ready:
            self.alive = False  # it never began: its process ends, and its lease with it
            return
        self.worker.failed(call, self.boot(), self.world.roll())
        self._soon()

    # --- what happened ---

    def _count(self, note: Note) -> None:
        match note:
            case LeaseLost():
                self.world.counts["lease lost"] += 1
            case MarkLost(epochs=epochs):
                self.world.counts["joined anew"] += 1
                self.checker.forgot(epochs)
            case Lost(lanes=lanes):
                self.world.counts["found lost"] += sum(len(lane.lost) for lane in lanes)
            case Missed(many=many):
                self.world.counts["found by a sweep"] += many
            case ClockSet():
                self.world.counts["clock set"] += 1
