"""Requests of threads and of event loops share writes; the lead is handed on and never lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from tests.support.pace import scaled_s
from tests.support.processes import until

from hooklane.batching.line import Blame
from hooklane.batching.thread_requests import Asked, ThreadRequests
from hooklane.batching.threads import LeadLine
from hooklane.errors import StoreBusy, StoreUnavailable


class Interrupted(BaseException):
    """Meant for a thread, as KeyboardInterrupt is."""


class Store:
    """Writes; the first is held until it is let go."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        self.began = threading.Event()
        self.let_go = threading.Event()

    def write(self, items: list[int]) -> list[int]:
        self.written.append(items)
        self.began.set()
        assert self.let_go.wait(scaled_s(10))
        if -1 in items:
            raise Interrupted
        if 13 in items:
            raise ValueError("13 cannot be written")
        return [item * 10 for item in items]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def crowd(pool: ThreadPoolExecutor, store: Store, first: int, *others: int, most: int = 100) -> list[Future[int]]:
    """*others* ask while the write of *first* is under way, one after the other."""
    requests: ThreadRequests[int, int] = ThreadRequests(store.write, most, name="test", blame=lambda error: Blame.ONE)
    asked = [pool.submit(requests.ask, first)]
    assert store.began.wait(scaled_s(10))
    for number, item in enumerate(others, start=1):
        asked.append(pool.submit(requests.ask, item))
        until(lambda number=number: len(requests) == number, what="the next to wait")  # type: ignore[misc]
    store.let_go.set()
    return asked


def test_what_comes_while_a_thread_writes_shares_the_next_write_in_order(pool: ThreadPoolExecutor) -> None:
    store = Store()

    asked = crowd(pool, store, 1, 2, 3, 4, 5, most=3)

    assert [each.result(scaled_s(10)) for each in asked] == [10, 20, 30, 40, 50]
    assert store.written == [[1], [2, 3, 4], [5]]


def test_one_bad_item_fails_alone(pool: ThreadPoolExecutor) -> None:
    asked = crowd(pool, Store(), 1, 2, 13, 3)

    assert [str(each.exception(scaled_s(10)) or each.result()) for each in asked] == [
        "10", "20", "13 cannot be written", "30",
    ]  # fmt: skip


def test_a_thread_that_is_interrupted_while_it_writes_hands_the_lead_on(pool: ThreadPoolExecutor) -> None:
    asked = crowd(pool, Store(), -1, 2, 3)

    with pytest.raises(Interrupted):
        asked[0].result(scaled_s(10))
    assert [each.result(scaled_s(10)) for each in asked[1:]] == [20, 30]


def test_those_in_the_hand_of_a_thread_that_is_interrupted_are_told(pool: ThreadPoolExecutor) -> None:
    asked = crowd(pool, Store(), 1, -1, 3)

    assert asked[0].result(scaled_s(10)) == 10
    with pytest.raises(Interrupted):
        asked[1].result(scaled_s(10))
    with pytest.raises(StoreUnavailable):
        asked[2].result(scaled_s(10))


class Line:
    """A line whose leader holds each request until it is let go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.let_go = threading.Event()
        self.served: list[str] = []
        self.line: LeadLine[Asked[str, None]] = LeadLine(self._serve, name="test", busy="it was not served in time")

    def _serve(self, first: Asked[str, None], mine: Asked[str, None] | None) -> None:
        self.began.set()
        assert self.let_go.wait(scaled_s(10))
        self.served.append(first.ticket.item)
        if first.ticket.item == "nested":
            self.line.enter(first, 10)
            return
        first.ticket.succeed(None)
        first.is_over = True
        self.line.tell([first], mine)


def test_who_is_not_served_in_time_is_told_so_and_the_line_goes_on(pool: ThreadPoolExecutor) -> None:
    held, late = Line(), Asked[str, None]("late")
    leads = pool.submit(held.line.enter, Asked("first"))
    assert held.began.wait(scaled_s(10))

    held.line.enter(late, wait_s=0.001)

    with pytest.raises(StoreBusy, match="it was not served in time"):
        late.ticket.value()
    held.let_go.set()
    leads.result(scaled_s(10))
    assert held.served == ["first"]


def test_a_leader_that_asks_its_own_line_is_refused_instead_of_waiting_for_itself() -> None:
    held, asked = Line(), Asked[str, None]("nested")
    held.let_go.set()

    held.line.enter(asked)

    with pytest.raises(StoreBusy):
        asked.ticket.value()
    assert not held.line.is_led, "and the lead was handed on"


async def test_requests_of_an_event_loop_are_served_by_a_thread_and_expire_in_the_loop() -> None:
    held = Line()
    first, late, last = (Asked[str, None](name) for name in ("first", "late", "last"))
    async with asyncio.timeout(scaled_s(10)), asyncio.TaskGroup() as group:
        group.create_task(held.line.served(first))
        await asyncio.to_thread(held.began.wait, scaled_s(10))
        await held.line.served(late, wait_s=0.001)
        group.create_task(held.line.served(last))
        await asyncio.sleep(0)
        held.let_go.set()

    assert isinstance(late.ticket.error, StoreBusy)
    assert held.served == ["first", "last"]
    held.line.close(wait=True)
    assert not held.line.is_led


async def test_a_request_of_a_loop_may_inherit_the_lead_of_a_thread() -> None:
    held, mine = Line(), Asked[str, None]("of the loop")
    async with asyncio.timeout(scaled_s(10)):
        leads = asyncio.get_running_loop().run_in_executor(None, held.line.enter, Asked[str, None]("of the thread"))
        await asyncio.to_thread(held.began.wait, scaled_s(10))
        waiting = asyncio.create_task(held.line.served(mine))
        await asyncio.sleep(0)
        held.let_go.set()
        await leads
        await waiting

    assert held.served == ["of the thread", "of the loop"]
    held.line.close(wait=True)


async def test_a_line_that_is_closed_starts_no_thread_and_says_so() -> None:
    """What came right after the close was served by a thread that no one ended."""

    def serve(first: Asked[int, int], _: Asked[int, int] | None) -> None:
        first.ticket.succeed(1)
        first.is_over = True
        line.tell([first], None)

    line: LeadLine[Asked[int, int]] = LeadLine(serve, name="closed-line")
    before, after = Asked[int, int](1), Asked[int, int](2)
    await line.served(before)
    line.close(wait=True)
    await asyncio.wait_for(line.served(after), scaled_s(10))

    assert before.ticket.value() == 1
    with pytest.raises(StoreUnavailable, match="closed"):
        after.ticket.value()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("closed-line")]
