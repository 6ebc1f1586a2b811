"""A server that misbehaves by path, and behaves at `/ok`: a process of its own, so that its memory is not the sender's.

`python -m bench.hostile` prints its port and runs until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import cast

import uvloop

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
OK_S = 0.005
"""A healthy endpoint does some work too; a bare echo on the loopback would measure the scheduler of the machine."""
DRIP_S = 0.5
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


class Hostile(asyncio.Protocol):
    """Answers the first bytes of each request by its path; requests here fit in one piece."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._paused = False
        self._again = b""
        self._every_s = DRIP_S

    def data_received(self, data: bytes) -> None:
        path = data.split(b" ", 2)[1].decode()
        if path == "/ok":
            asyncio.get_running_loop().call_later(OK_S, self._transport.write, OK)
        elif not self._again:
            first, self._again, self._every_s = BEHAVIOURS[path]
            self._transport.write(first)
            if self._again and self._every_s:
                # Each in its own rhythm: hostile endpoints do not keep time with each other.
                asyncio.get_running_loop().call_later(random.random() * self._every_s, self._drip)
            elif self._again:
                self._drip()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False

    def _drip(self) -> None:
        if not self._transport.is_closing():
            if not self._paused:
                self._transport.write(self._again)
            asyncio.get_running_loop().call_later(self._every_s, self._drip)


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Hostile, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.buffer.read)


@contextlib.contextmanager
def hostile_server() -> Iterator[int]:
    """Its port; the process ends with the block."""
    server = subprocess.Popen([sys.executable, "-m", "bench.hostile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait(10)


if __name__ == "__main__":
    uvloop.run(serve())
