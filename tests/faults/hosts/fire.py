"""A cluster under fire: load goes on while links, processes, hosts, clocks and the primary fail, one after the other.

`python -m tests.faults.hosts.fire --failovers 2 --links 6` is what `run_apart` starts; it prints a report as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psycopg
from tests.faults.crash.failover import freeze_a_while, some_events
from tests.faults.crash.traffic import Load, Receiver
from tests.faults.hosts.cluster import (
    ANNEX,
    APIS,
    DATABASES,
    ENDPOINTS,
    LEASE_MS,
    POOLER,
    PRODUCERS,
    WORKERS,
    Cluster,
    cluster,
)
from tests.faults.hosts.operators import Operators
from tests.support.pace import scaled_s

from hooklane.testing.arrivals import tally

CLIENTS, KEYS_EACH, REST_S = 6, 10, 0.01
ANSWERED_WITHIN_S = 4.0
COPIES_OF_A_LANE = 2
"""Of one fault: one is under way in each lane, and a link may be away for longer than an attempt's deadline."""
WITHIN_S = 180.0
LINK_FAULTS: tuple[tuple[str, dict[str, float | bool]], ...] = (
    ("cut", {"cut": True}),
    ("one way", {"cut": True, "one_way": True}),
    ("slow", {"delay_s": 0.3}),
    ("lossy", {"loss": 0.3}),
    ("narrow", {"bytes_per_s": 30_000.0}),
)
CLOCK_JUMPS_S = (-3_600, 3_600, 10 * 365 * 86_400)
RECORDED_TWICE = """
    SELECT lane_id, seq FROM hooklane.attempt WHERE outcome = 'delivered' GROUP BY 1, 2 HAVING count(*) > 1
"""


@dataclass
class Report:
    """What a run has done and seen."""

    seed: int
    faults: dict[str, int] = field(default_factory=dict)
    events: int = 0
    deliveries: int = 0
    lost: int = 0
    reordered: int = 0
    copies: int = 0
    violations: list[str] = field(default_factory=list)
    balanced: bool = False
    """Whether the ledger equation held at the end."""
    back_s: list[float] = field(default_factory=list)
    """From the end of each fault until events that were published after it had arrived."""
    cancelled: int = 0
    acts: dict[str, int] = field(default_factory=dict)
    """What operators have done meanwhile, with success."""
    skipped: int = 0
    took_s: float = 0.0

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.reordered or self.violations) and self.balanced


