"""The one timer behind all deadlines."""

from __future__ import annotations

import asyncio
import time

from tests.support.pace import scaled_s

from hooklane.sender.transport.wheel import DeadlineWheel, Expiring


class Item:
    def __init__(self, wheel: DeadlineWheel | None = None) -> None:
        self.slot: set[Expiring] | None = None
        self.expired_at: float | None = None
        self.expired = asyncio.Event()
        self.wheel = wheel

    def expire(self) -> None:
        self.expired_at = time.monotonic()
        self.expired.set()
        if self.wheel is not None:
            self.wheel.arm(self.again, time.monotonic() - 1)

    @property
    def again(self) -> Item:
        self.second = Item()
        return self.second


async def test_a_deadline_is_never_early_and_at_most_a_slot_late() -> None:
    latest: list[float] = []
    for _ in range(3):  # a machine that is busy stands still now and then; a wheel that is late is so each time
        wheel = DeadlineWheel(asyncio.get_running_loop(), time.monotonic)
        started = time.monotonic()
        items = {delay: Item() for delay in (0.0, 0.01, 0.024, 0.025, 0.026, 0.1, 0.233)}
        for delay, item in items.items():
            wheel.arm(item, started + delay)
        await asyncio.wait_for(items[0.233].expired.wait(), scaled_s(2))
        late = [(item.expired_at or 0) - started - delay for delay, item in items.items()]
        assert min(late) >= 0
        latest.append(max(late))

    assert min(latest) < scaled_s(0.15)


async def test_what_was_disarmed_does_not_expire() -> None:
    wheel = DeadlineWheel(asyncio.get_running_loop(), time.monotonic)
    early, late = Item(), Item()
    wheel.arm(early, time.monotonic() + 0.02)
    wheel.arm(late, time.monotonic() + 0.08)
    wheel.disarm(early)
    wheel.disarm(early)
    await asyncio.wait_for(late.expired.wait(), scaled_s(2))

    assert not early.expired.is_set()


async def test_a_wheel_that_stood_still_turns_again_and_an_old_deadline_expires_at_once() -> None:
    wheel = DeadlineWheel(asyncio.get_running_loop(), time.monotonic)
    first = Item()
    wheel.arm(first, time.monotonic())
    await asyncio.wait_for(first.expired.wait(), scaled_s(2))
    await asyncio.sleep(0.1)
    old = Item(wheel)
    armed_at = time.monotonic()
    wheel.arm(old, armed_at - 10)
    await asyncio.wait_for(old.expired.wait(), scaled_s(2))
    await asyncio.wait_for(old.second.expired.wait(), scaled_s(2))

    assert old.expired_at is not None
    assert old.second.expired_at is not None
    assert armed_at <= old.expired_at <= old.second.expired_at < armed_at + scaled_s(0.5)
