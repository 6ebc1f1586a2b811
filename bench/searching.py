"""`python -m bench.searching [--store sqlite] [--events 200000]`: what do searches cost deliveries?

Events are published at an even rate and timed until they arrive at a receiver, in turns: while nothing else happens,
and while other processes search through all that was delivered before, by every filter, without a pause.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import many_events, stores, tree
from bench.gateway import Gateway, gateway
from bench.machine import described, load_average, scratch
from bench.open_loop import Client, at_rate

RATE, SEARCHERS, LANES, RATIO_MAX = 50, 2, 10_000, 2.0
SEARCHES = (
    "events?state=delivered&type=nothing",
    "events?state=dead",
    "events?key=old:none",
    "events?endpoint=ep_other",
    "events?type=order.none",
    "events?before=2001-01-01T00:00:00Z",
    "events?type=order.3&key=old:33&state=retrying&after=2001-01-01T00:00:00Z",
    "lanes?q=none",
    "lanes?state=active&endpoint=ep_other",
    "dead-letters?endpoint=ep_other",
    "audit",
    "overview",
    "inbox?status=dead",
)


@dataclass(slots=True)
class Receiver:
    """Answers every request at once, and knows when each event came."""

    came: dict[str, float] = field(default_factory=dict)
    port: int = 0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                now = time.monotonic()
                fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                await reader.readexactly(int(fields.get("content-length", 0)))
                self.came.setdefault(fields["webhook-id"], now)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()  # the sender is done, or the bench is


def search(port: int, first: int, took: multiprocessing.Queue[list[float]], stop: multiprocessing.Event) -> None:  # type: ignore[valid-type]
    """Ask for page after page, one filter after the other, until told to stop."""
    number, mine = first, []
    while not stop.is_set():  # type: ignore[attr-defined]
        cursor = ""
        for _ in range(5):
            url = f"http://127.0.0.1:{port}/api/v1/{SEARCHES[number % len(SEARCHES)]}"
            began = time.monotonic()
            try:
                with urllib.request.urlopen(
                    f"{url}{'&' if '?' in url else '?'}cursor={cursor}" if cursor else url
                ) as answer:
                    cursor = json.loads(answer.read()).get("next") or ""
            except urllib.error.HTTPError as error:
                error.close()
                cursor = ""
            if not mine:
                took.put([])  # it is at work
            mine.append(time.monotonic() - began)
            if not cursor:
                break
        number += 1
    took.put(mine)


@contextmanager
def searching(port: int, took: list[float]) -> Iterator[None]:
    """As long as the block lasts; how long each call took is added to *took*."""
    context = multiprocessing.get_context("spawn")
    stop, answers = context.Event(), context.Queue()
    processes = [
        context.Process(target=search, args=(port, number * 5, answers, stop), daemon=True)
        for number in range(SEARCHERS)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        answers.get(timeout=120)
    try:
        yield
    finally:
        stop.set()
        for _ in processes:
            took += answers.get(timeout=60)
        for process in processes:
            process.join(30)


async def slice_of(one: Gateway, receiver: Receiver, name: str, seconds: float) -> list[float]:
    """Milliseconds from when each publish was due until its event arrived."""
    client, due_at = Client(one.port), {}

    async def publish(number: int, due: float) -> None:
        event_id = f"{name}-{number}"
        due_at[event_id] = due
        await client.call(
            "POST", "/api/v1/events", {"type": "order.new", "key": f"new:{number % 100}", "data": {}, "id": event_id}
        )

    await at_rate(RATE, time.monotonic() + seconds, publish)
    async with asyncio.timeout(60):
        while not due_at.keys() <= receiver.came.keys():  # noqa: ASYNC110 - the receiver tells nobody
            await asyncio.sleep(0.02)
    client.close()
    return [1000 * (receiver.came[event_id] - due) for event_id, due in due_at.items()]


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds from when a publish was due until its event arrived, and what each search took."""

    quiet: list[float]
    beside: list[float]
    searches: list[float]

    @property
    def ratio(self) -> float:
        return percentile(self.beside, 0.99) / percentile(self.quiet, 0.99)


async def measure(store: stores.Store, folder: Path, events: int, seconds: float, rounds: int) -> Latencies:
    db = store.fresh()
    with gateway(db, folder):
        pass  # makes the tables
    await asyncio.to_thread(many_events.fill, db, events, LANES, int(time.time() * 1000))
    receiver = Receiver()
    server = await receiver.start()
    quiet: list[float] = []
    beside: list[float] = []
    took: list[float] = []
    with gateway(db, folder) as one:
        await asyncio.to_thread(one.add_endpoint, f"http://127.0.0.1:{receiver.port}/", types=["order.new"])
        await slice_of(one, receiver, "warm", 1.0)
        for number in range(rounds):
            quiet += await slice_of(one, receiver, f"quiet{number}", seconds)
            with searching(one.port, took):
                beside += await slice_of(one, receiver, f"beside{number}", seconds)
    server.close()
    return Latencies(quiet, beside, [1000 * s for s in took])


def show(found: Latencies, store: stores.Store, events: int) -> bool:
    """Print what was found; whether it is as wanted."""
    print(f"{store.name}, {events:,} events, {RATE}/s, load average {load_average():.1f}")
    for name, values in (
        ("quiet", found.quiet),
        ("beside searches", found.beside),
        ("one call of a search", found.searches),
    ):
        shown = ", ".join(f"p{int(100 * share)} {percentile(values, share):.1f} ms" for share in (0.5, 0.95, 0.99))
        print(f"  {name}: {shown} ({len(values):,})")
    print(f"  p99 beside searches is {found.ratio:.2f} of quiet, wanted below {RATIO_MAX}", flush=True)
    return found.ratio < RATIO_MAX


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.searching", description=__doc__)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"), help="both by default")
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each slice")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    tree.choose(interpreted=True)
    print(described())
    reached = []
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        for name in asked.store or ["sqlite", "postgres"]:
            store = stack.enter_context(getattr(stores, name)(folder))
            found = asyncio.run(measure(store, folder, asked.events, asked.seconds, asked.rounds))
            reached.append(show(found, store, asked.events))
    if not all(reached):
        raise SystemExit("searches slow deliveries down by more than is wanted")


if __name__ == "__main__":
    main()
