"""kill -9 of the whole server on SQLite, again and again under load, and every copy accounted for.

`python -m tests.faults.crash.kill_loop --kills 250` does it by hand and prints a report as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import time
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.faults.crash.serving import Nursery, Site
from tests.faults.crash.traffic import Client, Load, Receiver
from tests.support.leftovers import scratch_folder

from hooklane.testing.arrivals import tally

CLIENTS, KEYS_EACH = 8, 4


@dataclass
class Report:
    """What a run has seen."""

    seed: int
    kills: int
    events: int = 0
    lost: int = 0
    reordered: int = 0
    copies: int = 0
    unexplained: int = 0
    """Copies whose first success was durable at the kill, or that were sent twice in one life."""
    violations: list[str] = field(default_factory=list)
    integrity: str = ""
    took_s: float = 0.0


def heads(db: Path) -> dict[str, int]:
    """The durable head of each lane: everything before it is settled."""
    with closing(sqlite3.connect(db)) as conn:
        rows = conn.execute("SELECT t.key, l.head FROM hooklane_lane_tail t JOIN hooklane_lane l USING (lane_id)")
        return dict(rows.fetchall())


async def run(kills: int, *, seed: int) -> Report:
    report, began = Report(seed, kills), time.monotonic()
    chance = random.Random(seed)
    nursery = await Nursery.open()
    with scratch_folder(in_memory=True) as folder:  # a kill takes nothing from the kernel: no disk need be waited for
        site = Site(nursery, f"sqlite:///{folder}/hooklane.db", folder)
        try:
            # Two replies in a hundred are failures and one never comes: retries are under way at the kills too.
            async with Receiver(lambda _key, _seq: chance.choices((200, 503, 0), (97, 2, 1))[0]) as receiver:
                await _run(report, site, receiver, folder / "hooklane.db", chance)
        finally:
            await site.close()
            await nursery.close()
    report.took_s = round(time.monotonic() - began, 1)
    return report


async def _run(report: Report, site: Site, receiver: Receiver, db: Path, chance: random.Random) -> None:
    server = await site.serve()
    await server.ready()
    client = Client(site.port)
    options = {"url": receiver.url, "backoff_ms": 20, "backoff_cap_ms": 200}
    status, answer = await client.call("POST", "/api/v1/endpoints", options)
    assert status == 201, answer
    client.close()
    load = Load([site.port], clients=CLIENTS, keys_each=KEYS_EACH)
    settled: list[dict[str, int]] = []
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(load.run())
        for _ in range(report.kills):
            taken = len(receiver.log)
            await receiver.until(lambda so_far=taken: len(receiver.log) > so_far)  # type: ignore[misc] # it delivers
            await asyncio.sleep(chance.uniform(0.0, 0.06))
            await server.kill()
            settled.append(heads(db))
            await receiver.next_life()
            server = await site.serve()
        load.stop()
        await loading
    await receiver.has(load.accepted, within_s=60)
    await server.stop()
    seen = tally(load.accepted, receiver.arrivals(), {})
    report.events, report.lost, report.reordered = load.events, seen.lost, seen.reordered
    report.copies = seen.duplicates
    report.violations = [str(one) for one in seen.violations]
    report.unexplained = _unexplained(receiver, settled)
    with closing(sqlite3.connect(db)) as conn:
        report.integrity = conn.execute("PRAGMA integrity_check").fetchone()[0]


def _unexplained(receiver: Receiver, settled: list[dict[str, int]]) -> int:
    """Explained is a copy in another life, whose predecessor died before the ack of the first copy was durable."""
    lives_of_first: dict[tuple[str, int], int] = {}
    many = 0
    for one in receiver.log:
        if one.status == 200:
            first = lives_of_first.setdefault((one.key, one.seq), one.life)
            many += first != one.life and one.seq < settled[one.life - 1].get(one.key, 1)
    return many + sum(lives_of_first[one.key, one.seq] == one.life for one in receiver.copies())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(json.dumps(asdict(asyncio.run(run(asked.kills, seed=asked.seed)))))


if __name__ == "__main__":
    main()
