"""An endpoint that answers 200 after a little work and remembers when each event came to it: a process of its own.

`python -m bench.healthy` prints its port and answers each line on its standard input, a file's name: it writes there a
line for each delivery since the last time, in the order of their coming (the machine's monotonic clock in seconds,
webhook-id, X-Key and X-Seq), and says how many. It runs until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, ClassVar, NamedTuple, cast

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


async def serve() -> None:
    gc.disable()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Healthy, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    while name := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        arrived, Healthy.arrived = Healthy.arrived, []
        _write(Path(name), arrived)
        print(len(arrived), flush=True)


def _write(log: Path, arrived: list[tuple[float, bytes]]) -> None:
    with log.open("w") as lines:
        for at, head in arrived:
            said = {name.lower(): value.decode() for name, value in _HEADERS.findall(head)}
            lines.write(f"{at!r} {said[b'webhook-id']} {said[b'x-key']} {said[b'x-seq']}\n")


@dataclass(slots=True)
class Sink:
    """A healthy endpoint, and what came to it so far."""

    port: int
    pid: int
    _log: Path
    _ask: IO[str]
    _told: IO[str]
    arrivals: list[Arrival] = field(default_factory=list)

    def look(self) -> list[Arrival]:
        """What came since the last look."""
        self._ask.write(f"{self._log}\n")
        self._ask.flush()
        if not self._told.readline():
            raise SystemExit("the healthy endpoint has ended")
        found = [line.split() for line in self._log.read_text().splitlines()]
        new = [Arrival(float(at), event_id, key, int(seq)) for at, event_id, key, seq in found]
        self.arrivals += new
        return new


@contextlib.contextmanager
def healthy_sink(log: Path) -> Iterator[Sink]:
    """The process ends with the block."""
    command = [sys.executable, "-m", "bench.healthy"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        yield Sink(int(server.stdout.readline()), server.pid, log, server.stdin, server.stdout)
    finally:
        server.stdin.close()
        server.stdout.close()
        server.wait(30)


if __name__ == "__main__":
    uvloop.run(serve())
