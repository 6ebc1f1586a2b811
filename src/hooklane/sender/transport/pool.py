"""Which connections exist, which of them are idle, and which requests wait for one?"""

from __future__ import annotations

import asyncio
import fcntl
import os
import resource
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from hooklane.sender.transport.runtime import Runtime
from hooklane.sender.transport.unread_bytes import UnreadBytes

if TYPE_CHECKING:
    from hooklane.sender.transport.connection import Connection
    from hooklane.sender.transport.exchange import Exchange
    from hooklane.sender.transport.route import Route

_SWEEP_S = 1.0


def make_room_for_files(many: int) -> None:
    """Have the system's table of our open files as large as *many* need, once, before there is traffic.

    A process with threads stands still for some 10 ms each time the table is enlarged under it.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.close(
            fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, many if soft == resource.RLIM_INFINITY else min(many, soft - 1))
        )
    except OSError:
        pass  # no file is free at this moment: what is opened next will say so
    finally:
        os.close(fd)


class Pool:
    """At most *connections_max* connections, made or being made; idle ones make room for other routes."""

    def __init__(self, runtime: Runtime, connections_max: int, dial: Callable[[Exchange], None]) -> None:
        if connections_max < 1:
            raise ValueError(f"connections_max must be at least 1, got {connections_max}")
        self.runtime = runtime
        self.connections: set[Connection] = set()
        self.unread_bytes = UnreadBytes(runtime.loop)
        self.waiting: deque[Exchange] = deque()
        self._idle: dict[Connection, None] = {}  # the one that is idle longest first
        self.connections_max = connections_max
        make_room_for_files(connections_max)
        self._taken = 0
        self._dial = dial
        self._emptied = asyncio.Event()
        self._sweeper: asyncio.TimerHandle | None = None

    def submit(self, exchange: Exchange, now: float) -> None:
        """Start *exchange*, behind those that wait already."""
        if self.waiting:
            self.waiting.append(exchange)
            self.runtime.loop.call_soon(self._pump)
        else:
            self._start(exchange, now)

    def _start(self, exchange: Exchange, now: float) -> None:
        """Send on a kept connection, or make one, or wait for room."""
        idle = exchange.route.idle
        while idle:
            connection = idle.pop()  # the one used last: the others may then grow old and go
            del self._idle[connection]
            if connection.is_fresh(now):
                self.runtime.counters.connections_reused += 1
                connection.begin(exchange)
                return
            connection.drop()
        if self._taken < self.connections_max or self._evict():
            self._taken += 1
            self._dial(exchange)
        else:
            self.waiting.append(exchange)

    def opened(self, connection: Connection) -> None:
        """The place that was taken for a dial is now *connection*'s."""
        self.runtime.counters.connections_opened += 1
        self.connections.add(connection)
        if self._sweeper is None:
            self._sweeper = self.runtime.loop.call_later(_SWEEP_S, self._sweep)

    def not_opened(self) -> None:
        """A dial came to nothing; its place is free."""
        self._taken -= 1
        self._pump()

    def release(self, connection: Connection, now: float) -> None:
        """*connection* read its answer to the end and may be used again."""
        route = connection.route
        if now >= connection.usable_until or connection.address not in (route.vetted or ()):
            connection.drop()
            return
        self._idle[connection] = None
        route.idle.append(connection)
        if self.waiting:
            # Not from here: this runs inside the reading of an answer, before its caller was told.
            self.runtime.loop.call_soon(self._pump)

    def gone(self, connection: Connection) -> None:
        """*connection* was closed, by the peer or by us."""
        if connection in self.connections:
            self.connections.discard(connection)
            self._unlist(connection)
            if not self.connections:
                self._emptied.set()
            self._taken -= 1
            if self.waiting:
                self.runtime.loop.call_soon(self._pump)

    def forget(self, route: Route) -> None:
        """No idle connection of *route* is used again: its addresses are not what they were."""
        for connection in list(route.idle):
            self._unlist(connection)
            connection.drop()

    async def close(self) -> None:
        """Drop every connection, stop sweeping, and return when the loop has closed them all."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self.connections):
            connection.abort()
        while self.connections:
            self._emptied.clear()
            await self._emptied.wait()

    def _evict(self) -> bool:
        if not self._idle:
            return False
        connection = next(iter(self._idle))
        self.gone(connection)  # its place is free now, not only when the loop has closed it
        connection.drop()
        return True

    def _unlist(self, connection: Connection) -> None:
        if connection in self._idle:
            del self._idle[connection]
            connection.route.idle.remove(connection)

    def _pump(self) -> None:
        now = self.runtime.clock()
        for _ in range(len(self.waiting)):
            exchange = self.waiting.popleft()
            if not exchange.settled:
                waiting_before = len(self.waiting)
                self._start(exchange, now)
                if len(self.waiting) > waiting_before:
                    self.waiting.rotate(1)  # still no room: it keeps its place at the front
                    return

    def _sweep(self) -> None:
        """Once a second: what was idle too long is closed."""
        now = self.runtime.clock()
        for connection in [one for one in self._idle if not one.is_fresh(now)]:
            self._unlist(connection)
            connection.drop()
        self._sweeper = self.runtime.loop.call_later(_SWEEP_S, self._sweep) if self.connections else None
