"""What waits for a commit, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hooklane.sender.pump import FEW, LINGER_MS, Pump


class Batches:
    """What was done, batch by batch; each is held until it is let go."""

    def __init__(self) -> None:
        self.done: list[list[int]] = []
        self.began = asyncio.Event()
        self.let_go = asyncio.Event()

    async def work(self, batch: list[int]) -> None:
        self.done.append(batch)
        self.began.set()
        await self.let_go.wait()

    async def holds(self) -> list[int]:
        """The batch that is under way now."""
        await asyncio.wait_for(self.began.wait(), 5)
        self.began.clear()
        return self.done[-1]


@asynccontextmanager
async def pumping(
    most: int = 100, can_wait: Callable[[int], bool] | None = None
) -> AsyncIterator[tuple[Pump[int], Batches]]:
    batches = Batches()
    pump = Pump(batches.work, most, can_wait=can_wait)
    task = asyncio.create_task(pump.run())
    try:
        yield pump, batches
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def all_done(pump: Pump[int]) -> None:
    for _ in range(1_000):
        if pump.is_idle:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the pump never came to rest")


def negative(item: int) -> bool:
    return item < 0


async def test_what_gathers_while_a_batch_is_under_way_makes_the_next_in_order() -> None:
    async with pumping(most=3) as (pump, batches):
        pump.add([1])
        assert await batches.holds() == [1]
        pump.add([2, 3])
        pump.add([4, 5])
        batches.let_go.set()

        await all_done(pump)
        assert batches.done == [[1], [2, 3, 4], [5]]


async def test_what_can_wait_goes_with_the_next_that_cannot() -> None:
    async with pumping(can_wait=negative) as (pump, batches):
        pump.add([-1, -2])
        await asyncio.sleep(0)
        assert not pump.is_idle

        pump.add([1])
        assert await batches.holds() == [1, -1, -2]


async def test_what_can_wait_goes_by_itself_when_nobody_else_comes() -> None:
    async with pumping(can_wait=negative) as (pump, batches):
        started = asyncio.get_running_loop().time()
        pump.add([-1])

        assert await batches.holds() == [-1]
        assert asyncio.get_running_loop().time() - started >= LINGER_MS / 1000 - 0.002


async def test_a_few_that_can_wait_need_not() -> None:
    async with pumping(can_wait=negative) as (pump, batches):
        pump.add(-1 - n for n in range(FEW))
        for _ in range(5):  # a few turns of the loop, and no time
            await asyncio.sleep(0)

        assert batches.done == [[-1 - n for n in range(FEW)]]


async def test_only_a_few_that_can_wait_lengthen_a_batch_and_all_get_their_turn() -> None:
    many = [-1 - n for n in range(3 * FEW)]
    async with pumping(can_wait=negative) as (pump, batches):
        pump.add([*many, 1, 2])
        assert await batches.holds() == [1, 2, *many[:FEW]]
        pump.add([3])
        batches.let_go.set()

        await all_done(pump)
        assert batches.done[1:] == [[3, *many[FEW : 2 * FEW]], many[2 * FEW :]]


async def test_a_long_line_of_what_can_wait_is_worked_off_in_large_parts() -> None:
    many = [-1 - n for n in range(40 * FEW)]
    async with pumping(most=1_000, can_wait=negative) as (pump, batches):
        batches.let_go.set()
        pump.add(many)

        await all_done(pump)
        assert [item for batch in batches.done for item in batch] == many
        assert len(batches.done[0]) == 10 * FEW
        assert len(batches.done) < 15


async def test_what_is_void_by_now_is_not_done() -> None:
    async with pumping(can_wait=negative) as (pump, batches):
        pump.add([1])
        await batches.holds()
        pump.add([2, 3, -2, -3])
        pump.discard(lambda item: abs(item) == 2)
        batches.let_go.set()

        await all_done(pump)
        assert batches.done == [[1], [3, -3]]
