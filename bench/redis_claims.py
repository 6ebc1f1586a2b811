"""How many events a second can one Python process claim on Redis, beside the limits of the same run?

`python -m bench.redis_claims [--url redis://…] [--seconds 2] [--rounds 3]`

A claim is the whole thing: the row with its payload, lease, fence and indexes, deduplicated, in one script. The limits
do less: `SET NX` in a pipeline has no fence and no payload; one script of a hundred `SET NX` is the most Lua can do.
Rounds interleave the variants. Without --url a Valkey of its own is started (memory only, fsync off).
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

import redis

from hooklane.model.clock import Instant, wall_now
from hooklane.model.inbox import NewHandling, NewRow, RowId
from hooklane.model.message import Message, Status
from hooklane.receiver.drivers import AsyncDriver, Driver
from hooklane.receiver.steps import transaction
from hooklane.store.inbox import Flow
from hooklane.store.open_inbox import open_inbox
from hooklane.store.redis.store import RedisInbox

BATCH = 100
IN_FLIGHT = 32
THREADS = 2
BATCHED_MIN, SINGLE_MIN = 60_000, 5_000
BODY = b'{"id":"evt_01hzy3v5k0x8q2m4n6p8r0s2t4","type":"order.created","data":"%b"}' % (b"x" * 200)
NX = "for i = 1, #KEYS do redis.call('SET', KEYS[i], 1, 'NX', 'PX', 60000) end return 1"
_numbers = count()


def row(*, claimed: bool) -> NewRow:
    now = wall_now()
    handling = NewHandling(handler="book", due_at=now)
    if claimed:
        lease = Instant(now + 60_000)
        handling = NewHandling(handler="book", status=Status.IN_PROGRESS, due_at=lease, attempts=1, fence=1)
    event_id = f"evt_{next(_numbers):026d}"
    message = Message(source="shop", event_id=event_id, type="order.created", body=BODY, fingerprint=b"f" * 32)
    return NewRow(message=message, received_at=now, handlings=(handling,))


class Bench:
    def __init__(self, url: str, seconds: float) -> None:
        self.client = redis.Redis.from_url(url)
        store = open_inbox(url)
        assert isinstance(store, RedisInbox)
        self.store = store
        self.seconds = seconds
        self.driver = Driver(store)
        self.nx = self.client.register_script(NX)
        self.arrived: list[list[NewRow]] = []

    def prepare(self) -> None:
        """Events arrive, and a backlog stands: what is not measured."""
        self.client.flushdb()
        self.arrived = [[row(claimed=True) for _ in range(BATCH)] for _ in range(int(300 * self.seconds))]
        for _ in range(200):
            self.worker()

    def server_cpu_s(self) -> float:
        told = self.client.info("cpu")
        return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])

    def rate(self, step: Callable[[], int]) -> float:
        """Things done a second, by the clock."""
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < self.seconds:
            done += step()
        return done / (time.perf_counter() - began)

    def pipelined(self) -> int:
        with self.client.pipeline(transaction=False) as pipeline:
            for _ in range(BATCH):
                pipeline.set(f"k{next(_numbers)}", 1, nx=True, px=60_000)
            pipeline.execute()
        return BATCH

    def scripted(self) -> int:
        self.nx(keys=[f"k{next(_numbers)}" for _ in range(BATCH)])
        return BATCH

    def batched(self) -> float:
        """Claims of events that have arrived, 100 a call; a second thread packs while the server is at work."""
        rows = self.arrived or [[row(claimed=True) for _ in range(BATCH)] for _ in range(int(300 * self.seconds))]
        self.arrived = []
        began = time.perf_counter()
        with ThreadPoolExecutor(THREADS) as threads:
            assert all(threads.map(self._batch, rows))
        return len(rows) * BATCH / (time.perf_counter() - began)

    def _batch(self, rows: list[NewRow]) -> bool:
        return None not in Driver(self.store).run(transaction(self.store.insert(rows)))

    def worker(self) -> int:
        self.driver.run(transaction(self.store.insert([row(claimed=False) for _ in range(BATCH)])))
        return BATCH

    def worker_claims(self) -> float:
        """What a worker takes from a backlog, 100 at a time."""
        began, done = time.perf_counter(), 0
        while True:
            now = wall_now()
            claim = self.store.claim([("shop", "book")], expired=False, now=now, lease_ms=60_000, limit=BATCH)
            taken = self.driver.run(transaction(claim))
            done += len(taken)
            if len(taken) < BATCH:
                return done / (time.perf_counter() - began)

    def single(self) -> float:
        """One claim a call, so many calls in flight, in one event loop."""
        return asyncio.run(self._single())

    async def _single(self) -> float:
        done, until = 0, 0.0

        async def work() -> None:
            nonlocal done
            while time.perf_counter() < until:
                await AsyncDriver(self.store).run(transaction(self.store.insert([row(claimed=True)])))
                done += 1

        for warm in (True, False):
            done, began = 0, time.perf_counter()
            until = began + (0.2 if warm else self.seconds)
            await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
            took = time.perf_counter() - began
        await self.store.aclose()
        return done / took

    def bytes_per_id(self, *, completed: bool, payload: bool = True, rows: int = 20_000) -> float:
        """Memory that Redis uses for each id that it remembers."""
        self.client.execute_command("FLUSHDB", "SYNC")
        self._batch([row(claimed=True)])
        before = int(self.client.info("memory")["used_memory_dataset"])
        for _ in range(rows // BATCH):
            ids = self.driver.run(transaction(self.store.insert([row(claimed=True) for _ in range(BATCH)])))
            if completed:
                self.driver.run(transaction(self._complete(ids)))
        if not payload:
            purge = self.store.purge(before=Instant(wall_now() + 60_000), source=None, limit=rows + 1)
            self.driver.run(transaction(purge))
        return (int(self.client.info("memory")["used_memory_dataset"]) - before) / rows

    def _complete(self, ids: list[RowId | None]) -> Flow[None]:
        for id in ids:
            assert id is not None
            assert (yield from self.store.complete(id, "book", 1, Status.COMPLETED, wall_now()))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def server(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    from tests.support.valkey import valkey_server

    with valkey_server() as started:
        yield started.address.url()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with server(options.url) as url:
        bench = Bench(url, options.seconds)
        variants: dict[str, Callable[[], float]] = {
            "SET NX, pipelined by 100": lambda: bench.rate(bench.pipelined),
            "100 SET NX in one script": lambda: bench.rate(bench.scripted),
            "claims, 100 a call": bench.batched,
            "claims of a worker, 100 a call": bench.worker_claims,
            f"claims, one a call, {IN_FLIGHT} in flight": bench.single,
        }
        rates: dict[str, list[float]] = {name: [] for name in variants}
        costs: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
        for _ in range(options.rounds):
            for name, measure in variants.items():
                bench.prepare()
                ours, theirs = _cpu_s(), bench.server_cpu_s()
                began = time.perf_counter()
                rate = measure()
                number = rate * (time.perf_counter() - began)
                rates[name].append(rate)
                costs[name].append(((_cpu_s() - ours) / number * 1e6, (bench.server_cpu_s() - theirs) / number * 1e6))
        limit = max(rates["100 SET NX in one script"])
        for name, found in rates.items():
            client, server_ = (min(cost[side] for cost in costs[name]) for side in (0, 1))
            best, idle = max(found), 1e6 / max(client, server_)
            print(f"{name:34} {statistics.median(found):>9,.0f}/s  best {best:>9,.0f}/s  {best / limit:.2f} of limit")
            print(f"{'':34} CPU µs: {client:.1f} here, {server_:.1f} in Redis: {idle:,.0f}/s on two idle cores")
        for completed, payload in ((False, True), (True, True), (True, False)):
            size = bench.bytes_per_id(completed=completed, payload=payload)
            what = "completed" if completed else "claimed"
            kept = f"a payload of {len(BODY)} B" if payload else "no payload"
            print(f"memory of an id, {what}: {size:,.0f} B with {kept}")
        batched, single = max(rates["claims, 100 a call"]), max(rates[f"claims, one a call, {IN_FLIGHT} in flight"])
        print(f"goals: batched {batched:,.0f} of {BATCHED_MIN:,}; single {single:,.0f} of {SINGLE_MIN:,}")


if __name__ == "__main__":
    main()
