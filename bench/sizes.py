"""What does it weigh? Bytes of an owed event, a lane and an id, on disk and in memory: `python -m bench.sizes`.

Events are published to an endpoint that is paused, so all of them stay owed; then a server starts on them. Each figure
is the difference of two databases, or of two servers, divided by how many more the second has; at twice the size it is
taken once more, which shows whether it grows.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import inbox, stores
from bench.gateway import gateway
from bench.machine import children, described, load_average, rss_kib, scratch
from hooklane.core.fanout import places
from hooklane.core.signing import new_secret
from hooklane.model.clock import wall_now
from hooklane.model.endpoint import Endpoint, EndpointState, SigningKey
from hooklane.model.event import Event
from hooklane.model.ids import new_id
from hooklane.receiver import Inbox
from hooklane.store.open import outbox_store
from hooklane.store.outbox import Draft, StoreOptions

SIZES = (25_000, 50_000)
LANES = 1_000
BATCH = 1_000
RECEIVED = 10_000
_DIGEST = bytes(32)


@dataclass(frozen=True, slots=True)
class Weight:
    """Of one database: bytes on the disk, and in the memory of all processes of a server on it."""

    disk: int
    memory: int


async def _publish(db: str, events: int, lanes: int, *, named: bool) -> None:
    store = outbox_store(db, StoreOptions(placer=places))
    await store.open()
    now = wall_now()
    key = (SigningKey(new_secret(b"a secret of thirty-two bytes....")),)
    endpoint = Endpoint(
        id=new_id("ep", now), url="https://example.com/", created_at=now, keys=key, state=EndpointState.PAUSED
    )
    assert await store.save_endpoint(endpoint, expect=None)
    for batch in _batches(events):
        await store.publish(
            [
                Draft(
                    Event(new_id("evt", now), "order.created", f"customer:{n % lanes}", b'{"order":%d}' % n, now),
                    None,
                    (f"key:{n:032x}",) if named else (),
                    _DIGEST if named else b"",
                )
                for n in batch
            ]
        )
    await store.close()


def _batches(events: int) -> Iterator[range]:
    for start in range(0, events, BATCH):
        yield range(start, min(events, start + BATCH))


def weigh(store: stores.Store, folder: Path, events: int, lanes: int, *, named: bool = False) -> Weight:
    db = store.fresh()
    asyncio.run(_publish(db, events, lanes, named=named))
    disk = on_disk(db)
    with gateway(db, folder) as one:
        memory = sum(rss_kib(pid) for pid in (one.pid, *children(one.pid))) * 1024
    return Weight(disk, memory)


def on_disk(db: str) -> int:
    if db.startswith("sqlite:///"):
        path = Path(db.removeprefix("sqlite:///"))
        with sqlite3.connect(path) as conn:
            conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return path.stat().st_size
    import psycopg

    with psycopg.connect(db, autocommit=True) as connection:
        ((size,),) = connection.execute("SELECT pg_database_size(current_database())").fetchall()
    return int(size)


def received(store: stores.Store) -> float:
    """Bytes on the disk for each message that an inbox has stored."""
    db = store.fresh()

    async def fill() -> int:
        box = Inbox(db)
        box.source("hooklane", [inbox.SECRET]).on("order.*")(lambda event, tx: None)
        await box.areceive(inbox.request(0))
        before = on_disk(db)
        waiting = iter(range(1, RECEIVED + 1))

        async def some() -> None:
            for number in waiting:
                assert (await box.areceive(inbox.request(number))).status == 200

        await asyncio.gather(*(some() for _ in range(inbox.IN_FLIGHT)))
        if box.store is not None and hasattr(box.store, "aclose"):
            await box.store.aclose()
        return before

    before = asyncio.run(fill())
    return (on_disk(db) - before) / RECEIVED


def table(store: stores.Store, folder: Path) -> list[str]:
    lines = [
        f"| {store.name}, bytes on disk / in memory | {' | '.join(f'{size:,} of them' for size in SIZES)} |",
        f"|---|{'--:|' * len(SIZES)}",
    ]
    empty = weigh(store, folder, 0, LANES)
    cells: dict[str, list[str]] = {"an owed event": [], "a lane with one": [], "an id that may not come twice": []}
    for size in SIZES:
        few, many = weigh(store, folder, size, LANES), weigh(store, folder, size, size)
        named = weigh(store, folder, size, LANES, named=True)
        more = size - LANES
        cells["an owed event"].append(
            f"{(few.disk - empty.disk) / size:,.0f} / {(few.memory - empty.memory) / size:,.0f}"
        )
        cells["a lane with one"].append(
            f"{(many.disk - few.disk) / more:,.0f} / {(many.memory - few.memory) / more:,.0f}"
        )
        cells["an id that may not come twice"].append(
            f"{(named.disk - few.disk) / size:,.0f} / {(named.memory - few.memory) / size:,.0f}"
        )
    lines += [f"| {name} | {' | '.join(row)} |" for name, row in cells.items()]
    lines += [
        "",
        f"An empty database is {empty.disk / 2**20:.1f} MB, a server on it {empty.memory / 2**20:.0f} MB;"
        f" a message of 300 bytes in the inbox takes {received(store):,.0f} bytes.",
        "",
    ]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sizes", description=__doc__)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"), help="both by default")
    asked = parser.parse_args()
    print(f"{described()}, load average {load_average():.1f} before\n")
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        for name in asked.store or ["sqlite", "postgres"]:
            store = stack.enter_context(getattr(stores, name)(folder))
            print("\n".join(table(store, folder)), flush=True)


if __name__ == "__main__":
    main()