class Fire:
    """Chooses by a seed what fails next."""

    def __init__(self, cluster: Cluster, report: Report, chance: random.Random) -> None:
        self._cluster = cluster
        self._report = report
        self._chance = chance
        self._fault = 0

    async def failover(self) -> None:
        await self._cluster.fail_over(rewound=self._chance.random() < 0.5)

    async def frozen_failover(self) -> None:
        self._report.cancelled += await freeze_a_while(self._cluster.pair, self._chance)
        await self.failover()

    async def link(self) -> None:
        """One link misbehaves for a while, in one of the five ways, which take turns."""
        here, there = self._chance.choice(self._links())
        if self._chance.random() < 0.5:
            here, there = there, here
        _, fault = LINK_FAULTS[self._fault % len(LINK_FAULTS)]
        self._fault += 1
        self._cluster.network.link(here, there, **fault)  # type: ignore[arg-type]
        await asyncio.sleep(self._chance.uniform(0.5, 2.5))
        self._cluster.network.heal(here, there)

    def _links(self) -> list[tuple[str, str]]:
        stores = DATABASES if self._cluster.pooler is None else (POOLER,)
        found = [(server, store) for server in (*APIS, *WORKERS) for store in stores]
        found += [(worker, endpoint) for worker in WORKERS for endpoint in ENDPOINTS]
        found += [(PRODUCERS, api) for api in APIS]
        found += [DATABASES] * 2
        return found if self._cluster.pooler is None else found + [(POOLER, database) for database in DATABASES]

    async def kill(self) -> None:
        await self._cluster.restart(self._chance.choice((*APIS, *WORKERS)))

    async def freeze(self) -> None:
        """A server stands still for longer than its lease."""
        server = self._cluster.servers[self._chance.choice((*APIS, *WORKERS))]
        server.freeze()
        await asyncio.sleep(LEASE_MS / 1_000 + self._chance.uniform(0.2, 1.0))
        server.thaw()

    async def isolate(self) -> None:
        """A whole host is out of the network for longer than its lease, and its processes go on."""
        name = self._chance.choice((*APIS, *WORKERS))
        self._cluster.network.isolate(name)
        await asyncio.sleep(LEASE_MS / 1_000 + self._chance.uniform(0.2, 1.0))
        self._cluster.network.join(name)

    async def disk(self) -> None:
        """The disk of the primary or of the standby is full for a while: PostgreSQL may end, and is started again."""
        server = self._chance.choice((self._cluster.pair.primary, self._cluster.pair.standby))
        with self._cluster.full_disk(server):
            await asyncio.sleep(self._chance.uniform(1.0, 3.0))

    async def clock(self) -> None:
        """The wall clock of a host is set, and set right again later."""
        clock = self._cluster.clocks[self._chance.choice((*APIS, *WORKERS, *DATABASES))]
        clock.set(self._chance.choice(CLOCK_JUMPS_S))
        await asyncio.sleep(self._chance.uniform(0.5, 1.5))
        clock.set(0)


