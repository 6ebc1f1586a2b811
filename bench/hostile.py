"""A server that misbehaves by path, and behaves at `/ok`: a process of its own, so that its memory is not the sender's.

`python -m bench.hostile` prints its port, answers each line on its standard input with what it saw since the last one,
and runs until that is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import IO, cast

import uvloop

from bench.aside import low_priority

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
OK_S = 0.005
"""A healthy endpoint does some work too; a bare echo on the loopback would measure the scheduler of the machine."""
DRIP_S = 1.0
BEHAVIOURS = {
    # path: what comes at once, what comes again and again, and how often (0: as fast as it is read)
    "/never": (b"", b"", DRIP_S),
    "/drip-head": (b"HTTP/1.1 200 OK\r\n", b"X-More: yes\r\n", DRIP_S),
    "/drip-body": (b"HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\n", b"x", DRIP_S),
    "/endless": (b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"x" * 4_096 + b"\r\n", 0.0),
    "/bomb": (b"HTTP/1.1 200 OK\r\n", b"X-Bomb: " + b"x" * 4_086 + b"\r\n", 0.0),
    "/slow-bomb": (b"HTTP/1.1 200 OK\r\nX-Bomb: " + b"x" * 60_000, b"x", DRIP_S),
    "/continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.0),
    "/slow-continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", DRIP_S),
}


@dataclass(slots=True)
class Watched:
    """What the server saw of those who asked it, beside `/ok`."""

    requests: int = 0
    open: int = 0
    """Requests that nobody has given up yet."""
    open_max: int = 0
    held_s_max: float = 0.0
    """The longest time from a request until its connection was closed by the other side."""


class Hostile(asyncio.Protocol):
    """Answers the first bytes of each request by its path; requests here fit in one piece."""

    watched = Watched()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._paused = False
        self._asked_at: float | None = None
        self._again = b""
        self._every_s = DRIP_S

    def data_received(self, data: bytes) -> None:
        path = data.split(b" ", 2)[1].decode()
        if path == "/ok":
            asyncio.get_running_loop().call_later(OK_S, self._transport.write, OK)
        elif self._asked_at is None:
            self._note_request()
            first, self._again, self._every_s = BEHAVIOURS[path]
            self._transport.write(first)
            if self._again and self._every_s:
                # Each in its own rhythm: hostile endpoints do not keep time with each other.
                asyncio.get_running_loop().call_later(random.random() * self._every_s, self._drip)
            elif self._again:
                self._drip()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._asked_at is not None:
            self.watched.open -= 1
            self.watched.held_s_max = max(self.watched.held_s_max, time.monotonic() - self._asked_at)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if not self._every_s:
            self._drip()

    def _note_request(self) -> None:
        watched = self.watched
        self._asked_at = time.monotonic()
        watched.requests += 1
        watched.open += 1
        watched.open_max = max(watched.open_max, watched.open)

    def _drip(self) -> None:
        if self._transport.is_closing() or (self._paused and not self._every_s):
            return  # who floods waits until there is room again: nobody reads, and spinning would only burn the machine
        if not self._paused:
            self._transport.write(self._again)
        asyncio.get_running_loop().call_later(self._every_s, self._drip)


async def serve() -> None:
    low_priority()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Hostile, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await loop.run_in_executor(None, sys.stdin.buffer.readline):
        seen, now_open = Hostile.watched, Hostile.watched.open
        print(json.dumps(asdict(seen)), flush=True)
        Hostile.watched = Watched(open=now_open, open_max=now_open)


@dataclass(frozen=True, slots=True)
class Peers:
    """A hostile server in a process of its own."""

    port: int
    pid: int
    _ask: IO[bytes]
    _told: IO[bytes]

    def watched(self) -> Watched:
        """What it saw since this was asked last."""
        self._ask.write(b"\n")
        self._ask.flush()
        return Watched(**json.loads(self._told.readline()))


@contextlib.contextmanager
def hostile_peers() -> Iterator[Peers]:
    """The process ends with the block."""
    server = subprocess.Popen([sys.executable, "-m", "bench.hostile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield Peers(int(server.stdout.readline()), server.pid, server.stdin, server.stdout)
    finally:
        server.stdin.close()
        server.stdout.close()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:  # a busy machine closes a thousand connections slowly
            server.kill()
            server.wait()


@contextlib.contextmanager
def hostile_server() -> Iterator[int]:
    """Its port; the process ends with the block."""
    with hostile_peers() as peers:
        yield peers.port


if __name__ == "__main__":
    uvloop.run(serve())
