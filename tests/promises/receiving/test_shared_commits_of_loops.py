"""On SQLite, the requests of event loops are run by one thread, many in a commit; the loop itself never waits."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from tests.promises.receiving.kit import outcome, own_source, signed, statuses
from tests.promises.receiving.orders import ids, made_in
from tests.support.pace import scaled_ms, scaled_s
from tests.support.processes import until

from hooklane.model.message import Reply
from hooklane.receiver import Event, Inbox
from hooklane.receiver.shared_commit import transaction as sharing

EVENTS, COPIES = 20, 64


@pytest.fixture
def path(tmp_path: Path) -> str:
    return made_in(tmp_path)


@pytest.fixture
async def inbox(path: str) -> AsyncIterator[Inbox]:
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=10_000)
    yield inbox
    await inbox.aclose()


def write(event: Event, tx: Any) -> None:
    tx.execute("INSERT INTO orders VALUES (?)", (event.id,))


class Gate:
    """A handler that stays at its first event until it is let go."""

    def __init__(self, inbox: Inbox, handler: Callable[[Event, Any], None] = write) -> None:
        inbox.runner.run(inbox.retention.beat())  # or its commit would be counted too
        self.inbox = inbox
        self.handler = handler
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.ran: list[str] = []
        self.threads: set[int] = set()
        self.statements: list[str] = []
        own_source(inbox, order="none").on("*")(self.held)

    def held(self, event: Event, tx: Any) -> None:
        self.ran.append(event.id)
        self.threads.add(threading.get_ident())
        if event.id == "evt_0" and not self.begun.is_set():
            tx.set_trace_callback(self.statements.append)
            self.begun.set()
            assert self.go_on.wait(scaled_s(20))
        self.handler(event, tx)

    async def come(self, *ids: str) -> list[asyncio.Task[Reply]]:
        """Requests, of which the first is at work and the others wait for it."""
        tasks = [asyncio.create_task(self.inbox.areceive(signed("evt_0")))]
        await asyncio.to_thread(self.begun.wait, 20)
        tasks += [asyncio.create_task(self.inbox.areceive(signed(id))) for id in ids]
        await asyncio.to_thread(self.wait_for, len(ids))
        return tasks

    def wait_for(self, waiting: int) -> None:
        until(lambda: self.inbox.runner.shared_commits.waiting == waiting, what="the others to wait")  # type: ignore[union-attr]

    @property
    def commits(self) -> int:
        return sum(statement.startswith("COMMIT") for statement in self.statements)


@pytest.fixture(autouse=True)
def _nobody_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a handler waits for others to come, which must not count."""
    monkeypatch.setattr(sharing, "SLOW_S", 3600.0)
    monkeypatch.setattr(sharing, "TOGETHER_S", 3600.0)


async def test_requests_of_one_loop_share_a_commit_and_one_thread_that_is_not_the_loops(
    inbox: Inbox, path: str
) -> None:
    gate = Gate(inbox)
    tasks = await gate.come(*(f"evt_{number}" for number in range(1, 20)))
    gate.go_on.set()
    outcomes = [outcome(reply) for reply in await asyncio.gather(*tasks)]

    assert outcomes == ["applied"] * 20
    assert len(ids(path)) == 20
    assert (gate.commits, len(gate.threads)) == (1, 1)
    assert threading.get_ident() not in gate.threads


async def test_64_concurrent_copies_of_20_events_from_one_loop_have_20_effects(inbox: Inbox, path: str) -> None:
    own_source(inbox, order="none").on("*")(write)
    wanted = [f"evt_{number}" for number in range(EVENTS)]
    replies = await asyncio.gather(*(inbox.areceive(signed(id)) for _ in range(COPIES) for id in wanted))

    assert Counter(map(outcome, replies)) == {"applied": EVENTS, "duplicate": EVENTS * (COPIES - 1)}
    assert ids(path) == sorted(wanted)


async def test_loops_and_threads_that_receive_at_once_have_one_effect_for_each_event(inbox: Inbox, path: str) -> None:
    own_source(inbox, order="none").on("*")(write)
    wanted = [f"evt_{number}" for number in range(100)]

    def from_a_thread(_: int) -> list[str | None]:
        return [outcome(inbox.receive(signed(id))) for id in wanted]

    async def from_a_loop() -> list[str | None]:
        return [outcome(reply) for reply in await asyncio.gather(*(inbox.areceive(signed(id)) for id in wanted))]

    def from_another_loop() -> list[str | None]:
        return asyncio.run(from_a_loop())

    with ThreadPoolExecutor(4) as pool:
        threads = [pool.submit(from_a_thread, number) for number in range(3)]
        other = pool.submit(from_another_loop)
        here = await from_a_loop()
        answers = [here, await asyncio.wrap_future(other)]
        answers += [await asyncio.wrap_future(thread) for thread in threads]

    assert Counter(each for answer in answers for each in answer) == {"applied": 100, "duplicate": 400}
    assert ids(path) == sorted(wanted)


