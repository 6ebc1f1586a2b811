"""The breaker of handlers that run in the request, in a process that has no worker: plain `receive`, Lambda."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import header, outcome, own_source, signed, through_lambda
from tests.support.pace import scaled_s

from hooklane.core.admission.breaker import Breaker, BreakerPolicy, BreakerState
from hooklane.errors import StoreUnavailable
from hooklane.model.clock import Instant
from hooklane.receiver import Inbox
from hooklane.telemetry.events import BreakerTurned
from hooklane.testing.conformance_inbox import together

POLICY = BreakerPolicy(calls_min=3, open_ms=30_000, probes=2)
REQUESTS = 20


class Dependency:
    """What a handler needs; down until it is mended. *begun* are the calls that it got."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_down = True
        self.begun: list[str] = []

    def call(self, event: Any, tx: Any) -> None:
        self.begun.append(event.id)
        if self.is_down:
            raise RuntimeError("the dependency is down")
        self.world.effect(event, tx)


class Clock:
    """The clock of an inbox's breakers, moved by hand."""

    def __init__(self, inbox: Inbox) -> None:
        self.now = Instant(0)
        inbox.worker.breakers._clock = lambda: self.now

    def pass_ms(self, ms: int) -> None:
        self.now = Instant(self.now + ms)


def states(world: World) -> list[str]:
    return [str(each.state) for each in world.told_of(BreakerTurned)]


@pytest.mark.parametrize("door", ["receive", "lambda"])
def test_it_protects_again_after_every_opening(world: World, door: str) -> None:
    inbox, dependency = world.inbox("inline"), Dependency(world)
    clock = Clock(inbox)
    come_in = inbox.receive if door == "receive" else through_lambda(inbox)
    own_source(inbox, order="none", breaker=POLICY).on("*")(dependency.call)
    for number in range(3):
        come_in(signed(f"first_{number}"))
    calls: list[int] = []
    for opening in range(4):
        clock.pass_ms(POLICY.open_ms)
        before = len(dependency.begun)
        replies = [come_in(signed(f"evt_{opening}_{number}")) for number in range(10)]
        calls.append(len(dependency.begun) - before)
        assert {reply.status for reply in replies} == {503}
        assert header(replies[-1], "retry-after") == "30"

    assert calls == [1] * 4, "one probe each time, and it opens again"
    dependency.is_down = False
    clock.pass_ms(POLICY.open_ms)
    assert [come_in(signed(f"last_{number}")).status for number in range(3)] == [200] * 3
    assert states(world) == ["open"] * 5 + ["closed"]


def half_open(world: World, fn: Any) -> tuple[Inbox, Dependency]:
    """An inbox whose breaker is due to let probes through to *fn*."""
    inbox, dependency = world.inbox("inline"), Dependency(world)
    clock = Clock(inbox)

    @own_source(inbox, order="none", breaker=POLICY).on("*", name="handler")
    def fail(event: Any, tx: Any) -> None:
        dependency.call(event, tx)

    for number in range(3):
        inbox.receive(signed(f"down_{number}"))
    dependency.is_down = False
    handlers = inbox.sources["hooklane"].handlers
    handlers.clear()
    inbox.sources["hooklane"].on("*", name="handler", breaker=POLICY)(fn(dependency))
    dependency.begun.clear()
    clock.pass_ms(POLICY.open_ms)
    return inbox, dependency


def test_of_many_requests_at_once_only_the_probes_come_through(world: World) -> None:
    others = threading.Event()
    answered: list[int] = []

    def slow(dependency: Dependency) -> Any:
        def handler(event: Any, tx: Any) -> None:
            assert others.wait(scaled_s(30)), "a probe takes until all others have their answer"
            dependency.call(event, tx)

        return handler

    inbox, dependency = half_open(world, slow)

    def request(number: int) -> int:
        status = inbox.receive(signed(f"evt_{number}")).status
        answered.append(status)
        if answered.count(503) == REQUESTS - POLICY.probes:
            others.set()
        return status

    statuses = together(REQUESTS, request)

    assert sorted(statuses) == [200] * POLICY.probes + [503] * (REQUESTS - POLICY.probes)
    assert len(dependency.begun) == POLICY.probes
    assert states(world)[-1] == "closed"


