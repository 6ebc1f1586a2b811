"""What does it weigh? Bytes of an owed event, a lane and an id, on disk and in memory: `python -m bench.sizes`.

Events are published to an endpoint that is paused, so all of them stay owed; then a server starts on them. Each figure
is the difference of two databases, or of two servers, divided by how many more the second has; at twice and four times
the size it is taken once more, which shows whether it grows. The picture of that is `bench/out/sizes.svg`.
`--only ids`: what an inbox keeps of a message that was handled, on each store; `--only start`: how soon a server is
ready on an empty database, and the CPU of `hooklane --help`.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import inbox, store_claims, stores
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

SIZES = (12_500, 25_000, 50_000)
IDS, IDS_OF_DYNAMODB = 2_500, 500
OUT = Path(__file__).with_name("out") / "sizes.svg"
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


Growth = dict[str, list[tuple[int, Weight]]]
"""Of each store: how many events are owed, and what they weigh with the server on them."""


def table(store: stores.Store, folder: Path, growth: Growth) -> list[str]:
    lines = [
        f"| {store.name}, bytes on disk / in memory | {' | '.join(f'{size:,} of them' for size in SIZES)} |",
        f"|---|{'--:|' * len(SIZES)}",
    ]
    empty = weigh(store, folder, 0, LANES)
    growth[store.name] = [(0, empty)]
    cells: dict[str, list[str]] = {"an owed event": [], "a lane with one": [], "an id that may not come twice": []}
    for size in SIZES:
        few, many = weigh(store, folder, size, LANES), weigh(store, folder, size, size)
        named = weigh(store, folder, size, LANES, named=True)
        growth[store.name].append((size, few))
        for name, heavy, light, more in (
            ("an owed event", few, empty, size),
            ("a lane with one", many, few, size - LANES),
            ("an id that may not come twice", named, few, size),
        ):
            disk, memory = (heavy.disk - light.disk) / more, (heavy.memory - light.memory) / more
            cells[name].append(f"{disk:,.0f} / {memory:,.0f}")
    lines += [f"| {name} | {' | '.join(row)} |" for name, row in cells.items()]
    lines += [
        "",
        f"An empty database is {empty.disk / 2**20:.1f} MB, a server on it {empty.memory / 2**20:.0f} MB;"
        f" a message of 300 bytes in the inbox takes {received(store):,.0f} bytes.",
        "",
    ]
    return lines


def ids() -> list[str]:
    """What is left of a message that was handled, once its payload was purged: its id, as long as copies may come."""
    lines = ["| an id in the inbox | ids | bytes each | at twice as many | a million, MB |", "|---|--:|--:|--:|--:|"]
    for name in store_claims.STORES:
        number = IDS_OF_DYNAMODB if name == "dynamodb" else IDS
        few, many = (store_claims.bytes_per_id(name, size) for size in (number, 2 * number))
        lines.append(f"| {name} | {number:,} | {few:,.0f} | {many:,.0f} | {many * 1e6 / 2**20:,.0f} |")
    return [*lines, ""]


def start(store: stores.Store, folder: Path, times: int = 5) -> list[str]:
    """How soon a server on a new database is ready, and what `--help` costs: each the median of *times*."""
    ready: list[float] = []
    for _ in range(times):
        with gateway(store.fresh(), folder) as one:
            ready.append(one.ready_s)
    helped = sorted(_cpu_of([sys.executable, "-m", "hooklane", "--help"]) for _ in range(times))
    return [
        f"`hooklane serve` on a new {store.name} database is ready after {sorted(ready)[times // 2]:.2f} s"
        f" ({min(ready):.2f}-{max(ready):.2f}, wanted 1); `hooklane --help` takes {helped[times // 2]:.2f} s of CPU"
        f" ({helped[0]:.2f}-{helped[-1]:.2f}, wanted 0.25).",
        "",
    ]


def _cpu_of(command: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def picture(growth: Mapping[str, Sequence[tuple[int, Weight]]]) -> str:
    """MB by events that are owed: on the disk on the left, in the memory of the server's processes on the right."""
    most = max(number for points in growth.values() for number, _ in points) or 1
    panels: list[tuple[str, Callable[[Weight], int]]] = [
        ("on disk, MB", lambda weight: weight.disk),
        ("memory of the server, MB", lambda weight: weight.memory),
    ]
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 280" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="720" height="280" fill="white"/>')
    for index, (title, of) in enumerate(panels):
        left, top, width, height = 60 + index * 350, 40, 220, 190
        high = max(of(weight) for points in growth.values() for _, weight in points) / 2**20 * 1.1 or 1.0
        parts.append(f'<text x="{left}" y="24" font-weight="bold">{title}</text>')
        for step in range(5):
            y = top + height - height * step / 4
            parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y:.0f}" y2="{y:.0f}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{high * step / 4:,.0f}</text>')
        for color, (name, points) in zip(("#0b6e99", "#b5470b"), growth.items(), strict=False):
            places = [
                (left + width * number / most, top + height - height * of(weight) / 2**20 / high)
                for number, weight in points
            ]
            line = " ".join(f"{x:.0f},{y:.0f}" for x, y in places)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
            parts += [f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="{color}"/>' for x, y in places]
            x, y = places[-1]
            parts.append(f'<text x="{x + 6:.0f}" y="{y + 4:.0f}" fill="{color}">{name}</text>')
        parts.append(f'<text x="{left}" y="{top + height + 18}">0</text>')
        parts.append(f'<text x="{left + width}" y="{top + height + 18}" text-anchor="end">{most:,} owed events</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sizes", description=__doc__)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"), help="both by default")
    parser.add_argument("--only", choices=("events", "ids", "start"), help="all by default")
    asked = parser.parse_args()
    print(f"{described()}, load average {load_average():.1f} before\n")
    growth: Growth = {}
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        for name in asked.store or ["sqlite", "postgres"]:
            store = stack.enter_context(getattr(stores, name)(folder))
            if asked.only in (None, "start"):
                print("\n".join(start(store, folder)), flush=True)
            if asked.only in (None, "events"):
                print("\n".join(table(store, folder, growth)), flush=True)
        if asked.only in (None, "ids"):
            print("\n".join(ids()), flush=True)
    if growth:
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text(picture(growth))
        print(f"the picture is {OUT}")


if __name__ == "__main__":
    main()
