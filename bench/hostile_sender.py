"""Do healthy endpoints notice 1,000 hostile ones? Through the whole sender: a real server, real peers, real attempts.

`python -m bench.hostile_sender [--hostile 1000] [--healthy 40] [--rate 250] [--rounds 3] [--seconds 8]`

`hooklane serve` runs on SQLite with its shipped defaults. Events for healthy endpoints are published one by one over
HTTP at a fixed rate, in rounds that alternate: alone, and beside hostile endpoints that never answer, drip, and flood
with headers, bodies and interim answers, and are kept owed with new events. In between the hostile ones are paused.
A delivery is measured from the moment its publish was due until it arrives at the healthy endpoint, which is another
process; beside it stand the publish alone (until its 202) and what the attempt log says that the attempt took.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.gateway import Gateway, gateway
from bench.healthy import Sink, healthy_sink
from bench.hostile import BEHAVIOURS, Peers, hostile_peers
from bench.hostile_figures import Found, Round, check, p, report
from bench.machine import Neighbours, cost_of, rss_kib, scratch, wait_for_quiet
from bench.open_loop import Client, all_of, at_rate

KEYS = 400
BATCHES_PER_S = 20
WARM_S = 1.0
DB = "hooklane.db"


@dataclass(frozen=True, slots=True)
class Wanted:
    hostile: int
    healthy: int
    rate: float
    hostile_rate: float
    rounds: int
    seconds: float
    timeout_ms: int
    patience: float
    kinds: Sequence[str]


class Run:
    """The processes of one run, and the rounds so far."""

    def __init__(self, wanted: Wanted, one: Gateway, sink: Sink, peers: Peers) -> None:
        self.wanted = wanted
        self.one = one
        self.sink = sink
        self.peers = peers
        self.rounds: list[Round] = []
        self.rss_kib_before = 0
        self.held_s_max = 0.0
        self._client = Client(one.port)
        self._hostile_ids: list[str] = []
        self._owed = 0
        self._slices = 0

    async def go(self) -> None:
        try:
            await self._add_endpoints()
            await self._healthy_load(Round("warm"), 3 * WARM_S)
            for number in range(self.wanted.rounds):
                wait_for_quiet(self.wanted.patience)
                await self._quiet_round()
                if number == 0:
                    self.rss_kib_before = rss_kib(self.one.pid)
                await self._hostile_round()
        finally:
            self._client.close()

    async def _add_endpoints(self) -> None:
        """Hostile ones are paused from the start, so that they exist in the quiet rounds as well."""
        wanted = self.wanted
        say(f"adding {wanted.healthy} healthy and {wanted.hostile} hostile endpoints")
        for number in range(wanted.healthy):
            body = {"url": f"http://127.0.0.1:{self.sink.port}/{number}", "types": [f"order.{number}"]}
            await self._client.call("POST", "/api/v1/endpoints", body)
        bodies = [
            {
                "url": f"http://127.0.0.1:{self.peers.port}{wanted.kinds[number % len(wanted.kinds)]}",
                "types": ["hostile.*"],
                "timeout_ms": wanted.timeout_ms,
            }
            for number in range(wanted.hostile)
        ]
        made = await all_of([lambda body=body: self._client.call("POST", "/api/v1/endpoints", body) for body in bodies])  # type: ignore[misc]
        self._hostile_ids = [one["id"] for one in made]
        await self._turn_hostile("pause")

    async def _turn_hostile(self, how: str) -> None:
        paths = [f"/api/v1/endpoints/{one}/{how}" for one in self._hostile_ids]
        await all_of([lambda path=path: self._client.call("POST", path) for path in paths])  # type: ignore[misc]

    async def _quiet_round(self) -> None:
        self.rounds.append(one := Round("quiet"))
        await self._measure(one)
        self._say(one)

    async def _hostile_round(self) -> None:
        """All hostile endpoints get something first; then it is measured while they get more."""
        await self._turn_hostile("resume")
        wanted, one = self.wanted, Round("hostile")
        lead_in_s = 2.0
        self.peers.watched()
        await at_rate(BATCHES_PER_S, time.monotonic() + lead_in_s, self._owe(wanted.hostile / lead_in_s))
        async with asyncio.TaskGroup() as work:
            until = time.monotonic() + WARM_S + wanted.seconds
            work.create_task(at_rate(BATCHES_PER_S, until, self._owe(wanted.hostile_rate)))
            work.create_task(self._watch_memory(one, until))
            await self._measure(one)
        await self._turn_hostile("pause")
        watched = self.peers.watched()
        one.open_max, one.requests = watched.open_max, watched.requests
        paused_at, held_s_max = time.monotonic(), watched.held_s_max
        while watched.open:
            await asyncio.sleep(0.1)
            watched = self.peers.watched()
            held_s_max = max(held_s_max, watched.held_s_max)
            if time.monotonic() - paused_at > 2 * wanted.timeout_ms / 1000 + 5:
                raise SystemExit(f"{watched.open} hostile requests are still open long after their deadline")
        self.held_s_max = max(self.held_s_max, held_s_max)
        self.rounds.append(one)
        self._say(one)

    def _owe(self, per_second: float):  # type: ignore[no-untyped-def]
        """Publish a few events to the hostile endpoints whose turn it is, each under a key of its own."""
        many = max(1, round(per_second / BATCHES_PER_S))

        async def publish(number: int, due: float) -> None:
            first, self._owed = self._owed, self._owed + many
            events = [
                {
                    "type": "hostile.event",
                    "key": f"k{n}",
                    "data": {"n": n},
                    "endpoints": [self._hostile_ids[n % len(self._hostile_ids)]],
                }
                for n in range(first, first + many)
            ]
            await self._client.call("POST", "/api/v1/events/batch", {"events": events})

        return publish

    async def _measure(self, one: Round) -> None:
        await self._healthy_load(Round("warm"), WARM_S)  # connections that went while nothing was sent are made anew
        await self._healthy_load(one, self.wanted.seconds)

    async def _healthy_load(self, one: Round, seconds: float) -> None:
        pids = {"sender": self.one.pid, "hostile peers": self.peers.pid, "sink": self.sink.pid}
        before = {name: cost_of(pid).total_s for name, pid in pids.items()}
        neighbours, own_before, began = Neighbours(os.getpid()), time.process_time(), time.monotonic()
        self._slices += 1
        name = f"{one.name}{self._slices}"

        async def publish(number: int, due: float) -> None:
            event_id = f"{name}-{number}"
            one.due_at[event_id] = due
            body = {
                "id": event_id,
                "type": f"order.{number % self.wanted.healthy}",
                "key": f"key-{number % KEYS}",
                "data": {"n": number, "text": "x" * 200},
            }
            await self._client.call("POST", "/api/v1/events", body)
            one.publish_ms.append((time.monotonic() - due) * 1000)

        await at_rate(self.wanted.rate, began + seconds, publish)
        took = time.monotonic() - began
        one.cores = {name: (cost_of(pid).total_s - before[name]) / took for name, pid in pids.items()}
        one.cores["load"] = (time.process_time() - own_before) / took
        one.cores["others"] = neighbours.cores()
        await asyncio.sleep(0.5)  # the last of them arrive

    async def _watch_memory(self, one: Round, until: float) -> None:
        while time.monotonic() < until:
            one.rss_kib_max = max(one.rss_kib_max, rss_kib(self.one.pid))
            await asyncio.sleep(0.05)

    def _say(self, one: Round) -> None:
        cores = ", ".join(f"{name} {part:.2f}" for name, part in one.cores.items())
        hostile = f"; {one.requests} hostile attempts, {one.open_max} open at once" if one.requests else ""
        say(f"  {one.name}: 202 within {p(one.publish_ms, 99):.1f} ms (p99){hostile}; cores: {cores}")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def run(folder: Path, wanted: Wanted) -> Found:
    """A server in *folder*, and what became of its healthy deliveries; SystemExit where one was lost or overtaken."""
    with (
        hostile_peers() as peers,
        healthy_sink(folder / "arrivals") as sink,
        gateway(f"sqlite:///{folder / DB}", folder) as one,
    ):
        rounds = Run(wanted, one, sink, peers)
        uvloop.run(rounds.go())
    arrivals = sink.arrivals()
    check(arrivals, rounds.rounds)
    at = {arrival.event_id: arrival.at for arrival in arrivals}
    for each in rounds.rounds:
        each.arrival_ms = [(at[event_id] - due) * 1000 for event_id, due in each.due_at.items()]
    return Found(rounds.rounds, wanted.hostile, wanted.timeout_ms, rounds.rss_kib_before, rounds.held_s_max)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--hostile", type=int, default=1_000)
    options.add_argument("--healthy", type=int, default=40)
    options.add_argument("--rate", type=float, default=250.0, help="healthy events a second")
    options.add_argument("--hostile-rate", type=float, default=50.0, help="new events a second for hostile endpoints")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=8.0)
    options.add_argument("--timeout-ms", type=int, default=10_000, help="of the hostile endpoints")
    options.add_argument("--patience", type=float, default=0.0, help="seconds to wait for a quiet machine, each round")
    options.add_argument("--kind", action="append", choices=sorted(BEHAVIOURS), help="all by default")
    asked = vars(options.parse_args())
    kinds = asked.pop("kind") or list(BEHAVIOURS)
    with scratch() as folder:
        found = run(folder, Wanted(**asked, kinds=kinds))
        if not report(found, folder / DB):
            sys.exit("a goal was not reached")


if __name__ == "__main__":
    main()
