"""A client that does not wait: requests go out at their time, however long earlier ones take.

One that waits for each answer sends less while the server is slow, and so never sees how slow it is.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast


class _Line(asyncio.Protocol):
    """One kept connection: a request, its whole answer, the next request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._data = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        self._data = b""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, found, body = self._data.partition(b"\r\n\r\n")
        if not found or self._answer is None:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if len(body) >= length:
            answer, self._answer = self._answer, None
            answer.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the server closed the connection"))

    def close(self) -> None:
        self._transport.close()


class Client:
    """As many kept connections to one server as there are requests under way at once."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[_Line] = []

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON; anything but 2xx ends the run."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        line = self._idle.pop() if self._idle else await self._connect()
        status, answer = await line.ask(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        self._idle.append(line)
        if not 200 <= status < 300:
            raise SystemExit(f"{method} {path} was answered {status}: {answer.decode(errors='replace')}")
        return json.loads(answer)

    async def _connect(self) -> _Line:
        _, line = await asyncio.get_running_loop().create_connection(_Line, "127.0.0.1", self._port)
        return line

    def close(self) -> None:
        for line in self._idle:
            line.close()


async def at_rate(per_second: float, until: float, act: Callable[[int, float], Awaitable[None]]) -> None:
    """Begin *act* with its number and the time that it was due, evenly spaced until *until*; returns when all ended."""
    start, number = time.monotonic(), 0
    async with asyncio.TaskGroup() as acts:
        while (due := start + number / per_second) < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            acts.create_task(cast(Any, act(number, due)))
            number += 1


async def all_of(calls: list[Callable[[], Awaitable[Any]]], at_once: int = 16) -> list[Any]:
    """The results of *calls*, in their order, so many under way at once."""
    results: list[Any] = [None] * len(calls)
    left = iter(enumerate(calls))

    async def work() -> None:
        for number, call in left:
            results[number] = await call()

    async with asyncio.TaskGroup() as workers:
        for _ in range(at_once):
            workers.create_task(work())
    return results
