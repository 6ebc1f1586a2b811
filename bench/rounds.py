"""Rounds: every contender runs a slice, with the limit measured right before and after it, and then all again.

Neighbours on the machine come and go; what stands side by side in time can be compared all the same.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import sink as sinks
from bench import wrk
from bench.gateway import Gateway
from bench.limits import requests_per_second
from bench.machine import Neighbours, cost_of, wait_for_quiet
from bench.nginx import Nginx
from bench.report import Check, Figure, median
from bench.stores import Store


@dataclass(frozen=True, slots=True)
class Bench:
    """What every scenario is given."""

    folder: Path
    stores: Sequence[Store]
    limit: Nginx
    seconds: float
    rounds: int
    patience_s: float
    """How long to wait, before each slice, for others to leave the machine alone."""
    say: Callable[[str], None]


@dataclass(slots=True)
class Contender:
    """A server under load, and everything that was measured of it."""

    name: str
    gateway: Gateway
    sink: Nginx | None = None
    store: Store | None = None
    keys: int = 1_000
    names: str = "-"
    per_new_key: int = 0
    """Where not 0: every key is a new one, and gets so many events."""
    connections: int = wrk.CONNECTIONS
    owed_max: int = 0
    """So many deliveries stay owed whatever happens: those of a dead endpoint."""
    rates: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    cpu_us: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    limit_us: list[float] = field(default_factory=list)
    elsewhere: list[float] = field(default_factory=list)
    answers: int = 0

    def warm(self) -> None:
        load = self._load(1)
        self.answers += load.answers - load.refused
        self.gateway.drain(self.owed_max)

    def run(self, seconds: float) -> None:
        """A slice: publish for *seconds*, until the last of it is delivered and its ack durable."""
        before = self._costs()
        watch = Neighbours(*self._pids())
        accepted = self.gateway.ledger()["accepted"]
        began = time.perf_counter()
        load = self._load(seconds)
        ledger, asked = self.gateway.drain_counted(self.owed_max)
        took = time.perf_counter() - began
        self.elsewhere.append(watch.cores(load.cpu_s))
        events = ledger["accepted"] - accepted if self.sink is not None else load.answers
        if load.refused:
            raise SystemExit(f"{self.name}: {load.refused} of {load.answers} publishes were refused")
        self.answers += load.answers
        # Those that wrk cut off at its end were published too; where nothing is delivered, wrk's own time counts.
        self.rates.append(events / took if self.sink is not None else load.rate)
        costs = self._costs()
        self.gateway.ledger()
        again = self._costs()
        for part, cost in costs.items():
            # Our own questions count every lane of the store: what they cost is not the events'.
            ours = (again[part] - cost) * (asked + 1)
            self.cpu_us[part].append(max(0.0, cost - before[part] - ours) * 1e6 / events)
        self.cpu_us["load"].append(load.cpu_s * 1e6 / events)
        self.p50_ms.append(load.p50_ms)
        self.p99_ms.append(load.p99_ms)

    def _load(self, seconds: float) -> wrk.Load:
        once = f"{len(self.rates)}-{time.monotonic_ns()}-"
        return wrk.run(
            self.gateway.port,
            seconds,
            keys=self.keys,
            names="-" if self.names == "-" else f"{self.names}{once}",
            fresh=once if self.per_new_key else "-",
            per_key=self.per_new_key or 1,
            connections=self.connections,
        )

    @property
    def own_us(self) -> float:
        """What an event of the last slice cost server and database."""
        return sum(us[-1] for part, us in self.cpu_us.items() if part in ("gateway", "database"))

    def _costs(self) -> dict[str, float]:
        costs = {"gateway": self.gateway.cost.total_s}
        if self.store is not None and self.store.pids:
            costs["database"] = cost_of(*self.store.pids).total_s
        if self.sink is not None:
            costs["sink"] = self.sink.cost.total_s
        return costs

    def _pids(self) -> list[int]:
        store = () if self.store is None else self.store.pids
        return [self.gateway.pid, *store, *(() if self.sink is None else (self.sink.pid,))]

    def check(self) -> Check | None:
        """What the sink saw against what the ledger says was accepted, and the ledger against what wrk was told."""
        if self.sink is None:
            return None
        self.sink.flush()
        seen = sinks.read(self.sink.log)
        accepted = self.gateway.ledger()["accepted"] - self.owed_max
        lost = max(0, accepted - seen.distinct) + max(0, self.answers - accepted)
        return Check(lost=lost, reordered=seen.reordered, duplicates=seen.duplicates)

    def figure(self, scenario: str) -> Figure:
        return Figure(
            scenario=scenario,
            variant=self.name,
            rates=self.rates,
            limits=self.limits,
            cpu_us={part: median(us) for part, us in self.cpu_us.items()},
            elsewhere=self.elsewhere,
            check=self.check(),
            notes={
                "publish p50 ms": median(self.p50_ms),
                "publish p99 ms": median(self.p99_ms),
                "CPU of a request of H over CPU of an event": median(self.limit_us)
                / sum(median(us) for us in self.cpu_us.values()),
            },
        )


def interleave(bench: Bench, contenders: Sequence[Contender]) -> None:
    for contender in contenders:
        contender.warm()
    after, connections = None, 0
    for number in range(bench.rounds):
        for contender in contenders:
            # What was measured right after a slice stands right before the next one too.
            if after is None or connections != contender.connections or bench.patience_s:
                wait_for_quiet(bench.patience_s)
                connections = contender.connections
                after = requests_per_second(bench.limit, keys=contender.keys, connections=connections)
            before = after
            contender.run(bench.seconds)
            after = requests_per_second(bench.limit, keys=contender.keys, connections=connections)
            limit = (before.rate + after.rate) / 2
            contender.limits.append(limit)
            contender.limit_us.append((before.cpu_us + after.cpu_us) / 2)
            rate, others = contender.rates[-1], contender.elsewhere[-1]
            bench.say(
                f"  round {number + 1}, {contender.name}: {rate:,.0f}/s, {rate / limit:.3f} of H {limit:,.0f},"
                f" {contender.own_us:.0f} µs, others {others:.1f} cores"
            )


@contextmanager
def stage(bench: Bench, name: str) -> Iterator[Path]:
    """A folder for one scenario."""
    bench.say(name)
    folder = bench.folder / name.replace(" ", "-").replace(",", "")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder
