"""The database moves under load: dumped and restored, or upgraded to another PostgreSQL, while senders repeat."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.crash.serving import Nursery, Site
from tests.faults.crash.traffic import Client, Load, Receiver
from tests.support.pace import scaled_s
from tests.support.postgres import PostgresServer

from hooklane.testing.arrivals import Tally, tally

CLIENTS, KEYS_EACH, EVENTS, REST_S = 4, 5, 150, 0.005


@dataclass
class Report:
    """What was seen before and after the move."""

    before: int = 0
    events: int = 0
    seen: Tally | None = None
    ledger: Any = None


def dump(old: PostgresServer, new: PostgresServer, folder: Path) -> None:
    """As a backup is moved to another server, which may be newer."""
    new.start()
    file = folder / "hooklane.sql"
    new.run("pg_dump", "--dbname", old.address.url(), "--file", str(file))
    new.run("psql", "--dbname", new.address.url(), "--set", "ON_ERROR_STOP=1", "--quiet", "--file", str(file))
    old.stop()


def upgrade(old: PostgresServer, new: PostgresServer, folder: Path) -> None:
    """pg_upgrade, which takes the files over."""
    old.stop()
    places = ["--old-bindir", str(old.installation.bin), "--new-bindir", str(new.installation.bin)]
    places += ["--old-datadir", str(old.data), "--new-datadir", str(new.data), "--socketdir", str(folder)]
    new.run("pg_upgrade", *places, "--username", "postgres", "--no-sync")
    new.start()


async def run(
    old: PostgresServer, new: PostgresServer, move: Callable[[PostgresServer, PostgresServer, Path], None]
) -> Report:
    """Publish and deliver, move, go on with the same senders and the same endpoint."""
    report = Report()
    nursery = await Nursery.open()
    folder = Path(tempfile.mkdtemp(prefix="hl", dir="/tmp"))  # short: a socket's path has a bound
    site = Site(nursery, old.start().url(), folder)
    try:
        async with Receiver() as receiver:
            await _run(report, site, receiver, old, new, move, folder)
    finally:
        await site.close()
        await nursery.close()
        shutil.rmtree(folder)
    return report


async def _run(
    report: Report,
    site: Site,
    receiver: Receiver,
    old: PostgresServer,
    new: PostgresServer,
    move: Callable[[PostgresServer, PostgresServer, Path], None],
    folder: Path,
) -> None:
    server = await site.serve()
    await server.ready()
    client = Client(site.port)
    rules = {"url": receiver.url, "backoff_ms": 20, "backoff_cap_ms": 200}
    status, answer = await client.call("POST", "/api/v1/endpoints", rules)
    assert status == 201, answer
    client.close()
    load = Load([site.port], clients=CLIENTS, keys_each=KEYS_EACH, rest_s=REST_S)
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        await _until(load, EVENTS)
        await server.stop()
        report.before = load.events
        await asyncio.to_thread(move, old, new, folder)
        site.db = new.address.url()
        server = await site.serve()
        await server.ready()
        await _until(load, report.before + EVENTS)
        load.stop()
    await receiver.has(load.accepted)
    client = Client(site.port)
    async with asyncio.timeout(scaled_s(60)):
        while True:
            _, report.ledger = await client.call("GET", "/api/v1/ledger")
            if report.ledger["items"][0]["counts"]["delivered"] == load.events:
                break
            await asyncio.sleep(0.05)
    client.close()
    report.events = load.events
    report.seen = tally(load.accepted, receiver.arrivals(), {})


async def _until(load: Load, events: int) -> None:
    async with asyncio.timeout(scaled_s(60)):
        while load.events < events:  # noqa: ASYNC110 - a load tells nobody
            await asyncio.sleep(0.02)
