"""One effect for each event, however many copies come at once and wherever a process dies."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import outcome, own_source, signed, statuses
from tests.support.fork_server import fork
from tests.support.pace import scaled_ms, scaled_s
from tests.support.processes import Child, until
from tests.support.tree import ROOT, SOURCE

from hooklane.errors import StoreUnavailable
from hooklane.model.clock import wall_now
from hooklane.receiver import Event
from hooklane.telemetry.events import FenceRejected, LeaseTakenOver
from hooklane.testing.conformance_inbox import together

EVENTS, COPIES = 20, 4
POINTS = ["after_claim", "after_handler", "before_commit", "after_commit"]


def receiver(world: World, log: Path, mode: str, point: str, *options: Any, lease_ms: int = 1) -> Child:
    """A receiver in a process of its own: *options* are copies, events, and the file whose coming starts it."""
    words = [str(option) for option in options or (1, 1)]
    command = [sys.executable, "-m", "tests.promises.receiving.crashing", world.where(), mode, point, *words]
    env = {"PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}", "LEASE_MS": str(lease_ms)}
    return Child(command, log=log, cwd=ROOT, env=env, born=fork)


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_twenty_events_in_four_concurrent_copies_have_twenty_effects(world: World, mode: Any) -> None:
    inbox = world.inbox(mode, clock=wall_now, inline_wait_ms=10_000)
    own_source(inbox, order="none").on("*")(world.effect)
    ids = [f"evt_{number}" for number in range(EVENTS)]
    replies = together(COPIES, lambda _: [inbox.receive(signed(id)) for id in ids])
    together(COPIES, lambda _: [inbox.run_once() for _ in range(8)])

    assert {reply.status for each in replies for reply in each} == {200}
    verdicts = [outcome(reply) for each in replies for reply in each]
    assert (len(verdicts) - verdicts.count("duplicate"), verdicts.count("duplicate")) == (EVENTS, EVENTS * (COPIES - 1))
    assert sorted(ids) == sorted(world.effects())


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_twenty_events_in_four_processes_have_twenty_effects(sql_world: World, mode: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    # Nobody dies here. With a lease of a millisecond each would take the events of the others, on a busy machine so
    # often that one has had all its attempts.
    children = [
        receiver(sql_world, tmp_path / f"{n}.log", mode, "none", 1, EVENTS, go, lease_ms=60_000) for n in range(COPIES)
    ]
    try:
        for child in children:
            child.wait_for_line("ready")
        go.touch()
        for child in children:
            assert child.wait(within_s=60) == 0, str(child)
    finally:
        for child in children:
            child.close()

    assert sorted(f"evt_{number}" for number in range(EVENTS)) == sorted(sql_world.effects())


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_killed_at_any_point_and_delivered_again_there_is_one_effect(
    sql_world: World, mode: str, point: str, tmp_path: Path
) -> None:
    with receiver(sql_world, tmp_path / "log", mode, point) as child:
        assert child.wait() == -9, str(child)

    inbox = sql_world.inbox(mode, clock=wall_now)
    own_source(inbox, order="none").on("*", name="effect")(sql_world.effect)
    # The dead process's transaction may not be over yet.
    until(lambda: inbox.receive(signed("evt_0")).status == 200, what="a redelivery that is taken")
    until(lambda: inbox.run_once() == 0, what="nothing left to do")
    assert (sql_world.effects(), statuses(inbox)) == (["evt_0"], ["completed"])


def test_a_zombies_work_is_rolled_back(world: World) -> None:
    """The first worker stalls between its claim and its transaction until another has done the work."""
    second = world.inbox(lease_ms=60_000)
    own_source(second).on("*", name="handler")(world.effect)

    def stall(point: str) -> None:
        if point == "after_claim":
            world.clock.pass_ms(1)
            second.run_once()

    first = world.inbox(lease_ms=0, failpoint=stall)
    ran: list[str] = []

    def slow(event: Event, tx: Any) -> None:
        ran.append(event.id)
        world.effect(event, tx)

    own_source(first).on("*", name="handler")(slow)
    first.receive(signed())
    first.run_once()

    assert (ran, world.effects()) == (["evt_1"], ["evt_1"]), "it ran, and left nothing"
    assert (len(world.told_of(LeaseTakenOver)), len(world.told_of(FenceRejected))) == (1, 1)
    assert statuses(first) == ["completed"]


def test_a_worker_that_lives_keeps_its_claims_however_long_it_takes(postgres_world: World) -> None:
    world = postgres_world
    lease_ms = scaled_ms(300)  # a machine that is busy renews late
    inbox = world.inbox(clock=wall_now, lease_ms=lease_ms)
    other = world.inbox(clock=wall_now, lease_ms=lease_ms)
    go_on, begun = threading.Event(), threading.Event()

    def slow(event: Event, tx: Any) -> None:
        begun.set()
        world.effect(event, tx)
        go_on.wait(scaled_s(10))

    own_source(inbox).on("*", name="handler")(slow)
    own_source(other).on("*", name="handler")(world.effect)
    inbox.receive(signed())
    thread = threading.Thread(target=inbox.run_once)
    thread.start()
    begun.wait(scaled_s(10))
    deadline = wall_now() + 3 * lease_ms
    while wall_now() < deadline:
        assert other.run_once() == 0
    go_on.set()
    thread.join()

    assert (world.effects(), statuses(inbox)) == (["evt_1"], ["completed"])


def test_a_message_that_kills_its_workers_ends_as_a_dead_letter(world: World) -> None:
    class Killed(BaseException):
        pass

    def kill(point: str) -> None:
        if point == "after_handler":
            raise Killed

    inbox = world.inbox(lease_ms=0, failpoint=kill)
    own_source(inbox).on("*")(world.effect)
    inbox.receive(signed())

    def is_killed() -> bool:
        try:
            inbox.run_once()
        except Killed:
            return True
        return False

    # The connection of one that was killed is dropped, and its locks are gone when the server hears of it.
    for _ in range(8):
        until(is_killed, what="a worker that dies")
    until(lambda: inbox.run_once() == 0 and statuses(inbox) == ["dead"], what="a dead letter")

    assert world.effects() == []


def test_without_its_store_the_receiver_processes_nothing_and_says_503(postgres_world: World) -> None:
    """F63: never process without dedup."""
    world = postgres_world
    inbox = world.inbox(clock=wall_now)
    inline = world.inbox("inline", clock=wall_now)
    calls: list[str] = []
    for each in (inbox, inline):
        own_source(each).on("*")(lambda event, tx: calls.append(event.id))
    inbox.receive(signed("evt_0"))
    with psycopg.connect(world.where(), autocommit=True) as conn:
        conn.execute("ALTER SCHEMA hooklane RENAME TO elsewhere")
        try:
            for each in (inbox, inline):
                reply = each.receive(signed("evt_1"))
                assert (reply.status, ("retry-after", "5") in reply.headers) == (503, True)
        finally:
            conn.execute("ALTER SCHEMA elsewhere RENAME TO hooklane")

    assert calls == []
    assert outcome(inbox.receive(signed("evt_1"))) == "stored"


def test_connections_that_the_server_cut_are_replaced(postgres_world: World) -> None:
    world = postgres_world
    inbox = world.inbox(clock=wall_now)
    own_source(inbox).on("*")(world.effect)
    inbox.receive(signed("evt_0"))
    with psycopg.connect(world.where(), autocommit=True) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    assert outcome(inbox.receive(signed("evt_1"))) == "stored"


def test_a_late_commit_and_a_redelivery_give_one_effect(world: World) -> None:
    """F64: the sender timed out and tries again while the handler is still at it."""
    inbox = world.inbox("inline", clock=wall_now, inline_wait_ms=100)
    copies: list[Any] = []

    @own_source(inbox).on("*")
    def slow(event: Event, tx: Any) -> None:
        world.effect(event, tx)
        if not copies:
            copies.append(None)
            copies[0] = together(1, lambda _: inbox.receive(signed()))[0]

    first = inbox.receive(signed())
    third = inbox.receive(signed())

    assert (copies[0].status, outcome(copies[0]), ("retry-after", "1") in copies[0].headers) == (503, "busy", True)
    assert (outcome(first), outcome(third)) == ("applied", "duplicate")
    assert world.effects() == ["evt_1"]


def test_a_commit_that_fails_is_answered_503_and_leaves_nothing(world: World) -> None:
    def cut(point: str) -> None:
        if point == "before_commit":
            raise StoreUnavailable("power cut")

    inbox = world.inbox("inline", clock=wall_now, failpoint=cut)
    own_source(inbox).on("*")(world.effect)
    assert inbox.receive(signed()).status == 503
    assert world.effects() == []


def test_a_worker_thread_handles_what_arrives_and_stops_when_told(world: World) -> None:
    inbox = world.inbox(clock=wall_now)
    done = threading.Event()

    @own_source(inbox).on("*")
    def handler(event: Event, tx: Any) -> None:
        world.effect(event, tx)
        event.on_commit(done.set)

    inbox.start_worker(threads=2)
    inbox.receive(signed())
    assert done.wait(scaled_s(10))
    inbox.stop()
    assert not inbox.worker.is_running
    assert world.effects() == ["evt_1"]


def test_a_worker_that_is_started_while_the_last_one_still_ends_works_on(world: World) -> None:
    """Naive: its thread lives, so there is a worker; it ends after the event that it has in hand, and none is left."""
    inbox = world.inbox("durable", clock=wall_now)
    begun, go_on = threading.Event(), threading.Event()

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        if event.id == "evt_1":
            begun.set()
            assert go_on.wait(scaled_s(30))

    inbox.start_worker()
    inbox.receive(signed("evt_1"))
    assert begun.wait(scaled_s(30))
    (told_to_stop,) = inbox.worker._threads
    inbox.stop(0)
    inbox.start_worker()
    go_on.set()
    told_to_stop.join(scaled_s(30))
    assert not told_to_stop.is_alive()
    inbox.receive(signed("evt_2"))
    until(lambda: statuses(inbox) == ["completed", "completed"], what="the second event's turn")
    inbox.stop()
