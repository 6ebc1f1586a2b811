"""Peers of the transport: real sockets that behave as a test tells them, and a resolver with a script."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.pace import SLOWEST

from hooklane.model.exchange import Result, Target
from hooklane.sender.egress import EgressGuard
from hooklane.sender.resolver import DnsError
from hooklane.sender.transport import Transport

HERE = "127.0.0.2"
"""Where good peers live: the tests' guards open this address and leave 127.0.0.1 closed."""
CANARY = "127.0.0.1"
PATIENT_MS = int(2_000 * SLOWEST)
"""The same however slow the machine is from one request to the next: another limit is another target."""

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Peer:
    """A server at an address, and what it saw."""

    host: str
    port: int
    accepted: int = 0
    requests: list[bytes] = field(default_factory=list)
    all_ended: asyncio.Event = field(default_factory=asyncio.Event)
    """No connection is open any more."""

    def url(self, path: str = "/", scheme: str = "http", host: str | None = None) -> str:
        return f"{scheme}://{host or self.host}:{self.port}{path}"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """One whole request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return head + await reader.readexactly(int(length.split(b":")[1]))


@contextlib.asynccontextmanager
async def serving(
    behave: Callable[[Peer], Behaviour], *, host: str = HERE, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Peer]:
    """A server whose connections behave as *behave* says; all of them are ended at exit."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        peer.accepted += 1
        peer.all_ended.clear()
        try:
            await behave(peer)(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            pass  # a peer that was left alone is what many tests are about
        finally:
            tasks.discard(task)
            if not tasks:
                peer.all_ended.set()
            writer.transport.abort()

    server = await asyncio.start_server(accept, host, port, ssl=tls, backlog=2048)
    peer = Peer(host, server.sockets[0].getsockname()[1])
    try:
        yield peer
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(*responses: bytes) -> Callable[[Peer], Behaviour]:
    """Reads a request, answers with the next of *responses* (the last one for ever), and so on."""

    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                peer.requests.append(await read_request(reader))
                writer.write(responses[min(len(peer.requests), len(responses)) - 1])
                await writer.drain()

        return behave

    return of


def closing_after(response: bytes) -> Callable[[Peer], Behaviour]:
    """Reads a request, answers *response* and closes."""

    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer.requests.append(await read_request(reader))
            writer.write(response)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        return behave

    return of


DRIPPED_MAX = 16 << 20
"""Far more than anybody should take, and an end for whoever is not stopped: a writer whose TLS connection is being
closed is never told to wait, nor that it is closing, and would fill the memory."""


def dripping(start: bytes, drop: bytes, every_s: float) -> Callable[[Peer], Behaviour]:
    """Answers *start*, then *drop* again and again, until the other side hangs up."""

    def of(peer: Peer) -> Behaviour:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer.requests.append(await read_request(reader))
            writer.write(start)
            for _ in range(DRIPPED_MAX // len(drop)):
                if writer.is_closing():
                    return
                await asyncio.sleep(every_s)
                writer.write(drop)
                await writer.drain()
            await reader.read()

        return behave

    return of


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads whatever comes and never says anything."""
    while await reader.read(65_536):
        pass


class Script:
    """A resolver that says what a test wants, query by query; the last answer is for ever."""

    def __init__(self, **answers: Sequence[Sequence[str] | Exception]) -> None:
        self._answers = {name.replace("_", "."): list(turns) for name, turns in answers.items()}
        self.queries: list[str] = []

    async def lookup(self, host: str) -> Sequence[str]:
        self.queries.append(host)
        turns = self._answers.get(host)
        if turns is None:
            raise DnsError("NXDOMAIN")
        turn = turns.pop(0) if len(turns) > 1 else turns[0]
        if isinstance(turn, Exception):
            raise turn
        return turn


@contextlib.asynccontextmanager
async def transporting(
    *,
    allow: Sequence[str] = (f"{HERE}/32",),
    resolver: object | None = None,
    connections_max: int | None = None,
    ca_file: str | None = None,
) -> AsyncIterator[Transport]:
    """A transport that may send to HERE and to nothing else on this machine."""
    guard = EgressGuard(allow=allow, resolver=resolver or Script())  # type: ignore[arg-type]
    transport = Transport(guard, connections_max=connections_max, ca_file=ca_file)
    try:
        yield transport
    finally:
        await transport.close(0)


async def post(
    transport: Transport,
    url: str,
    *,
    body: bytes = b"{}",
    headers: bytes = b"Content-Type: application/json\r\n",
    timeout_ms: int | None = None,
    ca_pem: str | None = None,
    endpoint_id: str = "ep_1",
    own: tuple[tuple[str, str], ...] = (),
) -> Result:
    """One request, awaited; fails when `done` is called a second time. *timeout_ms* is given where it is to pass."""
    return await posted(transport, Target(endpoint_id, url, timeout_ms or PATIENT_MS, ca_pem, own), headers, body)


async def posted(transport: Transport, target: Target, headers: bytes = b"", body: bytes = b"{}") -> Result:
    answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    transport.send(target, headers, body, answer.set_result)
    assert not answer.done(), "done was called inside send"
    return await answer


def closed_port(host: str = HERE) -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def sockets_open() -> int:
    """How many files this process holds open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
