"""On SQLite, async handlers of one event loop share commits: each in its own task, nobody's work hangs on another's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from tests.promises.receiving.kit import outcome, own_source, signed
from tests.promises.receiving.orders import ids, made_in
from tests.support.pace import scaled_ms, scaled_s

from hooklane.model.message import Reply
from hooklane.receiver import Event, Inbox
from hooklane.receiver.shared_commit import transaction as sharing

EVENTS, COPIES = 20, 64


@pytest.fixture(autouse=True)
def _nobody_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a handler waits for others to come, which must not count."""
    monkeypatch.setattr(sharing, "SLOW_S", 3600.0)
    monkeypatch.setattr(sharing, "TOGETHER_S", 3600.0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return made_in(tmp_path)


@pytest.fixture
async def inbox(path: str) -> AsyncIterator[Inbox]:
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=10_000)
    yield inbox
    await inbox.aclose()


async def write(event: Event, tx: Any) -> None:
    tx.execute("INSERT INTO orders VALUES (?)", (event.id,))


class Gate:
    """An async handler that stays at evt_0 until it is let go."""

    def __init__(self, inbox: Inbox, handler: Callable[[Event, Any], Awaitable[None]] = write) -> None:
        inbox.runner.run(inbox.retention.beat())  # or its commit would be counted too
        self.inbox = inbox
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.ran: list[str] = []
        self.statements: list[str] = []

        @own_source(inbox, order="none").on("*")
        async def held(event: Event, tx: Any) -> None:
            self.ran.append(event.id)
            if event.id == "evt_0" and not self.begun.is_set():
                tx.set_trace_callback(self.statements.append)
                self.begun.set()
                await self.go_on.wait()
            await handler(event, tx)

    async def come(self, number: int) -> list[asyncio.Task[Reply]]:
        """Requests evt_0 … of which the first is at work and the others wait for it."""
        assert self.inbox.runner.task_commits is not None
        tasks = [asyncio.create_task(self.inbox.areceive(signed("evt_0")))]
        async with asyncio.timeout(scaled_s(20)):
            await self.begun.wait()
            for each in range(1, number):
                tasks.append(asyncio.create_task(self.inbox.areceive(signed(f"evt_{each}"))))
                while self.inbox.runner.task_commits.waiting < each:
                    await asyncio.wait(tasks[-1:], timeout=0.001)
        return tasks

    async def outcomes(self, number: int) -> list[str | None]:
        tasks = await self.come(number)
        self.go_on.set()
        async with asyncio.timeout(scaled_s(20)):
            return [outcome(reply) for reply in await asyncio.gather(*tasks)]

    @property
    def commits(self) -> int:
        return sum(statement.startswith("COMMIT") for statement in self.statements)


async def test_async_handlers_of_requests_that_wait_share_one_commit(inbox: Inbox, path: str) -> None:
    gate = Gate(inbox)

    assert await gate.outcomes(6) == ["applied"] * 6
    assert len(ids(path)) == 6
    assert gate.commits == 1


async def test_nobody_is_answered_before_the_commit_that_holds_its_work(inbox: Inbox, path: str) -> None:
    seen: list[Any] = []
    tasks: list[asyncio.Task[Reply]] = []

    async def handler(event: Event, tx: Any) -> None:
        await write(event, tx)
        await asyncio.sleep(0)
        seen.append((ids(path), [task.done() for task in tasks]))

    gate = Gate(inbox, handler)
    tasks += await gate.come(3)
    gate.go_on.set()
    await asyncio.gather(*tasks)

    assert seen == [([], [False] * 3)] * 3


async def test_what_shares_a_commit_is_bounded(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "PARTS_MAX", 3)
    gate = Gate(inbox)

    assert await gate.outcomes(7) == ["applied"] * 7
    assert gate.commits == 3


async def test_where_handlers_are_slow_each_has_a_commit_of_its_own(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "SLOW_S", 0.0)
    gate = Gate(inbox)

    assert await gate.outcomes(3) == ["applied"] * 3
    assert gate.commits == 3


async def test_64_concurrent_copies_of_20_events_have_20_effects(inbox: Inbox, path: str) -> None:
    own_source(inbox, order="none").on("*")(write)
    wanted = [f"evt_{number}" for number in range(EVENTS)]
    replies = await asyncio.gather(*(inbox.areceive(signed(id)) for _ in range(COPIES) for id in wanted))

    assert Counter(map(outcome, replies)) == {"applied": EVENTS, "duplicate": EVENTS * (COPIES - 1)}
    assert ids(path) == sorted(wanted)


