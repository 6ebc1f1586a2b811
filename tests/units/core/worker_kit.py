"""A worker on a bench: the test carries out its calls one by one, on the simulator's tables, or lets them fail."""

from __future__ import annotations

from itertools import count
from typing import Any

from tests.units.core.kit import T0, endpoint

from hooklane.core.engine import Engine, Input, Settled
from hooklane.core.worker import Call, Effects, Worker
from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Result, Timings
from hooklane.store.outbox import Draft, PublishReport
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim.faults import NONE
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import World

LEASE_MS = 3_000
POLL_MS = 100
GRACE_MS = 500
OWNING = ("poll", "leave", "join", "renew", "roster", "expire", "acquire", "load", "release")
SAME = object()


class WorkerBench:
    """A worker with a store of its own, or one that it shares with another bench."""

    def __init__(self, beside: WorkerBench | None = None, *, start: bool = True, lanes: int = 0, **more: Any) -> None:
        self.world = beside.world if beside else World(1, NONE)
        self.store = beside.store if beside else SimStore(self.world, Invariants(lambda: 0.0))
        if beside is None:
            self.store.change(endpoint("ep", in_flight_max=512), None)
            self.published = 0
            self.publish(lanes)
        names = (f"{'b' if beside else 'a'}{n}" for n in count(1))
        self.engine = Engine()
        self.worker = Worker(
            self.engine,
            lambda: next(names),
            skew_ms=T0,
            lease_ms=LEASE_MS,
            poll_ms=POLL_MS,
            grace_ms=GRACE_MS,
            **more,
        )
        self.open: list[Call] = []
        self.sends_all = True
        """Whether it is asked for more as long as there is more to send."""
        self._asks_for_more = False
        self.sends: list[Any] = []
        self.notes: list[Any] = []
        if start:
            self.turn()
            self.settle()

    @property
    def steps(self) -> list[str]:
        """The calls of ownership that are under way: one, or none."""
        return [one.verb for one in self.open if one.verb in (*OWNING[1:], "account_for")]

    @property
    def boot(self) -> Instant:
        return Instant(int(self.world.now))

    def publish(self, many: int) -> PublishReport:
        """So many events, each of a key of its own."""
        first = self.published
        self.published += many
        events = [Event(f"evt_{n}", "a.b", f"k{n}", b"{}", T0) for n in range(first, self.published)]
        return self.store.publish([Draft(event) for event in events])

    def turn(self) -> Effects:
        self.effects = self.worker.turn(self.boot)
        self.open += self.effects.calls
        self.sends += self.effects.sends
        self.notes += self.effects.notes
        self._asks_for_more |= self.effects.has_more
        while self.sends_all and self._asks_for_more:
            self.sends += self.worker.next_sends(self.boot)
            self._asks_for_more = self.worker.sending.has_more
        return self.effects

    def later(self, ms: int) -> Effects:
        self.world.now += ms
        return self.turn()

    def told(self) -> list[Input]:
        """What the engine will be told in the next turn."""
        return list(self.worker.inputs)

    def call(self, verb: str) -> Call:
        """The one call of *verb* that is under way."""
        [call] = [one for one in self.open if one.verb == verb]
        return call

    def is_open(self, verb: str) -> bool:
        return any(one.verb == verb for one in self.open)

    def carry_out(self, call: Call) -> Any:
        if call.verb != "load":
            return getattr(self.store, call.verb)(*call.args)
        result = None
        for step in self.store.load_steps(*call.args):
            result = step(result)
        return result

    def answer(self, verb: str, result: Any = SAME) -> Effects:
        """The call of *verb* is carried out and answered, with *result* if there is one."""
        call = self.call(verb)
        self.tell(call, self.carry_out(call) if result is SAME else result)
        return self.turn()

    def tell(self, call: Call, result: Any) -> None:
        self.open.remove(call)
        self.worker.answered(call, result, self.boot)

    def fail(self, verb: str, roll: float = 0.5, *, carried_out: bool = False) -> Effects:
        call = self.call(verb)
        if carried_out:
            self.carry_out(call)
        self.open.remove(call)
        self.worker.failed(call, self.boot, roll)
        return self.turn()

    def settle(self, *verbs: str) -> None:
        """Answer the calls of *verbs* (those of ownership), and what follows, until none is left."""
        while found := [one.verb for one in self.open if one.verb in (verbs or OWNING)]:
            self.answer(found[0])

    def end(self, send: Any, status: int = 200) -> None:
        result: Result = Answer(status, Timings(1.0))
        self.worker.inputs.append(Settled(send, result, 0.0))