async def run(
    seed: int, wanted: dict[str, int], *, major: int | None = None, pooled: bool = False, operated: bool = False
) -> Report:
    """So many faults of each kind, in an order that the seed decides, under load all the time."""
    began = time.monotonic()
    report, chance = Report(seed, wanted), random.Random(seed)
    with scratch() as folder:
        async with cluster(folder, major=major, pooled=pooled) as made, AsyncExitStack() as stack:
            await _run(report, made, chance, stack, operated)
    report.took_s = round(time.monotonic() - began, 1)
    return report


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for logs, which are told when something goes wrong."""
    with tempfile.TemporaryDirectory(prefix="hooklane-hosts-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PgBouncer is another user
        try:
            yield folder
        except BaseException:
            for log in sorted(folder.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-1_500:]}", file=sys.stderr)
            raise


async def _run(report: Report, made: Cluster, chance: random.Random, stack: AsyncExitStack, operated: bool) -> None:
    for name in ENDPOINTS:
        made.receivers[name] = await _receiver(made, name, stack, lambda: chance.choices((200, 503, 0), (96, 3, 1))[0])
        await _endpoint(made, made.receivers[name], attempts_max=1_000)
    operators = None
    if operated:
        annex = await _receiver(made, ANNEX, stack, lambda: chance.choices((200, 503), (80, 20))[0])
        passing = await _receiver(made, ANNEX, stack, lambda: 200)
        operators = Operators(made, await _endpoint(made, annex, attempts_max=2), annex, passing, chance)
    fire = Fire(made, report, chance)
    acts: list[Callable[[], Awaitable[None]]] = [
        getattr(fire, kind) for kind, many in report.faults.items() for _ in range(many)
    ]
    chance.shuffle(acts)
    load = Load(made.places, clients=CLIENTS, keys_each=KEYS_EACH, rest_s=REST_S, answered_within_s=ANSWERED_WITHIN_S)
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(load.run())
        working = group.create_task(operators.run()) if operators is not None else None
        await some_events(load, 50)
        for act in acts:
            await act()
            ended = time.monotonic()
            await made.keep_alive()
            await _goes_on(load, made)
            report.back_s.append(round(time.monotonic() - ended, 2))
        load.stop()
        await loading
        if operators is not None and working is not None:
            operators.stop()
            await working
    for receiver in made.receivers.values():
        await receiver.has(load.accepted, within_s=WITHIN_S)
    report.events = load.events
    for name, receiver in made.receivers.items():
        _judge(report, name, load, receiver, {})
    if operators is not None:
        await operators.put_in_order()
        report.acts = dict(operators.done)
        given_up = operators.skipped()
        report.skipped = sum(map(len, given_up.values()))
        _judge(report, ANNEX, load, annex, given_up)
    most = COPIES_OF_A_LANE * CLIENTS * KEYS_EACH * len(ENDPOINTS) * (len(acts) + 1)
    if report.copies > most:
        report.violations.append(f"{report.copies} copies are more than {len(acts)} faults explain ({most})")
    await _books(report, made, load)


def _judge(report: Report, name: str, load: Load, receiver: Receiver, skipped: dict[str, set[int]]) -> None:
    seen = tally(load.accepted, receiver.arrivals(), skipped)
    report.deliveries += len(receiver.log)
    report.lost += seen.lost
    report.reordered += seen.reordered
    report.copies += seen.duplicates
    report.violations += [f"{name}: {one}" for one in seen.violations]


async def _receiver(made: Cluster, host: str, stack: AsyncExitStack, answer: Callable[[], int]) -> Receiver:
    receiver = Receiver(lambda _key, _seq: answer(), address=made.network[host].address)
    return await stack.enter_async_context(receiver)


async def _endpoint(made: Cluster, receiver: Receiver, *, attempts_max: int) -> str:
    rules = {"backoff_ms": 20, "backoff_cap_ms": 200, "attempts_max": attempts_max, "timeout_ms": 2_000}
    made_one = await made.call("POST", "endpoints", {"url": receiver.url, "types": ["order.*"], **rules})
    return str(made_one["id"])


async def _goes_on(load: Load, made: Cluster) -> None:
    """Events that are published now are accepted, and arrive at every endpoint."""
    before = {name: sum(map(len, receiver.taken.values())) for name, receiver in made.receivers.items()}
    await some_events(load, 20)
    for name, receiver in made.receivers.items():
        await receiver.until(
            lambda at=before[name], to=receiver: sum(map(len, to.taken.values())) > at + 10,  # type: ignore[misc]
            within_s=WITHIN_S,
        )


async def _books(report: Report, made: Cluster, load: Load) -> None:
    """The ledger equation per endpoint, once everything that was taken is recorded too."""
    async with asyncio.timeout(scaled_s(WITHIN_S)):
        while True:
            ledger = await made.call("GET", "ledger")
            owed = [
                line["counts"][state]
                for line in ledger["items"]
                for state in ("queued", "in_flight", "retrying", "dead")
            ]
            if not any(owed):
                break
            await asyncio.sleep(0.05)
    # The load repeats until it has an answer, so every endpoint of its own was given each event once.
    full = [line for line in ledger["items"] if line["accepted"] == load.events]
    report.balanced = bool(ledger["balanced"]) and len(full) == len(ENDPOINTS) + bool(report.acts)
    with psycopg.connect(made.pair.primary.address.url()) as connection:
        for lane, seq in connection.execute(RECORDED_TWICE).fetchall():
            report.violations.append(f"lane {lane}: {seq} was sent again though its success was durable")


KINDS = ("failover", "frozen_failover", "link", "kill", "freeze", "isolate", "clock", "disk")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--major", type=int)
    parser.add_argument("--pooled", action="store_true", help="PgBouncer stands before the database")
    parser.add_argument("--operated", action="store_true", help="people replay, skip, pause, delete … meanwhile")
    for kind in KINDS:
        parser.add_argument(f"--{kind.replace('_', '-')}", type=int, default=0, help="how many")
    asked = parser.parse_args()
    wanted = {kind: getattr(asked, kind) for kind in KINDS if getattr(asked, kind)}
    report = asyncio.run(run(asked.seed, wanted, major=asked.major, pooled=asked.pooled, operated=asked.operated))
    print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
