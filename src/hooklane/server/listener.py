"""Accepts as many connections as there is room for; the others wait in the system's queue, at no cost."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

log = logging.getLogger("hooklane.api")

ACCEPTS_PER_TURN = 64
RETRY_S = 1.0
"""How long no connection is accepted after the system refused one: it does not tell when it would not."""


class Listener:
    """Accepts connections from a socket while fewer than *most* are open.

    The servers of asyncio and uvloop accept all that come, until no file is left for anything else.
    """

    def __init__(self, sock: socket.socket, make: Callable[[Callable[[], None]], asyncio.Protocol], most: int) -> None:
        """*make* makes the protocol of one connection, which calls its argument when the connection is lost."""
        self._sock = sock
        self._make = make
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._open = 0
        self._joining: set[asyncio.Task[None]] = set()
        self._is_listening = False
        self._is_closed = False
        self._listen()

    @property
    def is_full(self) -> bool:
        """Whether connections may be waiting to be accepted."""
        return self._open >= self._most

    def close(self) -> None:
        """Accept no more connections; those that are open stay."""
        self._is_closed = True
        self._pause()

    async def wait_closed(self) -> None:
        """Returns once every connection that was accepted is one of the server's."""
        if self._joining:
            await asyncio.wait(self._joining)

    def _listen(self) -> None:
        if not self._is_listening and not self._is_closed:
            self._is_listening = True
            self._loop.add_reader(self._sock.fileno(), self._accept)

    def _pause(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._loop.remove_reader(self._sock.fileno())

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self.is_full:
                self._pause()
                return
            try:
                connection, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return  # no connection waits, or the one that did has left
            except OSError as error:
                log.warning("no connection can be let in for now: %s", error.strerror)
                self._pause()
                self._loop.call_later(RETRY_S, self._listen)
                return
            self._open += 1
            connection.setblocking(False)
            task = self._loop.create_task(self._join(connection))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    async def _join(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._make(self._left), connection)
        except OSError:
            connection.close()  # it was lost before it began
            self._left()

    def _left(self) -> None:
        self._open -= 1
        if not self.is_full:
            self._listen()
