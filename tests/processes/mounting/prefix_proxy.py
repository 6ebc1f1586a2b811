"""A proxy that serves an application below a prefix of its own, as many do: it cuts the prefix off and tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

PREFIX = "/ops"


@asynccontextmanager
async def prefix_proxy(port: int) -> AsyncIterator[int]:
    """The port at which `/ops/…` is the application at *port*."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            host = next(line.partition(": ")[2] for line in lines if line.lower().startswith("host:"))
            kept = [line for line in lines if not line.lower().startswith(("host:", "connection:"))]
            told = [f"Host: inner.example:{port}", f"X-Forwarded-Host: {host}", f"X-Forwarded-Prefix: {PREFIX}"]
            request = [first.replace(f" {PREFIX}/", " /", 1), *told, "Connection: close", *kept]
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
            inner_writer.write(("\r\n".join(request) + "\r\n\r\n").encode("latin-1"))
            await asyncio.gather(pipe(reader, inner_writer), pipe(inner_reader, writer))
        writer.close()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(65_536):
                writer.write(chunk)
                await writer.drain()
            writer.close()

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
