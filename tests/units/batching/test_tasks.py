"""Requests of one event loop share writes, and turns are neither lost nor given twice."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.pace import scaled_s

from hooklane.batching.line import Blame
from hooklane.batching.tasks import BatchTask, Requests, TaskTurns
from hooklane.errors import StoreUnavailable


class Store:
    """Writes that are held until they are let go."""

    def __init__(self) -> None:
        self.written: list[list[int]] = []
        self.began = asyncio.Event()
        self.let_go = asyncio.Event()

    async def write(self, items: list[int]) -> list[int]:
        self.written.append(items)
        self.began.set()
        await self.let_go.wait()
        if 13 in items:
            raise ValueError("13 cannot be written")
        return [item * 10 for item in items]


def requests(store: Store, most: int = 100) -> Requests[int, int]:
    return Requests(store.write, most, name="test", blame=lambda error: Blame.ONE)


async def test_what_is_asked_while_a_write_is_under_way_shares_the_next() -> None:
    store = Store()
    asked = requests(store, most=3)
    async with asyncio.timeout(scaled_s(5)), asyncio.TaskGroup() as group:
        first = group.create_task(asked.ask(1))
        await store.began.wait()
        others = [group.create_task(asked.ask(item)) for item in (2, 3, 4, 5)]
        await asyncio.sleep(0)
        store.let_go.set()

    assert store.written == [[1], [2, 3, 4], [5]]
    assert [first.result(), *(other.result() for other in others)] == [10, 20, 30, 40, 50]


async def test_one_bad_item_fails_alone() -> None:
    store = Store()
    store.let_go.set()
    asked = requests(store)

    results = await asyncio.gather(*(asked.ask(item) for item in (1, 13, 2)), return_exceptions=True)

    assert [results[0], str(results[1]), results[2]] == [10, "13 cannot be written", 20]


async def test_a_request_that_is_cancelled_does_not_take_its_neighbours_along() -> None:
    store = Store()
    asked = requests(store)
    async with asyncio.timeout(scaled_s(5)):
        tasks = [asyncio.create_task(asked.ask(item)) for item in (1, 2)]
        await store.began.wait()
        tasks[0].cancel()
        await asyncio.wait([tasks[0]])
        store.let_go.set()

        assert await tasks[1] == 20
    assert tasks[0].cancelled()


async def test_requests_of_a_task_that_is_ended_are_told_so_and_do_not_wait_for_ever() -> None:
    store = Store()
    asked = requests(store)
    async with asyncio.timeout(scaled_s(5)):
        waiting = asyncio.create_task(asked.ask(1))
        await store.began.wait()
        (writer,) = (task for task in asyncio.all_tasks() if task.get_name() == "test")
        writer.cancel()

        with pytest.raises(StoreUnavailable):
            await waiting


async def test_there_is_no_task_while_nothing_waits() -> None:
    done: list[list[int]] = []

    async def work(batch: list[int]) -> None:
        done.append(batch)

    batches = BatchTask(work, 2, name="test", pause_s=0)
    for item in range(3):
        batches.add(item)
    await batches.drained()

    assert done == [[0, 1], [2]]
    assert batches.is_idle
    assert "test" not in [task.get_name() for task in asyncio.all_tasks()]


async def test_a_turn_that_is_given_to_a_task_in_the_moment_it_is_cancelled_is_given_back() -> None:
    turns: TaskTurns[str, int] = TaskTurns()
    back: list[int] = []

    async def given_back(what: int) -> None:
        back.append(what)

    waiting = asyncio.create_task(turns.wait("a", given_back))
    await asyncio.sleep(0)
    assert turns.give(7)
    waiting.cancel()
    await asyncio.wait([waiting])

    assert (waiting.cancelled(), back) == (True, [7])


async def test_turns_come_in_order_and_skip_tasks_that_wait_no_longer() -> None:
    turns: TaskTurns[str, int] = TaskTurns()

    async def given_back(what: int) -> None:
        raise AssertionError("it was not given")

    tasks = [asyncio.create_task(turns.wait(key, given_back)) for key in "abc"]
    await asyncio.sleep(0)
    tasks[0].cancel()
    assert (len(turns), turns.first) == (2, "b")
    await asyncio.wait([tasks[0]])

    assert (turns.first, turns.give(1), turns.give(2), turns.give(3)) == ("b", True, True, False)
    assert [await tasks[1], await tasks[2]] == [1, 2]


async def test_a_turn_that_does_not_come_in_time_is_an_error_of_the_callers_choice() -> None:
    turns: TaskTurns[str, int] = TaskTurns()

    async def given_back(what: int) -> None:
        raise AssertionError("it was not given")

    with pytest.raises(LookupError):
        await turns.wait("a", given_back, wait_s=0.001, late=LookupError)
    assert not turns.give(1)
