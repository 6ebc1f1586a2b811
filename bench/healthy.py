"""An endpoint that answers 200 after a little work and remembers when each event came to it: a process of its own.

`python -m bench.healthy FILE` prints its port, runs until its standard input is closed, and then writes a line for each
delivery in the order of their coming: the machine's monotonic clock in seconds, webhook-id, X-Key and X-Seq.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple, cast

import uvloop

from bench.hostile import OK, OK_S

_HEADERS = re.compile(rb"\r\n(webhook-id|x-key|x-seq): *([^\r]*)", re.IGNORECASE)


class Arrival(NamedTuple):
    at: float
    """Seconds of `time.monotonic`, which all processes of a Linux machine share."""
    event_id: str
    key: str
    seq: int


class Healthy(asyncio.Protocol):
    """Requests here fit in one piece, and come one after the other."""

    arrived: ClassVar[list[tuple[float, bytes]]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.arrived.append((time.monotonic(), data.partition(b"\r\n\r\n")[0]))
        asyncio.get_running_loop().call_later(OK_S, self._transport.write, OK)


async def serve(log: Path) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Healthy, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    with log.open("w") as lines:
        for at, head in Healthy.arrived:
            said = {name.lower(): value.decode() for name, value in _HEADERS.findall(head)}
            lines.write(f"{at!r} {said[b'webhook-id']} {said[b'x-key']} {said[b'x-seq']}\n")


@dataclass(slots=True)
class Sink:
    """A healthy endpoint; *arrivals* once it has ended."""

    port: int
    pid: int
    log: Path

    def arrivals(self) -> list[Arrival]:
        found = [line.split() for line in self.log.read_text().splitlines()]
        return [Arrival(float(at), event_id, key, int(seq)) for at, event_id, key, seq in found]


@contextlib.contextmanager
def healthy_sink(log: Path) -> Iterator[Sink]:
    """The process ends with the block, and then its log is there."""
    command = [sys.executable, "-m", "bench.healthy", str(log)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield Sink(int(server.stdout.readline()), server.pid, log)
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait(30)


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