@pytest.mark.parametrize("failing", ["evt_0", "evt_2"])
async def test_a_handler_that_fails_undoes_only_itself(inbox: Inbox, path: str, failing: str) -> None:
    async def handler(event: Event, tx: Any) -> None:
        await write(event, tx)
        if event.id == failing:
            raise ValueError("not this one")

    gate = Gate(inbox, handler)
    outcomes = await gate.outcomes(4)
    all_ids = [f"evt_{number}" for number in range(4)]
    (failed,) = inbox.rows(status="failed")

    assert outcomes == ["busy" if id == failing else "applied" for id in all_ids]
    assert ids(path) == [id for id in all_ids if id != failing]
    assert failed.message.event_id == failing
    assert gate.ran == all_ids, "nobody has to do its work again"


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT",
        "RELEASE hooklane",
        "INSERT INTO lines VALUES ('no such part')",  # noticed at the commit only
        "INSERT INTO orders VALUES ('evt_1')",  # its constraint says: roll everything back
    ],
)
async def test_a_handler_that_spoils_the_transaction_does_not_fail_its_neighbours(
    inbox: Inbox, path: str, statement: str
) -> None:
    async def handler(event: Event, tx: Any) -> None:
        await write(event, tx)
        if event.id == "evt_1":
            tx.execute(statement)

    outcomes = await Gate(inbox, handler).outcomes(4)

    assert [outcomes[number] for number in (0, 2, 3)] == ["applied"] * 3
    assert outcomes[1] != "applied"
    assert ids(path) == ["evt_0", "evt_2", "evt_3"]


async def test_a_handler_finds_the_context_of_its_own_task(inbox: Inbox) -> None:
    request_id: ContextVar[str] = ContextVar("request_id")
    found: dict[str, str] = {}

    @own_source(inbox, order="none").on("*")
    async def handler(event: Event, tx: Any) -> None:
        await asyncio.sleep(0)
        found[event.id] = request_id.get()

    async def receive(id: str) -> None:
        request_id.set(f"the request of {id}")
        await inbox.areceive(signed(id))

    await asyncio.gather(*(asyncio.create_task(receive(f"evt_{number}")) for number in range(8)))

    assert found == {f"evt_{number}": f"the request of evt_{number}" for number in range(8)}


async def test_who_is_not_let_in_in_time_is_told_to_come_back_and_is_not_run_later(path: str) -> None:
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=scaled_ms(300))
    gate = Gate(inbox)
    first, *late = await gate.come(3)
    replies = await asyncio.gather(*late)
    gate.go_on.set()
    answer = outcome(await first)
    await inbox.aclose()

    assert [(reply.status, outcome(reply)) for reply in replies] == [(503, "busy")] * 2
    assert (answer, gate.ran) == ("applied", ["evt_0"])


async def test_a_request_that_is_cancelled_while_it_waits_is_not_run(inbox: Inbox, path: str) -> None:
    gate = Gate(inbox)
    first, second, third = await gate.come(3)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.go_on.set()

    assert [outcome(await first), outcome(await third)] == ["applied", "applied"]
    assert gate.ran == ["evt_0", "evt_2"]
    assert ids(path) == ["evt_0", "evt_2"]


async def test_a_request_that_is_cancelled_in_its_handler_is_undone_and_the_others_are_applied(
    inbox: Inbox, path: str
) -> None:
    at_work = asyncio.Event()

    async def handler(event: Event, tx: Any) -> None:
        await write(event, tx)
        if event.id == "evt_1":
            at_work.set()
            await asyncio.Event().wait()

    gate = Gate(inbox, handler)
    first, second, third = await gate.come(3)
    gate.go_on.set()
    async with asyncio.timeout(scaled_s(20)):
        await at_work.wait()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        answers = [outcome(await first), outcome(await third)]

    assert answers == ["applied", "applied"]
    assert ids(path) == ["evt_0", "evt_2"]


async def test_a_request_that_is_cancelled_when_its_part_is_done_stays_done(inbox: Inbox, path: str) -> None:
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def handler(event: Event, tx: Any) -> None:
        await write(event, tx)
        if event.id == "evt_1":
            at_work.set()
            await go_on.wait()

    gate = Gate(inbox, handler)
    first, second = await gate.come(2)
    gate.go_on.set()
    async with asyncio.timeout(scaled_s(20)):
        await at_work.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        go_on.set()
        answer = outcome(await second)
    again = outcome(await inbox.areceive(signed("evt_0")))

    assert (answer, again) == ("applied", "duplicate")
    assert ids(path) == ["evt_0", "evt_1"]


async def test_whose_turn_comes_in_the_moment_in_which_it_is_cancelled_passes_it_on(inbox: Inbox) -> None:
    commits = inbox.runner.task_commits
    assert commits is not None
    first = await commits.abegin()
    second = asyncio.create_task(commits.abegin())
    third = asyncio.create_task(commits.abegin())
    async with asyncio.timeout(scaled_s(20)):
        while commits.waiting < 2:
            await asyncio.wait([second], timeout=0.001)
        await first.close()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await (await third).close()

    assert commits.waiting == 0
