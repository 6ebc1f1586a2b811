"""A pooler in transaction mode, like PgBouncer's: each transaction of a client may run on another server connection.

It speaks just enough of PostgreSQL's protocol to do what makes such poolers dangerous: prepared statements, settings
and locks of a session do not follow the client from one transaction to the next. It knows no passwords.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

SSL_REQUEST, GSS_REQUEST, CANCEL = 80877103, 80877104, 80877102
STARTUP = 196608


class Server:
    """One connection to the real PostgreSQL, after its start-up."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, greeting: bytes) -> None:
        self.reader, self.writer, self.greeting = reader, writer, greeting


async def message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    (length,) = struct.unpack("!I", await reader.readexactly(4))
    return kind, await reader.readexactly(length - 4)


def packed(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


class Pooler:
    """Hands out its server connections in turn, one transaction at a time."""

    def __init__(self, host: str, port: int, size: int) -> None:
        self._host, self._port, self._size = host, port, size
        self._free: asyncio.Queue[Server | None] = asyncio.Queue()
        self._startup = b""
        self._keys = itertools.count(1)
        self._greeting = b""
        self.transactions = 0

    async def connect(self, startup: bytes) -> Server:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        writer.write(struct.pack("!I", len(startup) + 4) + startup)
        greeting = b""
        while True:
            kind, body = await message(reader)
            if kind == b"E":
                raise ConnectionRefusedError(body)
            if kind == b"Z":
                return Server(reader, writer, greeting)
            if kind in b"RS":
                greeting += packed(kind, body)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = struct.unpack("!I", await reader.readexactly(4))
                startup = await reader.readexactly(length - 4)
                (code,) = struct.unpack("!I", startup[:4])
                if code in (SSL_REQUEST, GSS_REQUEST):
                    writer.write(b"N")
                    continue
                break
            if code != STARTUP:
                return
            if not self._greeting:
                servers = [await self.connect(startup) for _ in range(self._size)]
                self._greeting, self._startup = servers[0].greeting, startup
                for server in servers:
                    self._free.put_nowait(server)
            key = packed(b"K", struct.pack("!II", 1_000_000 + next(self._keys), 42))
            writer.write(self._greeting + key + packed(b"Z", b"I"))
            await self._transactions(reader, writer)
        writer.close()

    async def _transactions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """From a client's first message until the server says that it is idle again, the client keeps its server."""
        client = asyncio.create_task(message(reader))
        try:
            while True:
                kind, _ = await client
                if kind == b"X":
                    return
                server = await self._free.get()
                try:
                    server = server or await self.connect(self._startup)
                    self.transactions += 1
                    client = await self._one(reader, writer, server, client)
                except (asyncio.IncompleteReadError, OSError):
                    server = None  # it has died: the next client gets a new one
                    raise
                finally:
                    self._free.put_nowait(server)
        finally:
            client.cancel()

    async def _one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server: Server,
        client: asyncio.Task[tuple[bytes, bytes]],
    ) -> asyncio.Task[tuple[bytes, bytes]]:
        answers = asyncio.create_task(message(server.reader))
        asked = 0
        while True:
            await asyncio.wait([client, answers], return_when=asyncio.FIRST_COMPLETED)
            if client.done():
                kind, body = client.result()
                server.writer.write(packed(kind, body))
                asked += kind in b"QS"
                client = asyncio.create_task(message(reader))
            if answers.done():
                kind, body = answers.result()
                writer.write(packed(kind, body))
                asked -= kind == b"Z"
                if kind == b"Z" and body == b"I" and not asked and not client.done():
                    return client
                answers = asyncio.create_task(message(server.reader))


@asynccontextmanager
async def pooler(url: str, size: int = 3) -> AsyncIterator[tuple[str, Pooler]]:
    """The URL of a pooler before the database at *url*."""
    address, _, database = url.removeprefix("postgresql://postgres@").partition("/")
    host, _, port = address.partition(":")
    pool = Pooler(host, int(port), size)
    server = await asyncio.start_server(pool.serve, "127.0.0.1", 0)
    try:
        yield f"postgresql://postgres@127.0.0.1:{server.sockets[0].getsockname()[1]}/{database}", pool
    finally:
        server.close()
        while not pool._free.empty():
            if left := pool._free.get_nowait():
                left.writer.close()
