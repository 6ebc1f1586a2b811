"""Two transactions at the worst moment, on PostgreSQL; and two processes out of one."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import own_source, signed, statuses
from tests.support.pace import scaled_s
from tests.support.processes import Child, until
from tests.support.tree import ROOT

from hooklane.model.clock import wall_now
from hooklane.model.inbox import Track
from hooklane.model.message import Request, Status
from hooklane.receiver import Event
from hooklane.testing.conformance_inbox import perform, together


def in_thread(work: Any) -> tuple[threading.Thread, list[Any]]:
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers


def waits_for_a_lock(url: str) -> bool:
    with psycopg.connect(url) as conn:
        found = conn.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
    return bool(found and found[0])


def test_one_that_arrives_while_its_predecessor_commits_is_not_left_behind(postgres_world: World) -> None:
    """The completion of 1 has moved the cursor and not committed; 2 arrives: it must wait, and then be claimable."""
    world, inbox = postgres_world, postgres_world.inbox(clock=wall_now)
    own_source(inbox).on("*", name="h")(world.effect)
    inbox.receive(signed("e1", key="k", seq=1))
    track = Track("hooklane", "default", "h", "k")
    session = inbox.store.begin()
    (claimed,) = perform(
        session,
        inbox.store.claim([("hooklane", "h")], expired=False, now=wall_now(), lease_ms=60_000, limit=1),
    )
    session.commit()
    session.close()
    session = inbox.store.begin()
    perform(session, inbox.store.complete(claimed.id, "h", claimed.fence, Status.COMPLETED, wall_now()))
    perform(session, inbox.store.advance(track, prev_seq=0, seq=1))
    perform(session, inbox.store.release(track, 1, wall_now()))
    thread, answers = in_thread(lambda: inbox.receive(signed("e2", key="k", seq=2)))
    until(lambda: waits_for_a_lock(world.where()), what="the second to wait for the first")
    session.commit()
    session.close()
    thread.join()

    assert answers[0].status == 200
    assert statuses(inbox) == ["completed", "pending"]
    inbox.run_once()
    assert world.effects() == ["e2"]


def test_a_completion_sees_the_successor_that_arrived_just_before(postgres_world: World) -> None:
    """2 was stored as held, its commit is under way; the completion of 1 must wait for it and release it."""
    world = postgres_world
    stalled, go_on = threading.Event(), threading.Event()

    def stall(point: str) -> None:
        if point == "before_commit" and threading.current_thread().name == "late":
            stalled.set()
            go_on.wait(scaled_s(10))

    inbox = world.inbox(clock=wall_now, failpoint=stall)
    own_source(inbox).on("*", name="h")(world.effect)
    inbox.receive(signed("e1", key="k", seq=1))
    late = threading.Thread(target=lambda: inbox.receive(signed("e2", key="k", seq=2)), name="late")
    late.start()
    assert stalled.wait(scaled_s(10))
    worker, _ = in_thread(lambda: inbox.run_once(limit=1))
    until(lambda: waits_for_a_lock(world.where()), what="the completion to wait")
    go_on.set()
    late.join()
    worker.join()
    inbox.run_once()

    assert world.effects() == ["e1", "e2"]


def test_batches_with_the_same_events_in_another_order_do_not_wait_for_each_other_for_ever(
    postgres_world: World,
) -> None:
    world = postgres_world
    inboxes = [world.inbox(clock=wall_now) for _ in range(2)]
    for inbox in inboxes:
        inbox.source("sendgrid", unsafe=True).on("*", name="h")(world.effect)
    items = [{"sg_event_id": f"s{number}", "event": "open", "timestamp": 1} for number in range(40)]

    def post(index: int) -> list[int]:
        order = items if index % 2 else items[::-1]
        request = Request.of("POST", "http://x/sendgrid", {}, json.dumps(order).encode())
        return [inboxes[index % 2].receive(request).status for _ in range(3)]

    answers = together(4, post)
    assert {status for each in answers for status in each} == {200}
    assert len(inboxes[0].rows(limit=1000)) == 40


def test_one_handler_at_a_time_fetches_the_state_of_a_key(postgres_world: World) -> None:
    world = postgres_world
    at_work: list[str] = []
    most: list[int] = []

    def fetch(event: Event, tx: Any) -> None:
        at_work.append(event.id)
        most.append(len(at_work))
        world.effect(event, tx)
        at_work.remove(event.id)

    inboxes = [world.inbox(clock=wall_now) for _ in range(3)]
    for inbox in inboxes:
        own_source(inbox, order="none").on("*", name="h", order="refetch")(fetch)
    for number in range(9):
        inboxes[0].receive(signed(f"evt_{number}", key="car", seq=number + 1))
        if number % 3 == 0:
            together(3, lambda index: inboxes[index].run_once(limit=1))
    for inbox in inboxes:
        inbox.run_once()
    assert max(most) == 1
    assert set(statuses(inboxes[0])) == {"completed"}


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_fork_has_connections_and_workers_of_its_own(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    world = request.getfixturevalue(f"{store}_world")
    command = [sys.executable, "-m", "tests.promises.receiving.forking", world.where()]
    with Child(
        command, log=tmp_path / "log", cwd=ROOT, env={"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    ) as child:
        assert child.wait() == 0, child.output()
    assert sorted(world.effects()) == ["before", "child", "parent"]


def test_a_fork_waits_for_no_thread_that_was_at_work_in_its_parent(postgres_world: World, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.promises.receiving.forking_while_at_work", postgres_world.where()]
    with Child(
        command, log=tmp_path / "log", cwd=ROOT, env={"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    ) as child:
        assert child.wait(within_s=60) == 0, child.output()


def test_a_fork_while_threads_receive_leaves_neither_side_waiting_for_the_other(
    sqlite_world: World, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.promises.receiving.forking_in_a_crowd", sqlite_world.where()]
    with Child(
        command, log=tmp_path / "log", cwd=ROOT, env={"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    ) as child:
        assert child.wait(within_s=60) == 0, child.output()
    effects = sqlite_world.effects()

    assert len(effects) == len(set(effects))
    assert sum(effect.startswith("child") for effect in effects) == 8 * 4


def test_a_claim_on_an_event_that_a_failover_lost_cannot_settle_the_event_that_got_its_row(
    postgres_world: World,
) -> None:
    """A failover loses row 1 and the claim on it; the next event is row 1 on the new primary, and is claimed there."""
    world, inbox = postgres_world, postgres_world.inbox(clock=wall_now)
    own_source(inbox).on("*", name="h")(world.effect)
    inbox.receive(signed("e1", key="k", seq=1))

    def claimed() -> Any:
        session = inbox.store.begin()
        try:
            handlers, now = [("hooklane", "h")], wall_now()
            (one,) = perform(session, inbox.store.claim(handlers, expired=False, now=now, lease_ms=60_000, limit=1))
            session.commit()
        finally:
            session.close()
        return one

    lost = claimed()
    with psycopg.connect(world.where()) as conn:
        conn.execute("UPDATE hooklane.inbox_handling SET status = 'pending', fence = 0, attempts = 0, due_at = 0")
    ours = claimed()
    assert ours.id == lost.id

    session = inbox.store.begin()
    try:
        assert not perform(session, inbox.store.complete(lost.id, "h", lost.fence, Status.COMPLETED, wall_now()))
        assert perform(session, inbox.store.complete(ours.id, "h", ours.fence, Status.COMPLETED, wall_now()))
        session.commit()
    finally:
        session.close()
