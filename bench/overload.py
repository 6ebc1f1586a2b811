"""`python -m bench.overload`: ten times as much as there is room for, for a minute; what gets through, and what then?

Two kinds. *quota*: a tenant tries ten times the events a second that its quota lets in: how quickly is it refused, and
does it get what it may? *clients*: ten times as many clients as fill the server, each of which asks again as soon as it
is answered: does the server still do as much as with a tenth of them? Beside both a tenant publishes evenly, and right
after the flood it is measured second by second until it is served as before. Told is also the server's memory.

How long refusals take is asked by a process of its own, which publishes evenly beside the flood, as the same tenant:
who floods is busy with that, and reads answers late.
"""

from __future__ import annotations

import argparse
import contextlib
import select
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from bench import stores, tree
from bench.aside import aside, go_ahead
from bench.evenly import Evenly, Lines, Plan, evenly, publish
from bench.gateway import gateway
from bench.machine import described, load_average, rss_mb, scratch
from bench.report import Goal
from bench.stores import Store
from bench.tail import Course, add_ahead, course, p, say

QUOTA = 500
CLIENTS = 128
TIMES = 10
RATE = 100.0
RSS_MB_MAX, DRIFT_MAX, GOODPUT_MIN, REFUSED_MS_MAX, NORMAL_S_MAX, NORMAL_TIMES = 256, 0.05, 0.95, 50.0, 60.0, 1.5


