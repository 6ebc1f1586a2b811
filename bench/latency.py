"""`python -m bench.latency`: from publish to arrival at 100, 1,000 and 3,000 events a second; open loop.

Also beside what a server does or holds by itself: while it prunes what is old, with a million events owed to an
endpoint that is down, and, on PostgreSQL, while it folds the acks of a worker on another host that delivers 10,000
events a second. Each round starts the server anew on the same databases. On PostgreSQL acks are folded every two
seconds, in all of these.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

from bench import folding, many_events, stores, tree
from bench.aside import aside, go_ahead
from bench.evenly import Plan, evenly
from bench.gateway import gateway
from bench.healthy import Sink, healthy_sink
from bench.machine import described, free_port, load_average, scratch
from bench.stores import Store
from bench.tail import PARTS, Course, Slice, Tail, add_ahead, check, p, say
from hooklane.model.endpoint import EndpointState

RATES = {100.0: 100.0, 1_000.0: 15.0, 3_000.0: 8.0}
"""Events a second, and for how many seconds: each has ten thousand arrivals behind its p99, or a hundred seconds."""
OLD_MS = 60 * 86_400_000
BESIDE = {"pruning": 200_000, "backlog": 1_000_000, "folding": 200_000}
"""What else is going on, and of how many events it is by default."""
LANES = 10_000
TIMES_MAX = 1.5


class Place:
    """A database, and a server on it while it is measured."""

    def __init__(self, store: Store, folder: Path, sink: Sink, name: str) -> None:
        self._store, self._folder, self._sink, self._name = store, folder, sink, name
        self.db = store.fresh()
        with gateway(self.db, folder) as one:
            one.add_endpoint(f"http://127.0.0.1:{sink.port}/", types=["order.*"])

    def slices(self, rates: dict[float, float], beside: AbstractContextManager[object] | None = None) -> list[Slice]:
        plan = Plan(key=self._name)
        with gateway(self.db, self._folder) as one, evenly(one.port, plan) as load, beside or nullcontext():
            run = Course(one, self._sink, load, self._store.parts, name=f"{self._name}{time.monotonic_ns()}-")
            return [run.slice(rate, seconds) for rate, seconds in rates.items()]


def alone(store: Store, folder: Path, sink: Sink) -> None:
    place = Place(store, folder, sink, "alone")
    print(f"{store.name}, publish to arrival in ms:   {'  '.join(f'p{part:g}' for part in PARTS)}")
    for one in place.slices(RATES):
        shown = "  ".join(f"{p(one.arrival_ms, part):.2f}" for part in PARTS)
        cores = ", ".join(f"{name} {part:.2f}" for name, part in one.cores.items())
        print(f"  {one.rate:,.0f} events/s: {shown}   ({len(one.arrival_ms):,} events; cores: {cores})", flush=True)


def beside(store: Store, folder: Path, sink: Sink, what: str, events: int, rounds: int, seconds: float) -> Tail:
    rates = {250.0: seconds}
    quiet, other = Place(store, folder, sink, f"beside-{what}-nothing"), Place(store, folder, sink, f"beside-{what}")
    found = Tail(store.name, f"{what} of {events:,} events")
    if what == "backlog":
        say(f"  {events:,} events are owed to an endpoint that is down")
        stores.park(other.db, f"http://127.0.0.1:{free_port()}/", events, LANES)
    for number in range(rounds):
        found.alone += quiet.slices(rates)
        say(f"  {number + 1} alone   {found.alone[-1]}")
        acks: AbstractContextManager[object] | None = None
        if what != "backlog":
            other = Place(store, folder, sink, f"beside-{what}-{number}")
        if what == "pruning":
            many_events.fill(other.db, events, LANES, int(time.time() * 1000) - OLD_MS)
        elif what == "folding":
            endpoint = stores.park(other.db, "http://127.0.0.1:9/", events, LANES, EndpointState.PAUSED)
            acks = aside(folding.play, other.db, endpoint, events // LANES)
        found.beside += other.slices(rates, acks)
        say(f"  {number + 1} beside  {found.beside[-1]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"), help="both by default")
    parser.add_argument("--beside", choices=tuple(BESIDE), help="beside this; by default alone")
    parser.add_argument("--events", type=int, help="200,000 to prune or to fold, or a million owed, by default")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each slice, beside something")
    parser.add_argument("--interpreted", action="store_true", help="measure the plain source, not what is compiled")
    add_ahead(parser)
    asked = parser.parse_args()
    if asked.ahead:
        go_ahead()
    build = tree.choose(interpreted=asked.interpreted)
    print(f"{described()}, {build}, load average {load_average():.1f} before", flush=True)
    is_reached = True
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        every = ["postgres"] if asked.beside == "folding" else ["sqlite", "postgres"]
        for name in asked.store or every:
            store = stack.enter_context(getattr(stores, name)(folder))
            with healthy_sink(folder / f"arrivals-{name}") as sink:
                if asked.beside is None:
                    alone(store, folder, sink)
                else:
                    events = asked.events or BESIDE[asked.beside]
                    found = beside(store, folder, sink, asked.beside, events, asked.rounds, asked.seconds)
                    goal = found.goal(TIMES_MAX)
                    print(f"{found}\n  {'reached' if goal.is_reached else 'MISSED'}: {goal.wanted}", flush=True)
                    is_reached &= goal.is_reached
                sink.look()
                check(sink.arrivals)
    sys.exit(0 if is_reached else "a goal was not reached")


if __name__ == "__main__":
    main()
