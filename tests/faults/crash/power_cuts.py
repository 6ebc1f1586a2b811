"""A sender under load on a disk whose power fails: what it has acknowledged is there after every cut.

One run is told in full by the shim, and then cut at many moments: each is a disk of its own that is opened and checked.
`python -m tests.faults.crash.power_cuts --store sqlite --cuts 300` does it by hand and prints a report as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psycopg
from tests.faults.crash.serving import Nursery, Site
from tests.faults.crash.traffic import Client, Load, Receiver
from tests.support.leftovers import scratch_folder
from tests.support.pace import scaled_s
from tests.support.postgres import PostgresServer, installation
from tests.support.power import Disk, Op, PowerShim, copy, ops_of
from tests.support.tree import ROOT, SOURCE

CLIENTS, KEYS_EACH = 8, 5
EVENTS, FEW_EVENTS, FEW_CUTS = 1_200, 500, 50
"""Of a run; fewer where only a few cuts are asked for."""
CUTS_OF_A_RUN = {"sqlite": 150, "postgres": 10}
"""After so many cuts of one run a new one is made."""


@dataclass(frozen=True, slots=True)
class Acked:
    """An event whose publish was answered, and when: a moment of the shim's log."""

    moment: int
    key: str
    seq: int
    event_id: str


@dataclass
class Report:
    """What the cuts have shown."""

    store: str
    seed: int
    cuts: int = 0
    runs: int = 0
    events: int = 0
    acknowledged: int = 0
    """Added up over all cuts: so many promises were looked for."""
    lost: int = 0
    violations: list[str] = field(default_factory=list)
    went_on: int = 0
    """Servers that were started on what a cut had left, and delivered the rest in order."""
    took_s: float = 0.0


class Store(ABC):
    """A database whose files are on the disk that is cut."""

    url: str
    files: Path
    """The folder that is on the disk."""

    @abstractmethod
    def start(self, env: dict[str, str] | None) -> None:
        """Run what runs beside the sender, under the shim or not."""

    @abstractmethod
    def crash(self) -> None: ...

    @abstractmethod
    def check(self, report: Report, acked: list[Acked]) -> None:
        """Open the files as they are now, and look for all that was promised."""


class Sqlite(Store):
    def __init__(self, folder: Path) -> None:
        self.files = folder / "disk"
        self.files.mkdir()
        self.url = f"sqlite:///{self.files}/hooklane.db"

    def start(self, env: dict[str, str] | None) -> None: ...

    def crash(self) -> None: ...

    def check(self, report: Report, acked: list[Acked]) -> None:
        with closing(sqlite3.connect(self.files / "hooklane.db")) as conn:
            try:
                state = conn.execute("PRAGMA integrity_check(1)").fetchone()[0]
                rows = conn.execute(
                    "SELECT t.key, s.seq, e.id FROM hooklane_lane_event s JOIN hooklane_lane_tail t USING (lane_id)"
                    " JOIN hooklane_event e ON e.n = s.event_n"
                ).fetchall()
            except sqlite3.DatabaseError as error:
                state, rows = str(error), []
        if state != "ok":
            report.violations.append(f"cut {report.cuts}: {state}")
        compare(report, acked, rows)


class PostgreSQL(Store):
    def __init__(self, folder: Path) -> None:
        settings = {"checkpoint_timeout": "30s", "max_wal_size": "32MB", "io_method": "sync"}
        chosen = installation()
        if chosen.major < 18:
            del settings["io_method"]
        self._server = PostgresServer(chosen, folder, durable=True, settings=settings)
        self._server.start()
        self.files = self._server.data
        self.url = self._server.address.url()
        self._server.stop()

    def start(self, env: dict[str, str] | None) -> None:
        (self.files / "postmaster.pid").unlink(missing_ok=True)
        self._server.env = env
        self._server.start()

    def crash(self) -> None:
        self._server.stop_immediate()

    def check(self, report: Report, acked: list[Acked]) -> None:
        self.start(None)
        try:
            with psycopg.connect(self.url) as connection:
                rows = connection.execute(EVERY_STAMP).fetchall()
                for (name,) in connection.execute(TABLES).fetchall():
                    connection.execute(
                        f"SELECT count(t.*) FROM {name} t".encode()
                    )  # each page is read, its sum checked
        except psycopg.Error as error:
            report.violations.append(f"cut {report.cuts}: {error}")
            rows = []
        finally:
            self.crash()
        compare(report, acked, rows)


EVERY_STAMP = """
    SELECT t.key, s.seq, e.id FROM hooklane.lane_event s JOIN hooklane.lane_tail t USING (lane_id)
    JOIN hooklane.event e ON e.n = s.event_n
"""
TABLES = """
    SELECT 'hooklane.' || quote_ident(relname) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'hooklane'::regnamespace
"""


def compare(report: Report, acked: list[Acked], rows: list[tuple[str, int, str]]) -> None:
    """What was promised, held against what is there."""
    found = {(key, seq): event_id for key, seq, event_id in rows}
    gone = [one for one in acked if found.get((one.key, one.seq)) != one.event_id]
    report.acknowledged += len(acked)
    report.lost += len(gone)
    if gone:
        report.violations.append(f"cut {report.cuts}: {len(gone)} acknowledged events are lost, such as {gone[0]}")


