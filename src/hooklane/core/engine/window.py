"""Which events are in memory? Those that are due soon, up to a bound in bytes; the rest is read again when due."""

from __future__ import annotations

from hooklane.core.engine.owned_lane import OwnedLane
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

    def keep(self, lane: OwnedLane, seq: int, event: Event, always: bool = False) -> None:
        """Hold an event for a lane, if there is room; *always* for a head, without which the lane could not go on."""
        size = len(event.data)
        if not always and self._bytes + size > self._bytes_max:
            return
        if lane.bodies is None:
            lane.bodies = {}
        if seq not in lane.bodies:
            self._bytes += size
            lane.bodies[seq] = event

    def drop_head(self, lane: OwnedLane) -> None:
        """The head is done with."""
        bodies = lane.bodies
        assert bodies is not None, "what was sent is held"
        self._bytes -= len(bodies.pop(lane.head).data)
        if not bodies:
            lane.bodies = None

    def drop(self, lane: OwnedLane) -> None:
        """The lane will not need its events for a while."""
        if lane.bodies is not None:
            self._bytes -= sum(len(event.data) for event in lane.bodies.values())
            lane.bodies = None
