"""Play a scenario: the real engine, worker and signatures in a simulated network, recorded step by step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any, Literal

import msgspec

from hooklane.core.engine import Engine
from hooklane.core.worker import Call
from hooklane.errors import UsageError
from hooklane.model.attempt import Send, Settlement
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Result
from hooklane.model.lane import LaneState
from hooklane.store.outbox import Draft
from hooklane.testing.play.consumer import Consumer
from hooklane.testing.play.network import PlayNetwork
from hooklane.testing.play.ours import Ours
from hooklane.testing.play.samples import Copy
from hooklane.testing.play.scenarios import BY_NAME, Published, Scenario
from hooklane.testing.play.trace import (
    Faults,
    Ledger,
    Play,
    Receiver,
    Step,
    Tally,
    Trace,
    WorkerCrashPoint,
    hash_of,
)
from hooklane.testing.play.weather import STALL_MS, Weather
from hooklane.testing.sim.faults import NONE
from hooklane.testing.sim.recorder import Recorder
from hooklane.testing.sim.shell import Shell
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import T0, World

START_MS = 400.0
"""The workers have joined and share the partitions by then."""
SIMULATED_MS_MAX = 180_000.0
"""A run goes no further: what waits then is told as waiting."""
TOOK_S_MAX = 10.0
RATE = 40
"""Of many events so many are published a second."""
RESTART_MS = 600.0
"""A worker that crashed is started again by then. What it had in its hands is taken over when its lease has run out."""
TYPES = ("order.created", "order.updated", "order.paid", "order.shipped")
SECRET = "whsec_cGxheWdyb3VuZCBzZWNyZXQgb2YgaG9va2xhbmU="
"""Signs simulated requests, which never leave the process."""


class TooLong(UsageError):
    """The run was ended: it takes more time than a server can give it."""


class PlayShell(Shell):
    """A worker of the sender that stands still before some sends, or dies at a chosen point of one."""

    def __init__(
        self,
        *args: Any,
        stalls: Callable[[Send], bool],
        dies: Callable[[Send, WorkerCrashPoint], bool],
        tell: Callable[..., None],
        crashed: Callable[[PlayShell], None],
    ) -> None:
        self._stalls = stalls
        self._dies = dies
        self._tell = tell
        self._crashed = crashed
        self._stalled_for: set[tuple[int, int]] = set()
        super().__init__(*args)

    def _send(self, send: Send) -> None:
        place = (send.lane_id, send.seq)
        if self._die(send, "before_send"):
            return
        if place not in self._stalled_for and not self._stalled_for and self._stalls(send):
            self._stalled_for.add(place)
            self._tell("stalled", key=send.key, seq=send.seq, try_=send.attempt, until=self.world.now + STALL_MS)
            self.stall(STALL_MS, clock_stops=False)
            self.world.after_without_chance(STALL_MS - 0.1, self._tell_waking, send)
            self.do(super()._send, send)
        else:
            super()._send(send)
            self._die(send, "before_answer")

    def _settled(self, name: str, send: Send, result: Result) -> None:
        if not (_is_ack(result) and self._die(send, "before_commit")):
            super()._settled(name, send, result)

    def _answered(self, call: Call, result: Any) -> None:
        written = call.args[2] if call.verb == "commit" else ()
        acks = [one.send for one in written if isinstance(one, Settlement) and _is_ack(one.result)]
        if not any(self._die(send, "after_commit") for send in acks):
            super()._answered(call, result)

    def _die(self, send: Send, point: WorkerCrashPoint) -> bool:
        if not self.alive or not self._dies(send, point):
            return False
        self._tell("worker_crashed", key=send.key, seq=send.seq, try_=send.attempt)
        self.crash()
        self._crashed(self)
        return True

    def _tell_waking(self, send: Send) -> None:
        if self.alive:
            self._tell("woke", key=send.key, seq=send.seq, try_=send.attempt)


def _is_ack(result: Result | None) -> bool:
    return isinstance(result, Answer) and 200 <= result.status < 300


class _Run:
    """One world with two workers, one endpoint and one consumer."""

    def __init__(self, asked: Play, scenario: Scenario, where: str) -> None:
        self.steps: list[Step] = []
        self.sent: set[tuple[str, int]] = set()
        self.acked: set[tuple[str, int]] = set()
        self.dead = 0
        self.stalled = 0
        self._seqs: dict[str, int] = {}
        self.world = World(asked.seed, NONE)
        is_crowd = asked.events is not None
        chances = scenario.crowd if is_crowd else Faults()
        faults = chances if asked.faults is None else asked.faults
        self.weather = Weather(scenario, asked.seed, faults, START_MS, is_crowd=is_crowd)
        self.checker = Recorder(lambda: self.world.now, self._told)
        self.store = SimStore(self.world, self.checker)
        clock = self.store.clock
        self.consumer = Consumer(self.world, asked.receivers, partial(Ours, where, SECRET, clock), self._did)
        self.network = PlayNetwork(self.world, self.checker, self.weather, self.consumer, self.tell, self._is_up)
        self.store.change(_endpoint(scenario), None)
        self._deaths: set[tuple[int, int]] = set()
        self._workers_made = 0
        self.workers: list[PlayShell] = [self._worker(), self._worker()]
        self.published = _published(asked, scenario)
        self.left = len(self.published)
        for number, one in enumerate(self.published, start=1):
            self.world.after_without_chance(START_MS + one.at_ms, self._publish, number, one)

    # What happens

    def _worker(self) -> PlayShell:
        """A new process of the sender, which no other one was named like."""
        self._workers_made += 1
        return PlayShell(
            self.world,
            self.store,
            self.network,
            self.checker,
            self._workers_made,
            Engine(in_flight_max=200, lanes_max=60),
            stalls=self._stalls,
            dies=self._dies,
            tell=self.tell,
            crashed=lambda dead: self.world.after_without_chance(RESTART_MS, self._restart, dead),
        )

    def _dies(self, send: Send, point: WorkerCrashPoint) -> bool:
        place = (send.lane_id, send.seq)
        if place in self._deaths or self.weather.worker_crash(send) != point:
            return False
        self._deaths.add(place)
        return True

    def _is_up(self, name: str) -> bool:
        """Whether the process that sent under this name (`w1.2`) is still there to hear the answer."""
        return any(one.alive and one.number == int(name[1:].partition(".")[0]) for one in self.workers)

    def _restart(self, dead: PlayShell) -> None:
        self.workers[self.workers.index(dead)] = self._worker()
        self.tell("worker_restarted")

    def _publish(self, number: int, one: Published) -> None:
        seq = self._seqs[one.key] = self._seqs.get(one.key, 0) + 1
        data = {"order": one.key, "n": seq, **({"poison": True} if self.weather.is_poison(one.key, seq) else {})}
        event = Event(f"evt_{number}", one.type, one.key, msgspec.json.encode(data), Instant(T0 + int(self.world.now)))
        report = self.store.publish([Draft(event, None, (f"id:{event.id}",), event.data)])
        self.left -= 1
        door = self.workers[0]  # while it is dead, the other one finds in the store what was published
        door.do(door.feed, report)

    def _stalls(self, send: Send) -> bool:
        if self.stalled or not self.weather.stalls(send):
            return False
        self.stalled += 1  # one worker at a time: the other must be there to take over
        self.world.after_without_chance(STALL_MS, self._woke)
        return True

    def _woke(self) -> None:
        self.stalled -= 1

    @property
    def is_over(self) -> bool:
        if self.left or self.network.flying or self.consumer.busy or self.stalled:
            return False
        tables = self.store.tables
        rows = [tables.row_of(lane) for lane in tables.lanes.values()]
        return all(row.head > row.tail or row.state is LaneState.BLOCKED for row in rows)

    # What is told

    def tell(self, kind: Any, *, until: float | None = None, **more: Any) -> None:
        if kind == "sent":
            self.sent.add((more["key"], more["seq"]))
        at = None if until is None else round(until - START_MS, 1)
        self.steps.append(Step(t=round(self.world.now - START_MS, 1), kind=kind, until=at, **more))

    def _told(self, kind: str, lane: int, seq: int, attempt: int | None, until: float | None) -> None:
        key = str(self.store.tables.lanes[lane].key)
        if kind == "acked":
            self.acked.add((key, seq))
        self.dead += kind == "dead"
        about: dict[str, Any] = {}
        if kind == "published":
            event = self.store.tables.lanes[lane].events[seq - 1]
            about = {"type": event.type, "poison": self.weather.is_poison(key, seq)}
        self.tell(kind, key=key, seq=seq, try_=attempt, until=None if until is None else until - T0, **about)

    def _did(self, kind: str, copy: Copy, receiver: Receiver, status: int | None, tally: Tally | None) -> None:
        self.tell(
            kind,
            key=copy.key,
            seq=copy.seq,
            try_=copy.attempt,
            copy=copy.number,
            receiver=receiver,
            status=status,
            tally=tally,
        )


def play(
    asked: Play,
    *,
    store: Literal["memory", "sqlite"] = "memory",
    took_s_max: float = TOOK_S_MAX,
    is_unwanted: Callable[[], bool] = lambda: False,
) -> Trace:
    """Run what is *asked*. *store*: where our own receiver keeps its inbox; TooLong when it *is_unwanted* meanwhile."""
    scenario = BY_NAME.get(asked.scenario)
    if scenario is None:
        raise UsageError(f"there is no scenario {asked.scenario[:40]!r}; there are: {', '.join(BY_NAME)}")
    if len(set(asked.receivers)) != len(asked.receivers):
        raise UsageError("each receiver may be named only once")
    with tempfile.TemporaryDirectory(prefix="hooklane-play-") as folder:
        where = "memory://" if store == "memory" else f"sqlite:///{Path(folder) / 'inbox.db'}"
        run = _Run(asked, scenario, where)
        try:
            deadline = monotonic() + took_s_max
            run.world.run(partial(_is_over, run, deadline, is_unwanted), SIMULATED_MS_MAX)
        finally:
            run.consumer.close()
    assert not run.checker.violations, f"seed {asked.seed}: {run.checker.violations[:3]}"
    waiting = len(run.published) - len(run.acked) - run.dead
    return Trace(
        scenario=scenario.name,
        seed=asked.seed,
        trace_hash=hash_of(run.steps),
        end_ms=max((max(step.t, 0.0) for step in run.steps), default=0.0),
        events=len(run.published),
        steps=run.steps,
        meters={name: meters.total(run.sent, run.acked) for name, meters in run.consumer.meters.items()},
        ledger=Ledger(len(run.acked), run.dead, waiting),
    )


def _is_over(run: _Run, deadline: float, is_unwanted: Callable[[], bool]) -> bool:
    if monotonic() > deadline or is_unwanted():
        raise TooLong("this run takes too long: ask for fewer events, or for smaller faults")
    return run.is_over


def _published(asked: Play, scenario: Scenario) -> list[Published]:
    """The scenario's story, or many events on many keys; at the rate that is asked for."""
    if asked.events is None:
        story = scenario.story
        return [
            replace(one, at_ms=at_ms(number, asked.rate) if asked.rate else one.at_ms)
            for number, one in enumerate(story)
        ]
    chance, many = Random(f"{asked.seed}/published"), asked.keys or min(8, max(2, asked.events // 2))
    keys = [chr(ord("A") + number) for number in range(many)]
    return [
        Published(chance.choice(keys), TYPES[number % len(TYPES)], at_ms(number, asked.rate or RATE))
        for number in range(asked.events)
    ]


def at_ms(number: int, rate: int) -> int:
    """When the event with this number is published."""
    return number * 1000 // rate


def _endpoint(scenario: Scenario) -> Endpoint:
    """Waits of one, two, four seconds, as in the protocol's worked example."""
    return Endpoint(
        id="ep_play",
        url="https://consumer.example/webhooks/hooklane",
        created_at=Instant(T0),
        keys=(SigningKey(SECRET),),
        timeout_ms=1_000,
        backoff_ms=1_000,
        backoff_cap_ms=8_000,
        attempts_max=scenario.attempts_max,
    )
