"""When is a deadline over? One timer for all of them: no timer, task or future for each request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

TICKS_PER_S = 40


class Expiring(Protocol):
    """Something with a deadline; *slot* is where the wheel keeps it."""

    slot: set[Expiring] | None

    def expire(self) -> None:
        """The deadline has passed."""


class DeadlineWheel:
    """Deadlines in slots of 25 ms: late by at most one slot, never early. Arming and disarming cost a set operation."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._slots: dict[int, set[Expiring]] = {}
        self._turned = 0
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, item: Expiring, at: float) -> None:
        """*item* expires at *at*, in seconds of the clock; it must not be armed yet."""
        if self._timer is None:
            self._turned = int(self._clock() * TICKS_PER_S)
            self._timer = self._loop.call_later(1 / TICKS_PER_S, self._turn)
        number = int(at * TICKS_PER_S) + 1
        if number <= self._turned:
            number = self._turned + 1
        slot = self._slots.get(number)
        if slot is None:
            slot = self._slots[number] = set()
        slot.add(item)
        item.slot = slot

    def disarm(self, item: Expiring) -> None:
        """*item* does not expire any more, if it ever did."""
        slot = item.slot
        if slot is not None:
            slot.discard(item)
            item.slot = None

    def _turn(self) -> None:
        now = int(self._clock() * TICKS_PER_S)
        # What expires runs callbacks of others: the wheel is whole before the first of them.
        due = [slot for number in range(self._turned + 1, now + 1) if (slot := self._slots.pop(number, None))]
        self._turned = now
        self._timer = self._loop.call_later(1 / TICKS_PER_S, self._turn) if self._slots else None
        for slot in due:
            while slot:
                item = slot.pop()
                item.slot = None
                item.expire()
