"""How does a server listen? uvicorn, with a `Listener` that accepts the connections and a sweep of those that idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import uvicorn

from hooklane.config import Settings
from hooklane.errors import UsageError
from hooklane.sender.transport.open_files import open_files_now
from hooklane.server.ingest import IngestProtocol
from hooklane.server.listener import Listener

OPEN_FILES = 16_384
SWEEP_S = 1.0
DATE_S = 1.0
END_LOOK_S = 0.005

log = logging.getLogger("hooklane.server")


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which the command line has, and with a `Listener` that accepts."""

    listeners: Sequence[Listener] = ()

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._told_to_exit = asyncio.Event()

    def exit(self) -> None:
        """Begin to end: `serve` or `wait` returns when nothing is under way."""
        self.should_exit = True
        self._told_to_exit.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, but a `Listener` accepts the connections."""
        assert sockets is not None
        await self.lifespan.startup()
        self.listeners = [Listener(sock, self._protocol, open_files_now().clients) for sock in sockets]
        self.servers = cast(Any, self.listeners)  # it closes them
        self.started = True
        self.listening.set()

    async def wait(self) -> None:
        """In place of `serve`, where nothing listens: until it is told to exit."""
        self.listening.set()
        await self._told_to_exit.wait()

    async def main_loop(self) -> None:
        """As uvicorn's, which looks ten times a second whether it should exit: this one is told."""
        try:
            while not await self.on_tick(0):  # sets the date of all answers
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(DATE_S):
                        await self._told_to_exit.wait()
        except asyncio.CancelledError:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Another part of the server failed: nothing more is taken in, since the store is closed next."""
        for listener in self.listeners:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's, which pauses for a tenth of a second at each step, be there anything to wait for or not."""
        state = self.server_state
        for listener in self.listeners:
            listener.close()
            await listener.wait_closed()
        for sock in sockets or ():
            sock.close()
        for connection in list(state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while state.connections or state.tasks:  # noqa: ASYNC110 - plain sets of uvicorn's
                    await asyncio.sleep(END_LOOK_S)
        except TimeoutError:
            log.error("%d requests were still under way and are ended", len(state.tasks))
            for task in state.tasks:
                task.cancel()
        await self.lifespan.shutdown()

    def _protocol(self, lost: Callable[[], None]) -> asyncio.Protocol:
        protocol: IngestProtocol = cast(Any, self.config.http_protocol_class)(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        protocol.lost = lost
        return protocol

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def allow_open_files() -> None:
    """As many as the system lets us have: the usual 1,024 are fewer connections than a busy sender holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(settings: Settings) -> socket.socket:
    """The listening socket, or one clear line about why there is none."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((settings.host, settings.port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise UsageError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from None
    sock.setblocking(False)
    return sock


async def sweep(server: Server) -> None:
    """Close what has been idle for too long, again and again."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_S)
        now = loop.time()
        is_full = any(listener.is_full for listener in server.listeners)
        for connection in list(server.server_state.connections):
            if isinstance(connection, IngestProtocol):
                connection.sweep(now, hurry=is_full)
