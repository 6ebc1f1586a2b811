"""Where does the CPU time of an event go? `python -m bench.parts [--store sqlite]`: samples of the server, by part.

perf takes a sample of every process of the server 499 times a second, with the calls that led there. A sample belongs
to the innermost function of ours that it stands in: what the kernel does for a write counts for the function that
writes. What of a part is interpreted is not seen by perf and counts for the compiled function that called it. Only
shares come from the samples; the sum is the CPU time of the processes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import stores, tree, wrk
from bench.gateway import Gateway, gateway
from bench.machine import Neighbours, children, cost_of, described, load_average, require_tools, scratch
from bench.nginx import sink_server

SAMPLES_PER_S = 499
STACK_BYTES = 16_384
WARM_S = 2.0

# The first pattern that fits a function names its part. A function's name is that of its module, and then its own.
PARTS: tuple[tuple[str, str], ...] = (
    ("door", r"ingest___|publish_request___|reply___|entry___|draft___|ids___|json_body|server___|publish_limits___"),
    (
        "publish: to the store and back",
        r"writer_protocol___.*(publish|draft|answer)|publish_in_one___|group___|literals___",
    ),
    (
        "ack: to the store and back",
        r"writer_protocol___|acks___|relay____ask|postgres___outbox___commit|__pyx_.*asyncpg",
    ),
    ("group commit", r"publisher___|tasks___|line___"),
    ("signing", r"signed_request___|signing___|wire___"),
    ("transport", r"transport___|pool___|connection___|reader___|wheel___|unread_bytes___|exchange___|response___"),
    (
        "news and engine",
        r"engine___|heads___|outcomes___Outcomes|owned_lane___|window___|worker___|endpoint_queue___|sending___",
    ),
    ("figures of deliveries", r"tally___|live_stream___|deliveries___|relay___Relay____tell"),
    ("news and engine", r"relay___"),
    ("writer: publish", r"sqlite___outbox___publish|fanout___|names___"),
    ("writer: acks", r"outbox___outcomes___"),
    ("writer: rows", r"rows___"),
    ("writer: commit, messages", r"writer_process___"),
    ("event loop, reads", r"."),
)
_PARTS = [(part, re.compile(rf"(CPyDef_|CPyPy_)?\w*({pattern})" if pattern != "." else ".")) for part, pattern in PARTS]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of load: a column of the table."""

    name: str
    connections: int = 192
    names: bool = False
    per_new_key: int = 0


KINDS = (
    Kind("192 connections"),
    Kind("64 connections", connections=64),
    Kind("Idempotency-Key", names=True),
    Kind("new keys", per_new_key=1),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts", description=__doc__)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"), help="both by default")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each kind of load")
    parser.add_argument("--functions", type=int, default=0, help="name so many functions of each column, too")
    asked = parser.parse_args()
    require_tools()
    if shutil.which("perf") is None:
        sys.exit("bench.parts needs perf: apt-get install linux-perf")
    build = tree.choose()
    print(f"{described()}, {build}, load average {load_average():.1f} before\n")
    for name in asked.store or ["sqlite", "postgres"]:
        with ExitStack() as stack:
            folder = stack.enter_context(scratch())
            store = stack.enter_context(getattr(stores, name)(folder))
            sink = stack.enter_context(sink_server(folder / "sink"))
            one = stack.enter_context(gateway(store.fresh(), folder))
            one.add_endpoint(f"http://127.0.0.1:{sink.port}/")
            found = {kind: _measure(one, store, kind, asked.seconds, folder, asked.functions) for kind in KINDS}
        print("\n".join(_table(name, found)), flush=True)


@dataclass(frozen=True, slots=True)
class Found:
    parts: Mapping[str, float]
    """CPU µs of an event, by part."""
    rate: float
    others: float


