"""How many bytes of request bodies a server holds at a time, over all connections: a bound for its memory.

A body counts while it arrives and while its call is answered. Where there is no more room, what has been arriving for
longest gives way: a client that sends its body in one go is never refused for those that send theirs byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable

from hooklane.server.problem import Problem

BYTES_MAX = 64 * 1024 * 1024
FULL = "too many request bodies are arriving at once"


class ArrivingBody:
    """One body; *give_up* is told when it must be thrown away before it is complete."""

    __slots__ = ("give_up", "size")

    def __init__(self, give_up: Callable[[], None] = lambda: None) -> None:
        self.give_up = give_up
        self.size = 0


class ArrivingBodies:
    """The bodies that this server holds."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._arriving: dict[ArrivingBody, None] = {}
        """The one that began first stands first."""
        self.held_bytes = 0

    def grow(self, body: ArrivingBody, size: int) -> bool:
        """*size* more bytes of *body* came; False where there is no room for them, and *body* is not held any more."""
        self._arriving.setdefault(body)
        body.size += size
        self.held_bytes += size
        while self.held_bytes > self._bytes_max and self._arriving:
            oldest = next(iter(self._arriving))
            self.drop(oldest)
            if oldest is body:
                return False
            oldest.give_up()
        return True

    def complete(self, body: ArrivingBody) -> None:
        """*body* has arrived: it is held until `drop`, whatever comes."""
        self._arriving.pop(body, None)

    def drop(self, body: ArrivingBody) -> None:
        """*body* is not held any more."""
        self._arriving.pop(body, None)
        self.held_bytes -= body.size
        body.size = 0


def no_room() -> Problem:
    return Problem("overloaded", f"{FULL}; nothing was stored by this call. Send it again in a moment.")
