"""`hooklane bench`: how fast is it here, on this machine and this kind of store, and how far from the limit?"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hooklane.cli.bench_load import Load, Seen, Sink, at_once, paced, request
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.output import show, table, talk
from hooklane.config import load
from hooklane.model.size import counted

ANSWERED_WITHIN_S = 30.0
_PARTS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for."""

    seconds: float
    keys: int
    new_keys: bool
    connections: int
    rate: float


def bench(
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="URL",
            help="Measure beside this database: a new one on the same disk or server, removed at the end.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", min=0.5, max=3600, help="How long in all, about.")] = 60.0,
    keys: Annotated[int, typer.Option("--keys", min=1, help="Over how many keys events are spread.")] = 1_000,
    new_keys: Annotated[bool, typer.Option("--new-keys", help="Every event on a key of its own.")] = False,
    connections: Annotated[int, typer.Option("--connections", min=1, max=1_000, help="How many publish at once.")] = 64,
    rate: Annotated[
        float, typer.Option("--rate", min=1, help="Events per second while publish to arrival is measured.")
    ] = 100.0,
    p95_max: Annotated[
        float | None,
        typer.Option("--p95-max", metavar="MS", help="Exit with 7 where publish to arrival has a higher p95."),
    ] = None,
) -> None:
    """Measure publishing and delivering for a minute, with the limit of this machine beside each figure.

    Your data is not touched. A server of its own takes events over HTTP and delivers them, signed and in order, to a
    receiver in this process; each is durable before its 202, and its ack before the next of its key. Load, server and
    receiver share this machine: read the ratios.
    """
    from hooklane.cli.bench_scratch import commits_per_second, scratch  # loads a store, which --help does not need

    settings, _ = load({"db": db}, os.environ)
    with (
        _signals_as_ctrl_c(),
        scratch(settings.db) as address,
        tempfile.TemporaryDirectory(prefix="hooklane-bench-") as folder,
    ):
        talk("one row, one commit: the limit of whatever does not share commits")
        commits = commits_per_second(address, seconds * 0.08)
        with _server(address, Path(folder)) as (port, pid):
            measured = asyncio.run(_measure(port, pid, Plan(seconds, keys, new_keys, connections, rate)))
    found = {"db": address.partition(":")[0], "commits_per_second": round(commits, 1), **measured}
    show(found, lambda: _lines(found))
    _judge(found, p95_max)


@contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """To be told to end, by whatever signal, is no reason to leave the server and its database behind."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _judge(found: dict[str, Any], p95_max: float | None) -> None:
    wrong = {name: found[name] for name in ("refused", "lost", "reordered", "repeated") if found[name]}
    if wrong:
        events = ", ".join(f"{counted(many, 'event')} {name}" for name, many in wrong.items())
        raise CallFailed(events, Exit.UNHEALTHY)
    p95 = found["arrival_ms"]["p95"]
    if p95_max is not None and p95 > p95_max:
        raise CallFailed(f"p95 from publish to arrival was {p95:g} ms, more than {p95_max:g}", Exit.UNHEALTHY)


def _lines(found: dict[str, Any]) -> list[str]:
    commits, limit = found["commits_per_second"], found["requests_per_second"]
    publish, arrival = found["publish_ms"], found["arrival_ms"]
    end_to_end = found["events_per_second"]
    rows = [
        ("end to end, events/s", f"{end_to_end:,.0f}", f"{limit:,.0f} empty requests/s", f"{end_to_end / limit:.3f}"),
        ("the same", f"{end_to_end:,.0f}", f"{commits:,.0f} single commits/s", f"{end_to_end / commits:.2f}"),
        ("answer to a publish, ms", _spread(publish), f"{1000 / commits:.2f} one commit", ""),
        (f"publish to arrival at {found['rate']:g}/s, ms", _spread(arrival), f"{1000 / commits:.2f} one commit", ""),
        ("CPU of the server, µs an event", found["server_cpu_us"], "", ""),
        ("lost, reordered, repeated", f"{found['lost']}, {found['reordered']}, {found['repeated']}", "0, 0, 0", ""),
    ]
    return table(("WHAT", "FOUND", "LIMIT", "RATIO"), rows, right=("RATIO",))


def _spread(ms: dict[str, float]) -> str:
    return f"p50 {ms['p50']:g}  p95 {ms['p95']:g}  p99 {ms['p99']:g}"


async def _measure(port: int, pid: int, plan: Plan) -> dict[str, Any]:
    seen = Seen()
    loop = asyncio.get_running_loop()
    sink = await loop.create_server(lambda: Sink(seen), "127.0.0.1", 0)
    bare = await loop.create_server(lambda: Sink(Seen()), "127.0.0.1", 0)
    sink_port, bare_port = (server.sockets[0].getsockname()[1] for server in (sink, bare))
    await asyncio.to_thread(_post, port, "/api/v1/endpoints", {"url": f"http://127.0.0.1:{sink_port}/"})
    publishes = Publishes(port, plan)

    async def load(what: str, share: float, to: int) -> Load:
        talk(what)
        until, longest = time.monotonic() + plan.seconds * share, plan.seconds * share + ANSWERED_WITHIN_S
        return await asyncio.wait_for(at_once(to, plan.connections, lambda: publishes.until(until)), longest)

    limit = await load("the same requests to a server that only answers: the limit of this load", 0.12, bare_port)
    warm = await load("warming up", 0.1, port)
    await _arrived(seen, warm.accepted)
    cpu_s, before, began = _cpu_s(pid), seen.distinct, time.perf_counter()
    full = await load(f"as fast as {counted(plan.connections, 'connection')} can", 0.4, port)
    await _arrived(seen, warm.accepted + full.accepted)
    delivered, took_s = max(1, seen.distinct - before), time.perf_counter() - began
    cpu_us = None if cpu_s is None else round(((_cpu_s(pid) or cpu_s) - cpu_s) * 1e6 / delivered, 1)
    talk(f"a rate of {plan.rate:g} a second")
    slow = await paced(port, plan.rate, plan.seconds * 0.25, publishes.due)
    accepted = warm.accepted + full.accepted + slow.accepted
    await _arrived(seen, accepted)
    sink.close()
    bare.close()
    return {
        "seconds": plan.seconds,
        "keys": "new" if plan.new_keys else plan.keys,
        "connections": plan.connections,
        "rate": plan.rate,
        "events": accepted,
        "requests_per_second": round(limit.accepted / limit.took_s, 1),
        "events_per_second": round(delivered / took_s, 1),
        "publish_ms": _quantiles(full.answers_ms),
        "arrival_ms": _quantiles(seen.lates_ms),
        "server_cpu_us": cpu_us,
        "refused": warm.refused + full.refused + slow.refused,
        "lost": max(0, accepted - seen.distinct),
        "reordered": seen.reordered,
        "repeated": seen.repeated,
    }


class Publishes:
    """Requests that publish, one after the other."""

    def __init__(self, port: int, plan: Plan) -> None:
        self._port = port
        self._plan = plan
        self._number = 0

    def until(self, end: float) -> bytes | None:
        return None if time.monotonic() >= end else self._next("")

    def due(self, at: float) -> bytes:
        return self._next(f',"at":{at}')

    def _next(self, more: str) -> bytes:
        self._number += 1
        # A prime step walks over all keys, so that neighbours in time are not neighbours in the index.
        key = f"new:{self._number}" if self._plan.new_keys else f"key:{self._number * 7919 % self._plan.keys}"
        body = f'{{"type":"bench.event","key":"{key}","data":{{"order":{self._number}{more}}}}}'
        return request("/api/v1/events", self._port, body.encode())


async def _arrived(seen: Seen, many: int) -> None:
    """Until so many events have arrived, or none has for some seconds: those are lost, or held back."""
    last, since = -1, time.monotonic()
    while seen.distinct < many and time.monotonic() - since < ANSWERED_WITHIN_S:
        if seen.distinct != last:
            last, since = seen.distinct, time.monotonic()
        await asyncio.sleep(0.02)


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values) or [0.0]
    return {name: round(ordered[int(len(ordered) * part)], 2) for name, part in _PARTS.items()}


# --- the server ---


@contextmanager
def _server(db: str, folder: Path) -> Iterator[tuple[int, int]]:
    """`hooklane serve` with its defaults on *db*: its port and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOOKLANE_")}
    env["HOOKLANE_EGRESS_ALLOW"] = "127.0.0.0/8"
    command = [sys.executable, "-m", "hooklane", "serve", "--db", db, "--port", str(port), "--no-auth"]
    with (folder / "log").open("wb") as log:
        # In a folder of its own: no hooklane.toml of yours is meant for it.
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log)
    try:
        _wait_for(port, process, folder / "log")
        yield port, process.pid
    finally:
        process.terminate()
        try:
            process.wait(ANSWERED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + ANSWERED_WITHIN_S
    while time.monotonic() < deadline:
        try:
            _DIRECT.open(f"http://127.0.0.1:{port}/readyz", timeout=5).close()
            return
        except OSError:
            if process.poll() is not None:
                break
        time.sleep(0.05)
    last = (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
    raise CallFailed(f"the server to be measured did not start: {last}")


def _post(port: int, path: str, body: dict[str, Any]) -> None:
    headers = {"content-type": "application/json"}
    call = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), headers)
    _DIRECT.open(call, timeout=ANSWERED_WITHIN_S).close()


def _cpu_s(pid: int) -> float | None:
    """The CPU time of a process and its children so far; None where the system does not say."""
    try:
        total, tick = 0, os.sysconf("SC_CLK_TCK")
        for one in (pid, *_children(pid)):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / tick
    except (OSError, ValueError):
        return None


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]