def _measure(one: Gateway, store: stores.Store, kind: Kind, seconds: float, folder: Path, functions: int) -> Found:
    _load(one, kind, WARM_S)
    one.drain()
    pids = [one.pid, *children(one.pid)]
    data = folder / "perf.data"
    command = ["perf", "record", "-q", "-F", str(SAMPLES_PER_S), "-e", "cpu-clock", "-o", str(data)]
    command += ["--call-graph", f"dwarf,{STACK_BYTES}", "-p", ",".join(map(str, pids))]
    perf = subprocess.Popen(command)
    time.sleep(0.5)  # it has no way to say that it has begun
    server, database = cost_of(*pids).total_s, cost_of(*store.pids).total_s
    watch = Neighbours(*pids, *store.pids)
    load = _load(one, kind, seconds)
    others, events = watch.cores(load.cpu_s), load.answers
    # Before it is asked what is still owed: that looks at every lane, and is not the events'.
    server, database = cost_of(*pids).total_s - server, cost_of(*store.pids).total_s - database
    perf.terminate()
    perf.wait(30)
    samples = list(_stacks(data))
    counted = Counter(_part_of(stack) for stack in samples)
    if functions:
        _tell_functions(kind, samples, server * 1e6 / events, functions)
    total = sum(counted.values())
    parts = {part: server * 1e6 / events * many / total for part, many in counted.items()}
    if store.pids:
        parts["database"] = database * 1e6 / events
    return Found(parts, load.rate, others)


def _load(one: Gateway, kind: Kind, seconds: float) -> wrk.Load:
    once = f"{time.monotonic_ns()}-"
    load = wrk.run(
        one.port,
        seconds,
        names=f"n{once}" if kind.names else "-",
        fresh=once if kind.per_new_key else "-",
        per_key=kind.per_new_key or 1,
        connections=kind.connections,
    )
    if load.refused:
        raise SystemExit(f"{load.refused} of {load.answers} publishes were refused")
    return load


def _stacks(data: Path) -> Iterator[list[str]]:
    """The functions of each sample, the innermost first."""
    command = ["perf", "script", "-i", str(data), "-F", "comm,ip,sym,dso", "--no-inline"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for sample in said.split("\n\n"):
        _, *lines = sample.strip().split("\n") if sample.strip() else [""]
        if lines:
            yield [line.split(None, 1)[1] for line in lines if len(line.split(None, 1)) > 1]


def _part_of(stack: Sequence[str]) -> str:
    for function in stack:
        if not function.startswith(("CPyDef_", "CPyPy_", "__pyx_")) or "uvloop" in function:
            continue
        return next(part for part, pattern in _PARTS if pattern.match(function))
    return "event loop, reads"


def _tell_functions(kind: Kind, samples: Iterable[Sequence[str]], us: float, most: int) -> None:
    inside: Counter[str] = Counter()
    stacks = list(samples)
    for stack in stacks:
        inside.update({function.split(" ")[0] for function in stack if "CPyDef_" in function or "__pyx_" in function})
    print(f"{kind.name}, {us:.0f} µs: functions, with what they call", file=sys.stderr)
    for function, many in inside.most_common(most):
        print(f"  {us * many / len(stacks):6.2f} µs  {function}", file=sys.stderr)


def _table(store: str, found: Mapping[Kind, Found]) -> list[str]:
    order = list(dict.fromkeys([*(part for part, _ in PARTS), "database"]))
    rows = [part for part in order if any(part in one.parts for one in found.values())]
    return [
        f"| {store}, CPU µs of an event | {' | '.join(kind.name for kind in found)} |",
        f"|---|{'--:|' * len(found)}",
        *(f"| {part} | {' | '.join(f'{one.parts.get(part, 0.0):.1f}' for one in found.values())} |" for part in rows),
        f"| **all** | {' | '.join(f'{sum(one.parts.values()):.0f}' for one in found.values())} |",
        f"| events/s meanwhile | {' | '.join(f'{one.rate:,.0f}' for one in found.values())} |",
        f"| cores of others meanwhile | {' | '.join(f'{one.others:.1f}' for one in found.values())} |",
        "",
    ]


if __name__ == "__main__":
    main()
