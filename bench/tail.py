"""How long from publish to arrival, alone and beside other callers? In turns, so that what drifts drifts for both.

Who publishes, who receives and who is beside them are processes of their own. A p99 is that of all rounds together, so
that enough events stand behind it; the ratios by round say how far to trust it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import stores, tree
from bench.aside import go_ahead
from bench.evenly import Evenly, Plan, evenly
from bench.gateway import Calls, Gateway
from bench.healthy import Arrival, Sink, healthy_sink
from bench.machine import Neighbours, cost_of, described, load_average, scratch
from bench.report import Check, Figure, Goal
from bench.stores import Store

PARTS = (50, 95, 99, 99.9)
WARM_S = 1.0
LATE_S = 60.0


def p(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part / 100))]


@dataclass(slots=True)
class Slice:
    """Some seconds of even load, and who cost what meanwhile."""

    rate: float
    arrival_ms: list[float]
    """From the moment a publish was due until its event arrived."""
    publish_ms: list[float]
    """From the moment a publish was due until its 202."""
    cores: dict[str, float]

    def __str__(self) -> str:
        cores = ", ".join(f"{name} {part:.2f}" for name, part in self.cores.items())
        shown = " ".join(f"{p(self.arrival_ms, part):6.2f}" for part in PARTS)
        return f"{shown} ms, 202 within {p(self.publish_ms, 99):5.2f} (p99); cores: {cores}"


@dataclass(slots=True)
class Course:
    """A server with a receiver and one who publishes evenly."""

    one: Gateway
    sink: Sink
    load: Evenly
    pids: dict[str, int] = field(default_factory=dict)
    """Processes whose cost is told, besides."""
    name: str = "s"
    """Ids of events begin with it."""
    slices: int = 0

    def add_endpoints(self, tenant: str, types: Sequence[str]) -> None:
        """One at the receiver for each of *types*."""
        calls = Calls(self.one.port, tenant)
        for number, each in enumerate(types):
            calls.post("/api/v1/endpoints", {"url": f"http://127.0.0.1:{self.sink.port}/{number}", "types": [each]})

    def slice(self, per_second: float, seconds: float) -> Slice:
        """Publish evenly, until the last event has arrived."""
        self.publish(per_second, WARM_S)  # connections that went while nothing was sent are made anew
        pids = {"server": self.one.pid, **self.pids, "sink": self.sink.pid, "load": self.load.pid}
        before = {name: cost_of(pid).total_s for name, pid in pids.items()}
        watch, began = Neighbours(*pids.values()), time.monotonic()
        found = self.publish(per_second, seconds)
        took = time.monotonic() - began
        found.cores = {name: (cost_of(pid).total_s - before[name]) / took for name, pid in pids.items()}
        found.cores["others"] = watch.cores()
        return found

    def publish(self, per_second: float, seconds: float) -> Slice:
        self.slices += 1
        published = self.load.publish(f"{self.name}{self.slices}", per_second, seconds)
        if refused := [one for one in published if one.status != 202]:
            raise SystemExit(f"{len(refused)} of {len(published)} publishes were refused: {refused[0]}")
        due = {one.id: one.due for one in published}
        took: dict[str, float] = {}
        late = time.monotonic() + LATE_S
        while len(took) < len(due):
            took |= {one.event_id: 1000 * (one.at - due[one.event_id]) for one in self.sink.look()}
            if time.monotonic() > late:
                raise SystemExit(f"{len(due) - len(took)} events did not arrive within {LATE_S:g} s")
            time.sleep(0.05)
        return Slice(per_second, list(took.values()), [1000 * (one.answered - one.due) for one in published], {})


@contextmanager
def course(one: Gateway, store: Store, folder: Path, plan: Plan) -> Iterator[Course]:
    """The processes end with the block, and what arrived was right or the run ends."""
    with healthy_sink(folder / "arrivals") as sink, evenly(one.port, plan) as load:
        yield Course(one, sink, load, store.parts)
        sink.look()
        check(sink.arrivals)


def check(arrivals: Sequence[Arrival]) -> None:
    """Every event arrived once, and each key in its order. That none is lost is seen with each slice."""
    times = Counter(one.event_id for one in arrivals)
    if twice := [event_id for event_id, many in times.items() if many > 1]:
        raise SystemExit(f"{len(twice)} events arrived twice, {twice[0]} among them")
    last: dict[str, int] = {}
    for one in arrivals:
        if one.seq != last.get(one.key, 0) + 1:
            raise SystemExit(f"{one.key} went from {last.get(one.key, 0)} to {one.seq}")
        last[one.key] = one.seq


@dataclass(slots=True)
class Tail:
    """What was found, alone and beside somebody, round by round."""

    store: str
    beside_whom: str
    alone: list[Slice] = field(default_factory=list)
    beside: list[Slice] = field(default_factory=list)

    def ratio(self, part: float = 99) -> float:
        return p(_all(self.beside), part) / p(_all(self.alone), part)

    def ratios(self, part: float = 99) -> list[float]:
        """The same of each round."""
        return [p(b.arrival_ms, part) / p(a.arrival_ms, part) for a, b in zip(self.alone, self.beside, strict=True)]

    def __str__(self) -> str:
        lines = [f"{self.store}, publish to arrival in ms:   {'  '.join(f'p{part:g}' for part in PARTS)}"]
        for name, slices in (("alone", self.alone), (self.beside_whom, self.beside)):
            values = _all(slices)
            shown = "  ".join(f"{p(values, part):.2f}" for part in PARTS)
            others = max(one.cores["others"] for one in slices)
            lines.append(f"  {name}: {shown}   ({len(values):,} events, others up to {others:.1f} cores)")
        each = ", ".join(f"{one:.2f}" for one in self.ratios())
        lines.append(f"  p99 {self.ratio():.2f} x that alone (by round {each}), p50 {self.ratio(50):.2f} x")
        return "\n".join(lines)

    def figures(self) -> list[Figure]:
        return [
            Figure(
                scenario="publish to arrival",
                variant=f"{self.store}, {name}",
                rates=[one.rate for one in slices],
                elsewhere=[one.cores["others"] for one in slices],
                check=Check(lost=0, reordered=0, duplicates=0),  # or the run had ended
                notes={f"p{part:g} ms": p(_all(slices), part) for part in PARTS},
            )
            for name, slices in (("alone", self.alone), (self.beside_whom, self.beside))
        ]

    def goal(self, times_max: float) -> Goal:
        by_round = self.ratios()
        return Goal(
            what=f"p99 from publish to arrival beside {self.beside_whom} on {self.store}",
            wanted=f"<= {times_max} x that without",
            found=f"{self.ratio():.2f} (by round {min(by_round):.2f}-{max(by_round):.2f})",
            is_reached=self.ratio() <= times_max,
        )


def _all(slices: Sequence[Slice]) -> list[float]:
    return [value for one in slices for value in one.arrival_ms]


def in_turns(
    tail: Tail,
    run: Course,
    beside: Callable[[], AbstractContextManager[object]],
    *,
    rate: float,
    seconds: float,
    rounds: int,
) -> None:
    """Measure alone, then inside of *beside*, and both again."""
    for number in range(rounds):
        tail.alone.append(run.slice(rate, seconds))
        say(f"  {number + 1} alone   {tail.alone[-1]}")
        with beside():
            tail.beside.append(run.slice(rate, seconds))
        say(f"  {number + 1} beside  {tail.beside[-1]}")


def add_ahead(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ahead", action="store_true", help="before others on a machine that is not quiet; for root")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def command(
    name: str, about: str | None, times_max: float, measure: Callable[..., Tail], options: Mapping[str, float]
) -> None:
    """The command line of such a benchmark: *measure* on each store, with *options* as they are or were asked for."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=about)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"), help="both by default")
    parser.add_argument("--interpreted", action="store_true", help="measure the plain source, not what is compiled")
    add_ahead(parser)
    for option, default in options.items():
        parser.add_argument(f"--{option.replace('_', '-')}", type=type(default), default=default)
    asked = vars(parser.parse_args())
    names = asked.pop("store") or ["sqlite", "postgres"]
    if asked.pop("ahead"):
        go_ahead()
    build = tree.choose(interpreted=asked.pop("interpreted"))
    print(f"{described()}, {build}, load average {load_average():.1f} before", flush=True)
    is_reached = True
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        for each in names:
            store: Store = stack.enter_context(getattr(stores, each)(folder))
            mine = folder / each
            mine.mkdir(exist_ok=True)
            found = measure(store, mine, **asked)
            goal = found.goal(times_max)
            print(f"{found}\n  {'reached' if goal.is_reached else 'MISSED'}: {goal.wanted}", flush=True)
            is_reached &= goal.is_reached
    sys.exit(0 if is_reached else "a goal was not reached")
