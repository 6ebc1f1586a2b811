"""Failovers of a PostgreSQL with a synchronous standby, under load: what was acknowledged arrives, in order.

`python -m tests.faults.crash.failover --rounds 20` runs them by hand and prints figures; a few are in test_failover.py.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.crash.serving import Nursery, Site
from tests.faults.crash.traffic import Client, Load, Receiver
from tests.support.failover import Pair, ask, synchronous_pair
from tests.support.pace import scaled_s
from tests.support.processes import free_port

from hooklane.testing.arrivals import Tally, tally

CLIENTS, KEYS_EACH = 6, 10
COMMIT_WAIT_S = 1.0
"""Shorter than the 30 s of a server in use, so that commits are given up while the standby is frozen."""
FROZEN_S = 2.5
CANCEL = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
LOST = "SELECT count(*) FROM hooklane.event"


@dataclass
class Report:
    """What a run has seen."""

    events: int = 0
    seen: Tally | None = None
    back_s: list[float] = field(default_factory=list)
    """From each promotion until an event arrived that was published after it."""
    cancelled: int = 0
    """Commits whose wait an operator has cancelled: visible on the primary, and lost with it."""
    lost_unacknowledged: int = 0


async def run(rounds: int, *, frozen_every: int, lease_ms: int | None = None, seed: int = 1) -> Report:
    """Fail over *rounds* times, each *frozen_every*-th time with a standby that had been frozen for a while."""
    report = Report()
    chance = random.Random(seed)
    with synchronous_pair() as pair, tempfile.TemporaryDirectory() as folder:
        nursery = await Nursery.open()
        site = Site(nursery, pair.url(), Path(folder))
        try:
            async with Receiver(lambda _key, _seq: chance.choices((200, 503), (95, 5))[0]) as receiver:
                await _run(report, rounds, frozen_every, lease_ms, chance, pair, site, receiver)
        finally:
            await site.close()
            await nursery.close()
    return report


async def _run(
    report: Report,
    rounds: int,
    frozen_every: int,
    lease_ms: int | None,
    chance: random.Random,
    pair: Pair,
    site: Site,
    receiver: Receiver,
) -> None:
    ports = [free_port(), free_port()]
    for port, role in zip(ports, ("api,deliver", "api"), strict=True):
        server = await site.serve(port=port, role=role, lease_ms=lease_ms, commit_wait_s=COMMIT_WAIT_S)
        await server.ready()
    client = Client(ports[0])
    options = {"backoff_ms": 20, "backoff_cap_ms": 200, "attempts_max": 1_000}
    status, answer = await client.call("POST", "/api/v1/endpoints", {"url": receiver.url, **options})
    assert status == 201, answer
    client.close()
    load = Load(ports, clients=CLIENTS, keys_each=KEYS_EACH)
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(load.run())
        for number in range(1, rounds + 1):
            await some_events(load, chance.randrange(50, 150))
            if number % frozen_every == 0:
                report.cancelled += await freeze_a_while(pair, chance)
            before = _stored(pair)
            await asyncio.to_thread(pair.fail_over)
            report.lost_unacknowledged += max(0, before - _stored(pair))
            promoted = time.monotonic()
            await asyncio.to_thread(pair.come_back)
            arrived = len(receiver.log)
            await some_events(load, 20)
            await receiver.until(lambda arrived=arrived: len(receiver.log) > arrived, within_s=120)
            report.back_s.append(time.monotonic() - promoted)
        load.stop()
        await loading
    await receiver.has(load.accepted, within_s=120)
    report.events = load.events
    report.seen = tally(load.accepted, receiver.arrivals(), {})


async def freeze_a_while(pair: Pair, chance: random.Random) -> int:
    """The standby confirms nothing for a while. What waits for it is cancelled by an operator now and then, or shown by
    the primary when it comes back from a crash. How many waits were cancelled."""
    cancelled = 0
    pair.freeze()
    if chance.random() < 0.5:
        await asyncio.sleep(0.5)
        await asyncio.to_thread(pair.crash_the_primary)
    ends_at = time.monotonic() + FROZEN_S
    while time.monotonic() < ends_at:
        await asyncio.sleep(0.3)
        if chance.random() < 0.5:
            cancelled += len(await asyncio.to_thread(ask, pair.primary, CANCEL))
    return cancelled


async def some_events(load: Load, many: int) -> None:
    wanted = load.events + many
    async with asyncio.timeout(scaled_s(120)):
        while load.events < wanted:  # noqa: ASYNC110 - a load tells nobody
            await asyncio.sleep(0.02)


def _stored(pair: Pair) -> int:
    return int(str(ask(pair.primary, LOST)[0][0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--frozen-every", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    report = asyncio.run(run(asked.rounds, frozen_every=asked.frozen_every, seed=asked.seed))
    assert report.seen is not None
    print(
        f"{asked.rounds} failovers, {report.events} acknowledged events, {report.seen.lost} lost,"
        f" {report.seen.reordered} reordered, {report.seen.duplicates} copies, violations: {report.seen.violations};"
        f" {report.cancelled} waits cancelled by an operator, {report.lost_unacknowledged} events lost of which nobody"
        f" was told; delivering again after {sorted(report.back_s)[len(report.back_s) // 2]:.1f} s (median),"
        f" {max(report.back_s):.1f} s (worst)"
    )


if __name__ == "__main__":
    main()
