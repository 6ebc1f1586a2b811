"""A process that delivers and nothing else: a worker of `serve --workers`; started by it, never by hand.

Its stdin brings the settings as one line, then a line whenever something was published; its end is the word to stop.
Its stdout carries one line when it delivers, then what it has counted, once a second.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from hooklane.cli.exits import Exit
from hooklane.cli.http_server import allow_open_files
from hooklane.cli.maintenance import Maintenance
from hooklane.cli.output import talk
from hooklane.cli.process import DRAIN_MS, open_services, open_store
from hooklane.cli.serve import Stoppable, run_until_signalled
from hooklane.config import Settings
from hooklane.errors import Broken, HooklaneError
from hooklane.server.services import Services

TELL_S = 1.0


class Worker:
    """The relay of this process with its maintenance, until `stop`."""

    def __init__(self, services: Services, maintenance: Maintenance) -> None:
        assert services.relay is not None
        self.services = services
        self.relay = services.relay
        self.maintenance = maintenance

    def stop(self) -> None:
        self.maintenance.stop()
        self.relay.stop()


async def deliver(settings: Settings, ready: Callable[[Stoppable], None]) -> None:
    """Deliver until told to stop, then let what is in flight end."""
    allow_open_files()
    store = open_store(settings)
    await store.open()
    try:
        services = open_services(settings, store)
        worker = Worker(services, Maintenance(settings, services, tenants=False))
        server_said, teller = await _pipes()
        async with asyncio.TaskGroup() as group:
            relaying = group.create_task(worker.relay.run(), name="relay")
            keeping = group.create_task(worker.maintenance.run(), name="maintenance")
            listening = group.create_task(_listen(server_said, worker), name="listen to the server")
            telling = group.create_task(_tell(teller, worker), name="tell the server")
            ready(worker)
            await relaying
            await keeping
            listening.cancel()
            telling.cancel()
        teller.write(_line(_told(services)))
        await services.publisher.close()
        await services.transport.close(DRAIN_MS)
        teller.close()
    finally:
        await store.close()


async def _listen(said: asyncio.StreamReader, worker: Worker) -> None:
    while await said.readline():
        worker.relay.nudge()
    worker.stop()


async def _tell(teller: asyncio.WriteTransport, worker: Worker) -> None:
    await worker.relay.ready()
    teller.write(_line({"ready": True}))
    while True:
        await asyncio.sleep(TELL_S)
        if not teller.get_write_buffer_size():  # a server that does not read hears it all later
            teller.write(_line(_told(worker.services)))


def _told(services: Services) -> dict[str, Any]:
    """What was counted and tried since the last line."""
    seen = {"recent": services.recent.take(), "certificates": services.transport.certificates}
    return {**services.meter.take().as_value(), **seen}


async def _pipes() -> tuple[asyncio.StreamReader, asyncio.WriteTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(0, "rb", 0))
    transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(1, "wb", 0))
    return reader, transport


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _settings() -> Settings | None:
    """The first line of stdin. Read byte by byte: what follows it belongs to the loop."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return msgspec.json.decode(line, type=Settings) if line else None


def main() -> int:
    settings = _settings()
    if settings is None:
        return Exit.OK  # the server ended before it had said anything
    try:
        run_until_signalled(lambda ready: deliver(settings, ready), settings)
    except HooklaneError as error:
        talk(f"worker: {error}")
        return Exit.BROKEN if isinstance(error, Broken) else Exit.FAILED
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
