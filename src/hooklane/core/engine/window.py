"""Which events are in memory? Those that are due soon, up to a bound in bytes; the rest is read again when due."""

from __future__ import annotations

from hooklane.core.engine.slot import Slot
from hooklane.model.event import Event


class Window:
    """The bodies that the lanes hold, counted."""

    __slots__ = ("_bytes", "_bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self._bytes = 0
        self._bytes_max = bytes_max

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def keep(self, slot: Slot, seq: int, event: Event, always: bool = False) -> None:
        """Hold an event for a lane, if there is room; *always* for a head, without which the lane could not go on."""
        size = len(event.data)
        if not always and self._bytes + size > self._bytes_max:
            return
        if slot.bodies is None:
            slot.bodies = {}
        if seq not in slot.bodies:
            self._bytes += size
            slot.bodies[seq] = event

    def drop_head(self, slot: Slot) -> None:
        """The head is done with."""
        bodies = slot.bodies
        if bodies is not None:
            event = bodies.pop(slot.head, None)
            if event is not None:
                self._bytes -= len(event.data)
            if not bodies:
                slot.bodies = None

    def drop(self, slot: Slot) -> None:
        """The lane will not need its events for a while."""
        if slot.bodies is not None:
            self._bytes -= sum(len(event.data) for event in slot.bodies.values())
            slot.bodies = None