@contextmanager
def store_of(kind: str) -> Iterator[tuple[Store, Path]]:
    with scratch_folder(in_memory=True) as folder, scratch_folder(in_memory=True) as beside:
        store: Store = Sqlite(folder) if kind == "sqlite" else PostgreSQL(folder)
        yield store, beside


async def run(kind: str, cuts: int, *, seed: int = 1, source: str = SOURCE) -> Report:
    """So many cuts, of as many runs as they need; of each run the last one is gone on with. *source* may be another
    tree of the code, with a bug in it."""
    report, chance, began = Report(kind, seed), random.Random(seed), time.monotonic()
    while report.cuts < cuts:
        with store_of(kind) as (store, beside):
            await _one_run(report, store, beside, min(CUTS_OF_A_RUN[kind], cuts - report.cuts), chance, source)
        report.runs += 1
    report.took_s = round(time.monotonic() - began, 1)
    return report


async def _one_run(report: Report, store: Store, beside: Path, cuts: int, chance: random.Random, source: str) -> None:
    before, image = beside / "before", beside / "image"
    shim = PowerShim(beside, store.files, beside / "told")
    acked: list[Acked] = []
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(Receiver(lambda _k, _s: chance.choices((200, 503), (97, 3))[0]))
        nursery = await Nursery.open({**shim.env, "PYTHONPATH": os.pathsep.join((source, str(ROOT)))})
        stack.push_async_callback(nursery.close)
        site = Site(nursery, store.url, beside)
        stack.push_async_callback(site.close)
        await _first_start(store, site, receiver)
        copy(store.files, before)
        shim.log.write_bytes(b"")
        load = Load(
            [site.port],
            clients=CLIENTS,
            keys_each=KEYS_EACH,
            on_accepted=lambda key, seq, event_id: acked.append(Acked(shim.told, key, seq, event_id)),
        )
        store.start(shim.env)
        server = await site.serve()
        await server.ready()
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            async with asyncio.timeout(scaled_s(60)):
                while load.events < (EVENTS if cuts > FEW_CUTS else FEW_EVENTS):  # noqa: ASYNC110 - a load tells nobody
                    await asyncio.sleep(0.01)
            load.stop()
        await server.kill()
        store.crash()
        report.events += load.events
        _cut(report, store, Disk(store.files, before), shim.log, image, acked, cuts, chance)
        await _goes_on(report, store, site, receiver)


async def _first_start(store: Store, site: Site, receiver: Receiver) -> None:
    """The tables and the endpoint are there before the run."""
    store.start(None)
    server = await site.serve()
    await server.ready()
    client = Client(site.port)
    options = {"backoff_ms": 20, "backoff_cap_ms": 200, "attempts_max": 1_000}
    status, answer = await client.call("POST", "/api/v1/endpoints", {"url": receiver.url, **options})
    assert status == 201, answer
    client.close()
    await server.stop()
    store.crash()


def _cut(
    report: Report,
    store: Store,
    disk: Disk,
    log: Path,
    image: Path,
    acked: list[Acked],
    cuts: int,
    chance: random.Random,
) -> None:
    """Cut the run at as many moments since the first answer, each after one thing that was done; check what is left."""
    ops = list(ops_of(log))
    first = next(number for number, op in enumerate(ops) if op.at >= acked[0].moment)
    moments = sorted(chance.sample(range(first, len(ops)), min(cuts, len(ops) - first)))
    for number, op in enumerate(ops):
        disk.take(op)
        while moments and moments[0] == number:
            moments.pop(0)
            disk.cut(image, chance)
            shutil.rmtree(store.files)
            copy(image, store.files)
            store.check(report, _promised(acked, op))
            report.cuts += 1


def _promised(acked: list[Acked], op: Op) -> list[Acked]:
    """What was answered before that was done: the log was not longer then."""
    return [one for one in acked if one.moment <= op.at]


async def _goes_on(report: Report, store: Store, site: Site, receiver: Receiver) -> None:
    """A server on what the last cut left delivers all that it owes, in order, and its ledger adds up."""
    receiver.log.clear()
    receiver.taken.clear()
    receiver.react = lambda _key, _seq: 200
    store.start(None)
    server = await site.serve()
    await server.ready()
    client = Client(site.port)
    async with asyncio.timeout(scaled_s(60)):
        while True:
            _, ledger = await client.call("GET", "/api/v1/ledger")
            if all(line["counts"]["delivered"] == line["accepted"] for line in ledger["items"]):
                break
            await asyncio.sleep(0.05)
    client.close()
    if not ledger["balanced"]:
        report.violations.append(f"after cut {report.cuts}: the ledger does not add up: {ledger}")
    last: dict[str, int] = {}
    for one in receiver.log:
        if one.seq != last.setdefault(one.key, one.seq - 1) + 1:
            report.violations.append(f"after cut {report.cuts}: {one.key} had {one.seq} after {last[one.key]}")
        last[one.key] = one.seq
    await server.stop()
    store.crash()
    report.went_on += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--cuts", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--source", default=SOURCE)
    asked = parser.parse_args()
    print(json.dumps(asdict(asyncio.run(run(asked.store, asked.cuts, seed=asked.seed, source=asked.source)))))


if __name__ == "__main__":
    main()
