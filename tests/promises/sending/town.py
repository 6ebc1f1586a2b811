"""A town of endpoints under a virtual clock: real engines, the memory tables, and receivers that a test can break.

It is the simulator's world without its faults: what happens here happens by the test's own hand.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from hooklane.core.engine import Engine
from hooklane.model.attempt import Send
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Result, Timings
from hooklane.store.outbox import Draft
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim import shell as sim_shell
from hooklane.testing.sim.faults import NONE
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.shell import Shell
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import T0, World

OK = Answer(200, Timings(1.0))
BROKEN = Answer(503, Timings(1.0))

React = Callable[[Send], Result]


class Post(Network):
    """Every attempt, with its time; *react* decides what it comes to, after *took_ms*."""

    def __init__(self, world: World, checker: Invariants) -> None:
        super().__init__(world, checker)
        self.react: React = lambda _: OK
        self.took_ms = 5.0
        self.log: list[tuple[float, Send]] = []

    def send(self, worker: str, send: Send, done: Callable[[Send, Result], None]) -> None:
        world = self.world
        digest = hash(send.event.id)
        self.checker.sent(worker, send.epoch, send.lane_id, send.seq, send.attempt, send.at, send.event.id, digest)
        self.log.append((world.now, send))
        result = self.react(send)
        landed = isinstance(result, Answer) and 200 <= result.status < 300
        if isinstance(result, Answer):
            self.checker.answered(send.lane_id, send.seq, send.epoch, landed=landed)
        else:
            self.checker.unanswered(send.lane_id, send.seq)
        world.after(self.took_ms, done, send, result)


class Town:
    """Shells that share the memory tables, and what they send."""

    def __init__(self, workers: int = 1, *, in_flight_max: int = 2_048, seed: int = 1) -> None:
        self.world = World(seed, NONE)
        self.checker = Invariants(lambda: self.world.now)
        self.store = SimStore(self.world, self.checker)
        self.post = Post(self.world, self.checker)
        self.workers: list[Shell] = []
        self._in_flight_max = in_flight_max
        self._count = 0
        for _ in range(workers):
            self.hire()

    def hire(self) -> Shell:
        """One more worker."""
        engine = Engine(in_flight_max=self._in_flight_max)
        worker = Shell(self.world, self.store, self.post, self.checker, len(self.workers), engine)
        self.workers.append(worker)
        return worker

    @property
    def now(self) -> float:
        return self.world.now

    def endpoint(self, id: str, **rules: Any) -> Endpoint:
        endpoint = Endpoint(id=id, url=f"https://{id}.example/", created_at=Instant(T0), **rules)
        self.store.change(endpoint, None)
        return endpoint

    def publish(self, endpoint_id: str, key: str | None, many: int = 1) -> None:
        """Events for one endpoint, found by its workers' polls."""
        drafts = []
        for _ in range(many):
            self._count += 1
            event = Event(f"evt_{self._count}", "order.created", key, b"{}", Instant(T0 + int(self.now)))
            drafts.append(Draft(event, (endpoint_id,)))
        self.store.publish(drafts)

    def run(self, for_ms: float) -> None:
        self.world.run(lambda: False, for_ms)

    def run_until(self, holds: Callable[[], bool], within_ms: float) -> float:
        """How long it took."""
        began = self.now
        assert self.world.run(holds, within_ms), f"not within {within_ms:.0f} ms"
        return self.now - began

    def sends(self, since: float = 0.0, endpoint_id: str | None = None) -> list[Send]:
        return [one for at, one in self.post.log if at >= since and endpoint_id in (None, one.endpoint.id)]

    def times(self, endpoint_id: str, since: float = 0.0) -> list[float]:
        return [at for at, send in self.post.log if at >= since and send.endpoint.id == endpoint_id]

    def count(self, what: str) -> int:
        return self.world.counts[what]


def peak(times: list[float], window_ms: float = 1_000.0) -> int:
    """The most of them in any window."""
    most = 0
    line: deque[float] = deque()
    for at in times:
        line.append(at)
        while line[0] <= at - window_ms:
            line.popleft()
        most = max(most, len(line))
    return most


def per_lane(sends: list[Send]) -> Counter[int]:
    return Counter(send.lane_id for send in sends)


def slow_clockwork(monkeypatch: Any) -> None:
    """Leases and polls as in earnest: the simulator's own are quick, to see more of them."""
    monkeypatch.setattr(sim_shell, "LEASE_MS", 30_000)
    monkeypatch.setattr(sim_shell, "POLL_MS", 250)
    monkeypatch.setattr(sim_shell, "GRACE_MS", 5_000)
