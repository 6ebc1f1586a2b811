"""A TCP proxy that misbehaves on order: put it before any server, HTTP or database, and set `fault`.

It runs in a thread with its own event loop, so that blocking and asyncio tests use it alike. As a process of its own:
`python -m tests.support.proxy 127.0.0.1 5432 Latency 0.05` prints its port and serves until it is killed.
"""

import asyncio
import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, get_args

from tests.support.pace import scaled_s

CHUNK = 65_536
IDLE_TURNS = 10
Direction = Literal["request", "reply"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Clear:
    """No fault: bytes pass."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Each chunk of bytes waits this long, in both directions."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LoseReply:
    """The work is done and its reply is lost: requests pass, and the first bytes of a reply cut the connection."""


@dataclass(frozen=True, slots=True)
class BlackHole:
    """Connections open and nothing passes. What was sent is not lost: it arrives late, when the fault is lifted."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Nobody listens: new connections are refused. Those that are open stay."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is reset once *after* bytes have passed in that direction."""

    after: int
    direction: Direction


@dataclass(frozen=True, slots=True)
class DuplicateRequest:
    """A connection's request bytes arrive twice, over two connections; only the reply to the first comes back."""


@dataclass(frozen=True, slots=True)
class Trickle:
    """Both directions pass one byte, then wait this long. When the fault is lifted the rest arrives, late."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ResetEvery:
    """Of the connections made from now on each *nth* is reset before anything passes."""

    nth: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Requests that hold this text wait until the fault is lifted; all others pass."""

    text: str


Fault = Clear | Latency | LoseReply | BlackHole | Refuse | Cut | DuplicateRequest | Trickle | ResetEvery | Hold


class FaultProxy:
    """Listens on `port` and passes bytes to and from *host*:*upstream*, except as `fault` says."""

    def __init__(self, upstream: int, *, host: str = "127.0.0.1", fault: Fault | None = None) -> None:
        self._upstream = (host, upstream)
        self._fault: Fault = fault or Clear()
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._requests: list[bytearray] = []
        self.connections = 0
        self.resets = 0
        self.port = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._thread.start()
        self._do(self._prepare())
        return self

    def __exit__(self, _type: type[BaseException] | None, _it: BaseException | None, _at: TracebackType | None) -> None:
        self._do(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def fault(self) -> Fault:
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        """Takes effect before this returns, for connections that are open as well."""
        self._do(self._apply(fault))

    def reset_all(self) -> None:
        """Resets every open connection, as a restart of a box in between would."""
        self._do(self._reset_all())

    def replay(self) -> None:
        """Sends what each connection has brought so far once more, over new ones; returns when all was answered."""
        self._do(self._replay())

    def _do(self, act: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(scaled_s(10))

    async def _prepare(self) -> None:
        self._changed = asyncio.Event()
        # Bound for as long as the proxy lives, and never listening: nobody else gets the port while we refuse.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]
        await self._apply(self._fault)

    async def _finish(self) -> None:
        await self._listen(False)
        # A connection that the kernel has just handed over becomes a task of ours some turns of the loop later.
        idle = 0
        while idle < IDLE_TURNS:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.sleep(0)  # each has begun by now, so that it closes what it holds
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            idle = 0 if tasks else idle + 1
        self._reserved.close()

    async def _reset_all(self) -> None:
        for writer in list(self._open):
            _reset(writer)

    async def _replay(self) -> None:
        for request in [bytes(one) for one in self._requests if one]:
            reader, writer = await asyncio.open_connection(*self._upstream)
            try:
                writer.write(request)
                writer.write_eof()
                await _drain(reader)
            finally:
                writer.close()

    async def _apply(self, fault: Fault) -> None:
        self._fault = fault
        await self._listen(not isinstance(fault, Refuse))
        self._changed.set()
        self._changed = asyncio.Event()

    async def _listen(self, wanted: bool) -> None:
        if wanted and self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, backlog=256)
        elif not wanted and self._server is not None:
            self._server.close()
            self._server = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if isinstance(self._fault, ResetEvery) and self.connections % self._fault.nth == 0:
            self.resets += 1
            _reset(writer)
            return
        heard = bytearray()
        self._requests.append(heard)
        ends = [writer]
        self._open.add(writer)
        end: Callable[[asyncio.StreamWriter], None] = _reset
        try:
            copies = 2 if isinstance(self._fault, DuplicateRequest) else 1
            ways = [await asyncio.open_connection(*self._upstream) for _ in range(copies)]
            ends.extend(to for _, to in ways)
            self._open.update(ends)
            for one in ends:
                one.transport.set_write_buffer_limits(0)  # drained then means: in the kernel, out of our hands
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump("request", reader, [to for _, to in ways], heard))
                pumps.create_task(self._pump("reply", ways[0][0], [writer], bytearray()))
                for spare, _ in ways[1:]:
                    pumps.create_task(_drain(spare))
            end = asyncio.StreamWriter.close
        except* OSError:
            pass  # either side may go at any time; the other is told below
        finally:
            self._open.difference_update(ends)
            for one in ends:
                end(one)

    async def _pump(
        self, way: Direction, source: asyncio.StreamReader, targets: list[asyncio.StreamWriter], heard: bytearray
    ) -> None:
        passed = 0
        while chunk := await source.read(CHUNK):
            heard += chunk
            while self._stops(way, chunk):
                await self._changed.wait()
            match self._fault:
                case Latency(seconds=seconds):
                    await asyncio.sleep(seconds)
                case LoseReply() if way == "reply":
                    raise ConnectionResetError("lost on order")
                case Cut(after=after, direction=direction) if direction == way and passed + len(chunk) >= after:
                    await _send(targets, chunk[: max(0, after - passed)])
                    raise ConnectionResetError("cut on order")
            passed += len(chunk)
            while len(chunk) > 1 and isinstance(self._fault, Trickle):
                await _send(targets, chunk[:1])
                chunk = chunk[1:]
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), self._fault.seconds)
            await _send(targets, chunk)
        for target in targets:
            with suppress(OSError):
                target.write_eof()

    def _stops(self, way: Direction, chunk: bytes) -> bool:
        match self._fault:
            case BlackHole():
                return True
            case Hold(text=text):
                return way == "request" and text.encode() in chunk
            case _:
                return False


async def _send(targets: list[asyncio.StreamWriter], chunk: bytes) -> None:
    for target in targets:
        target.write(chunk)
        await target.drain()


async def _drain(source: asyncio.StreamReader) -> None:
    while await source.read(CHUNK):
        pass


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closes with a reset, which no peer can take for an orderly end."""
    with suppress(OSError):
        end: socket.socket = writer.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def main(host: str, upstream: str, kind: str = "Clear", *values: str) -> None:
    kinds = {fault.__name__: fault for fault in get_args(Fault)}
    arguments = [value if value in get_args(Direction) else json.loads(value) for value in values]
    with FaultProxy(int(upstream), host=host, fault=kinds[kind](*arguments)) as proxy:
        print(proxy.port, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
