"""Which kept connections hold bytes that were never asked for? One poll of all of them, not one of each.

What lies unread when a request goes out would be taken for its answer, so the pool looks before it sends. A call to the
system for every request would cost as much as sending it.
"""

from __future__ import annotations

import asyncio
import select
from contextlib import suppress
from typing import Any

_System: Any = getattr(select, "epoll", None) or getattr(select, "poll", None)


class UnreadBytes:
    """All connections of a pool, and those of them that had something to read when it last looked."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._system = _System()
        self._readable: frozenset[int] | None = None
        """As of this turn of the loop; None before the first look of a turn."""

    def add(self, fd: int) -> None:
        self._system.register(fd, select.POLLIN)  # EPOLLIN is the same number

    def remove(self, fd: int) -> None:
        with suppress(OSError, KeyError):  # closed already, and forgotten by the system itself
            self._system.unregister(fd)

    def is_readable(self, fd: int) -> bool:
        """Whether a byte, or the end, waits at *fd*."""
        readable = self._readable
        if readable is None:
            readable = self._readable = frozenset([fd for fd, _ in self._system.poll(0)])
            self._loop.call_soon(self._forget)
        # The look may be older than our last read there, so what it found is looked at once more by itself.
        return fd in readable and _is_now(select.POLLIN, fd)

    def _forget(self) -> None:
        self._readable = None


def is_writable(fd: int) -> bool:
    """Whether the system takes more at *fd*: if not, the other side does not read."""
    return _is_now(select.POLLOUT, fd)


def _is_now(event: int, fd: int) -> bool:
    one = select.poll()
    one.register(fd, event)
    return bool(one.poll(0))