async def test_of_many_requests_of_an_event_loop_only_the_probes_come_through(world: World) -> None:
    others = asyncio.Event()

    def slow(dependency: Dependency) -> Any:
        async def handler(event: Any, tx: Any) -> None:
            await asyncio.wait_for(others.wait(), scaled_s(30))
            dependency.begun.append(event.id)

        return handler

    inbox, dependency = await asyncio.to_thread(half_open, world, slow)
    answered: list[int] = []

    async def request(number: int) -> None:
        answered.append((await inbox.areceive(signed(f"evt_{number}"))).status)
        if answered.count(503) == REQUESTS - POLICY.probes:
            others.set()

    await asyncio.gather(*(request(number) for number in range(REQUESTS)))

    assert sorted(answered) == [200] * POLICY.probes + [503] * (REQUESTS - POLICY.probes)
    assert len(dependency.begun) == POLICY.probes


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_probe_that_did_not_come_to_an_end_is_not_waited_for(sql_world: World, mode: Any) -> None:
    """The store fails while the probes are under way: others take their place, and the handler runs again."""
    world = sql_world
    is_away = [False]

    def failpoint(point: str) -> None:
        if is_away[0] and point == "before_commit":
            raise StoreUnavailable("the store is away")

    inbox, dependency = world.inbox(mode, failpoint=failpoint), Dependency(world)
    clock = Clock(inbox)
    own_source(inbox, order="none", breaker=POLICY).on("*")(dependency.call)

    def deliver(number: int) -> None:
        inbox.receive(signed(f"evt_{number}"))
        if mode == "durable":
            world.clock.pass_ms(inbox.lease_ms + 1)
            with suppress(StoreUnavailable):  # as a worker does, which goes on
                inbox.run_once(1)

    for number in range(3):
        deliver(number)
    dependency.is_down = False
    clock.pass_ms(POLICY.open_ms)
    is_away[0] = True
    for number in range(3, 3 + 2 * POLICY.probes):
        deliver(number)
    is_away[0] = False
    for number in range(10, 10 + 2 * POLICY.probes):
        deliver(number)

    assert states(world)[-1] == "closed"
    assert "evt_13" in world.effects() or mode == "durable"


def test_a_duplicate_is_no_probe(world: World) -> None:
    inbox, dependency = world.inbox("inline"), Dependency(world)
    clock = Clock(inbox)
    own_source(inbox, order="none", breaker=POLICY).on("*")(dependency.call)
    dependency.is_down = False
    inbox.receive(signed("known"))
    dependency.is_down = True
    for number in range(3):
        inbox.receive(signed(f"down_{number}"))
    clock.pass_ms(POLICY.open_ms)
    copies = [outcome(inbox.receive(signed("known"))) for _ in range(5)]
    dependency.is_down = False
    fresh = [outcome(inbox.receive(signed(f"fresh_{number}"))) for number in range(3)]

    assert copies == ["duplicate"] * 5
    assert fresh == ["applied"] * 3


def test_a_duplicate_of_what_is_done_is_told_so_while_the_breaker_is_open(world: World) -> None:
    inbox, dependency = world.inbox("inline"), Dependency(world)
    Clock(inbox)
    own_source(inbox, order="none", breaker=POLICY).on("*")(dependency.call)
    dependency.is_down = False
    inbox.receive(signed("known"))
    dependency.is_down = True
    failed = [outcome(inbox.receive(signed(f"down_{number}"))) for number in range(3)]
    copy, other, fresh, again = (
        inbox.receive(each)
        for each in (signed("known"), signed("known", data={"n": 2}), signed("fresh"), signed("down_0"))
    )

    assert (failed, states(world)) == (["busy"] * 3, ["open"])
    assert (copy.status, outcome(copy)) == (200, "duplicate")
    assert [each.status for each in (other, fresh, again)] == [503] * 3, "what is not done waits; a conflict too"
    assert world.effects() == ["known"]


async def test_a_duplicate_of_what_is_done_is_told_so_from_an_event_loop_too(world: World) -> None:
    inbox, dependency = world.inbox("inline"), Dependency(world)
    Clock(inbox)
    own_source(inbox, order="none", breaker=POLICY).on("*")(dependency.call)
    dependency.is_down = False
    await inbox.areceive(signed("known"))
    dependency.is_down = True
    for number in range(3):
        await inbox.areceive(signed(f"down_{number}"))

    assert outcome(await inbox.areceive(signed("known"))) == "duplicate"


def test_what_began_before_the_breaker_turned_is_no_probe() -> None:
    breaker = Breaker(BreakerPolicy(calls_min=2, open_ms=100, probes=1))
    early = breaker.turn
    for _ in range(2):
        breaker.record(False, Instant(0), early)
    assert breaker.room(Instant(100), 5) == 1
    breaker.record(True, Instant(101), early)
    breaker.forgo(1, early)

    assert (breaker.state, breaker.room(Instant(102), 5)) == (BreakerState.HALF_OPEN, 0)
    breaker.record(False, Instant(103), early)
    assert breaker.state is BreakerState.HALF_OPEN, "a failure from before says nothing about now"


def test_probes_that_are_never_heard_of_again_do_not_pause_a_handler_for_ever() -> None:
    breaker = Breaker(BreakerPolicy(calls_min=1, open_ms=100, probes=2))
    breaker.record(False, Instant(0))
    assert breaker.room(Instant(100), 5) == 2
    assert [breaker.room(Instant(at), 5) for at in (199, 200, 201, 300)] == [0, 2, 0, 2]