async def test_the_loop_goes_on_while_a_handler_is_at_work(inbox: Inbox) -> None:
    gate = Gate(inbox)
    (task,) = await gate.come()
    await asyncio.sleep(0)
    answered_before = task.done()
    gate.go_on.set()

    assert (answered_before, outcome(await task)) == (False, "applied")


async def test_a_failure_among_the_requests_of_a_loop_is_recorded_and_undoes_only_itself(
    inbox: Inbox, path: str
) -> None:
    def failing(event: Event, tx: Any) -> None:
        write(event, tx)
        if event.id == "evt_1":
            raise ValueError("not this one")

    gate = Gate(inbox, failing)
    tasks = await gate.come("evt_1", "evt_2")
    gate.go_on.set()
    outcomes = [outcome(reply) for reply in await asyncio.gather(*tasks)]
    (failed,) = inbox.rows(status="failed")

    assert outcomes == ["applied", "busy", "applied"]
    assert ids(path) == ["evt_0", "evt_2"]
    assert "not this one" in (failed.handlings[0].error or "")


async def test_a_handler_finds_the_context_of_its_own_task(inbox: Inbox) -> None:
    request_id: ContextVar[str] = ContextVar("request_id")
    found: dict[str, str] = {}
    after: dict[str, str] = {}

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        found[event.id] = request_id.get()
        request_id.set("handled")
        event.on_commit(lambda: after.update({event.id: request_id.get()}))

    async def receive(id: str) -> Reply:
        request_id.set(f"the request of {id}")
        return await inbox.areceive(signed(id))

    await asyncio.gather(*(asyncio.create_task(receive(f"evt_{number}")) for number in range(8)))

    assert found == {f"evt_{number}": f"the request of evt_{number}" for number in range(8)}
    assert after == {f"evt_{number}": "handled" for number in range(8)}


async def test_who_is_not_taken_in_time_is_told_to_come_back_and_is_not_run_later(path: str) -> None:
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=scaled_ms(300))
    gate = Gate(inbox)
    first, *late = await gate.come("evt_1", "evt_2")
    replies = await asyncio.gather(*late)
    gate.go_on.set()
    answer = outcome(await first)
    again = outcome(await inbox.areceive(signed("evt_1")))
    await inbox.aclose()

    assert [(reply.status, outcome(reply)) for reply in replies] == [(503, "busy")] * 2
    assert (answer, again) == ("applied", "applied")
    assert gate.ran == ["evt_0", "evt_1"]


async def test_nobody_waits_for_the_handlers_of_others_where_they_are_slow(
    inbox: Inbox, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "SLOW_S", 0.0)
    gate = Gate(inbox)
    tasks = await gate.come("evt_1", "evt_2")
    gate.go_on.set()
    await asyncio.gather(*tasks)

    assert gate.commits == 3


async def test_a_request_that_is_cancelled_while_it_waits_is_not_run(inbox: Inbox, path: str) -> None:
    gate = Gate(inbox)
    first, second, third = await gate.come("evt_1", "evt_2")
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.go_on.set()
    answers = [outcome(await first), outcome(await third)]

    assert answers == ["applied", "applied"]
    assert (gate.ran, ids(path)) == (["evt_0", "evt_2"], ["evt_0", "evt_2"])


async def test_a_request_that_is_cancelled_at_work_is_done_wholly_before_its_caller_goes_on(
    inbox: Inbox, path: str
) -> None:
    hooked = threading.Event()

    def with_hook(event: Event, tx: Any) -> None:
        event.on_commit(hooked.set)
        write(event, tx)

    gate = Gate(inbox, with_hook)
    (task,) = await gate.come()
    task.cancel()
    await asyncio.sleep(0.01)
    still_there = not task.done()
    gate.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (still_there, ids(path), statuses(inbox), hooked.is_set()) == (True, ["evt_0"], ["completed"], True)


async def test_a_failure_is_recorded_even_when_its_request_was_cancelled_twice(inbox: Inbox, path: str) -> None:
    def failing(event: Event, tx: Any) -> None:
        write(event, tx)
        raise ValueError("not this one")

    gate = Gate(inbox, failing)
    (task,) = await gate.come()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.01)
    gate.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(until, lambda: statuses(inbox) == ["failed"], what="the failure to be recorded")

    assert ids(path) == []


def test_a_loop_that_was_closed_does_not_keep_others_from_being_answered(path: str) -> None:
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=10_000)
    gate = Gate(inbox)
    loop = asyncio.new_event_loop()
    tasks = loop.run_until_complete(gate.come("evt_1"))
    loop.close()
    gate.go_on.set()
    answer = outcome(inbox.receive(signed("evt_2")))
    inbox.close()

    assert [task.done() for task in tasks] == [False, False], "nobody can tell them"
    assert answer == "applied"
    assert ids(path) == ["evt_0", "evt_1", "evt_2"]