@dataclass(slots=True)
class Flood:
    """What those who flood were answered: how often each status."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def goodput(self) -> float:
        return self.statuses[202] / self.seconds


def play_quota(pipe: Connection, port: int) -> Flood:
    """Open loop: ten times the quota, evenly."""
    plan, began = Plan(topic="flood", keys=1_000, tenant="loud"), time.monotonic()
    pipe.send("begun")
    found = publish(Lines(port), plan, f"f{time.monotonic_ns()}", TIMES * QUOTA, 10**9, pipe.poll)
    flood = Flood(seconds=time.monotonic() - began)
    flood.statuses.update(one.status for one in found)
    return flood


def play_clients(pipe: Connection, port: int, many: int) -> Flood:
    """Closed loop: each client asks again as soon as it is answered."""
    ready, socks = select.epoll(), dict[int, socket.socket]()
    number, flood = 0, Flood()
    for _ in range(many):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        socks[sock.fileno()] = sock
        ready.register(sock.fileno(), select.EPOLLIN)
    pipe.send("begun")
    began = time.monotonic()
    for sock in socks.values():
        number += 1
        sock.send(_request(number))
    while not pipe.poll():
        for fd, _ in ready.poll(1.0):
            answer = socks[fd].recv(65_536)
            if not answer:
                raise SystemExit("the server closed a connection of the flood")
            flood.statuses[int(answer[9:12])] += 1
            number += 1
            socks[fd].send(_request(number))
    flood.seconds = time.monotonic() - began
    for sock in socks.values():
        sock.close()
    return flood


def _request(number: int) -> bytes:
    body = b'{"type":"flood.0","key":"k%d","data":{"order":%d,"total":"19.90"}}' % (number % 1_000, number)
    head = b"POST /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nHooklane-Tenant: loud\r\n"
    return b"%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


class Refusals(threading.Thread):
    """How long the tenant that floods waits for a refusal, from the moment a publish was due; in milliseconds."""

    def __init__(self, load: Evenly, seconds: float) -> None:
        super().__init__(daemon=True)
        self._load, self._seconds = load, seconds
        self.ms: list[float] = []

    def run(self) -> None:
        published = self._load.publish(f"r{time.monotonic_ns()}", RATE, self._seconds)
        self.ms = [1000 * (one.answered - one.due) for one in published if one.status != 202]


class Memory(threading.Thread):
    """What the server and its processes hold, once a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._over = pid, threading.Event()
        self.mb: list[float] = []

    def run(self) -> None:
        with contextlib.suppress(OSError):  # the server has ended
            while not self._over.wait(1.0):
                self.mb.append(rss_mb(self._pid))

    def end(self) -> None:
        self._over.set()
        self.join()

    @property
    def drift(self) -> float:
        """How much more the last quarter of the time has at its peak than the second one."""
        part = max(1, len(self.mb) // 4)
        return max(self.mb[-part:]) / max(self.mb[part : 2 * part]) - 1


def measure(store: Store, folder: Path, kind: str, seconds: float) -> list[Goal]:
    with (
        gateway(store.fresh(), folder) as one,
        course(one, store, folder, Plan(tenant="quiet")) as run,
        evenly(one.port, Plan(topic="flood", keys=1_000, tenant="loud")) as asking,
    ):
        quota = {"events_per_s": QUOTA} if kind == "quota" else {}
        one.call("POST", "/api/v1/tenants", {"id": "quiet"})
        one.call("POST", "/api/v1/tenants", {"id": "loud", "quota": quota})
        run.add_endpoints("quiet", ["order.*"])
        run.publish(RATE, 2.0)
        before, capacity = run.slice(RATE, 10.0), float(QUOTA)
        if kind == "clients":
            with aside(play_clients, one.port, CLIENTS) as filling:
                time.sleep(12.0)
            capacity = filling.result.goodput
            say(f"  {CLIENTS} clients publish {capacity:,.0f} events/s")
        memory = Memory(one.pid)
        memory.start()
        args = () if kind == "quota" else (TIMES * CLIENTS,)
        with aside(play_quota if kind == "quota" else play_clients, one.port, *args) as flooding:
            refusals = Refusals(asking, seconds)
            refusals.start()
            beside = run.slice(RATE, seconds)
            refusals.join()
        normal_s = _until_normal(run, p(before.arrival_ms, 99))
        memory.end()
        flood: Flood = flooding.result
    say(f"  others before {before}\n  others during {beside}")
    say(f"  answers {dict(flood.statuses)}, memory by the second: {' '.join(f'{mb:.0f}' for mb in memory.mb)} MB")
    peak, share = max(memory.mb), flood.goodput / capacity
    goals = [
        Goal(
            what=f"memory at 10 x {kind} on {store.name}",
            wanted=f"<= {RSS_MB_MAX} MB, no drift above {100 * DRIFT_MAX:.0f} %",
            found=f"{peak:.0f} MB at its peak, drift {100 * memory.drift:+.1f} %",
            is_reached=peak <= RSS_MB_MAX and memory.drift <= DRIFT_MAX,
        ),
        Goal(
            what=f"goodput at 10 x {kind} on {store.name}",
            wanted=f">= {GOODPUT_MIN} of what there is room for",
            found=f"{share:.2f} ({flood.goodput:,.0f} of {capacity:,.0f} events/s)",
            is_reached=share >= GOODPUT_MIN,
        ),
        Goal(
            what=f"as before, after 10 x {kind} on {store.name}",
            wanted=f"within {NORMAL_S_MAX:.0f} s",
            found=f"after {normal_s:.0f} s",
            is_reached=normal_s <= NORMAL_S_MAX,
        ),
    ]
    if refusals.ms:
        late = p(refusals.ms, 99)
        goals.append(
            Goal(
                what=f"refusals at 10 x {kind} on {store.name}, p99",
                wanted=f"<= {REFUSED_MS_MAX:.0f} ms",
                found=f"{late:.1f} ms (p50 {p(refusals.ms, 50):.1f}) of {len(refusals.ms):,}",
                is_reached=late <= REFUSED_MS_MAX,
            )
        )
    return goals


def _until_normal(run: Course, p99_ms: float) -> float:
    """Seconds from the end of the flood to the first second that is served as before."""
    began = time.monotonic()
    while True:
        at = time.monotonic() - began
        if p(run.publish(RATE, 1.0).arrival_ms, 95) <= NORMAL_TIMES * p99_ms or at > NORMAL_S_MAX:
            return at


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=__doc__)
    parser.add_argument("--store", action="append", choices=("sqlite", "postgres"), help="both by default")
    parser.add_argument("--kind", action="append", choices=("quota", "clients"), help="both by default")
    parser.add_argument("--interpreted", action="store_true", help="measure the plain source, not what is compiled")
    parser.add_argument("--seconds", type=float, default=60.0)
    add_ahead(parser)
    asked = parser.parse_args()
    if asked.ahead:
        go_ahead()
    build = tree.choose(interpreted=asked.interpreted)
    print(f"{described()}, {build}, load average {load_average():.1f} before", flush=True)
    goals: list[Goal] = []
    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        for name in asked.store or ["sqlite", "postgres"]:
            store = stack.enter_context(getattr(stores, name)(folder))
            for kind in asked.kind or ["quota", "clients"]:
                say(f"{name}, {kind}")
                mine = folder / f"{name}-{kind}"
                mine.mkdir()
                goals += measure(store, mine, kind, asked.seconds)
                for goal in goals[-4:]:
                    is_it = "reached" if goal.is_reached else "MISSED "
                    print(f"{is_it}  {goal.what}: {goal.found}, wanted {goal.wanted}", flush=True)
    sys.exit(0 if all(goal.is_reached for goal in goals) else "a goal was not reached")


if __name__ == "__main__":
    main()
