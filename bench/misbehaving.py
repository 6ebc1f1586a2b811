"""Endpoints that misbehave, and one who publishes to them: paused while others are measured alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from multiprocessing.connection import Connection
from typing import Any

from bench.aside import aside
from bench.evenly import Lines, Plan, publish
from bench.gateway import Calls
from bench.hostile import Peers
from bench.machine import rss_kib
from bench.tail import Course, p, say

TIMEOUT_MS = 5_000
"""Of endpoints that misbehave: short enough to see all of them time out, and begin anew, in each round."""
LEAD_IN_S = 3.0
SETTERS = 8


@dataclass(slots=True)
class Misbehaving:
    """A crowd of endpoints at *peers*, each with a type of its own, in one tenant."""

    run: Course
    peers: Peers
    many: int
    kinds: Sequence[str]
    tenant: str = "default"
    tries_per_s: float = 50.0
    """How many events a second are published to them, or tried."""
    open_max: int = 0
    requests: int = 0
    held_s_max: float = 0.0
    accepted: int = 0
    refused_ms: list[float] = field(default_factory=list)
    rss_kib_alone: int = 0
    rss_kib_max: int = 0
    _ids: list[str] = field(default_factory=list)

    def make(self) -> None:
        """Paused from the start, so that they exist while others are measured alone as well."""
        urls = [f"http://127.0.0.1:{self.peers.port}{kind}" for kind in self.kinds]
        made = self._post(
            ("/api/v1/endpoints", {"url": url, "types": [f"crowd.{number}"], "timeout_ms": TIMEOUT_MS})
            for number, url in enumerate(islice(cycle(urls), self.many))
        )
        self._ids = [one["id"] for one in made]
        self._turn("pause")

    def _turn(self, how: str) -> None:
        self._post((f"/api/v1/endpoints/{one}/{how}", None) for one in self._ids)

    def _post(self, calls: Iterable[tuple[str, Any]]) -> list[Any]:
        """Several at a time: each waits for a commit, and those of others go with it."""
        mine = threading.local()

        def begin() -> None:
            mine.calls = Calls(self.run.one.port, self.tenant)

        with ThreadPoolExecutor(SETTERS, initializer=begin) as setters:
            return list(setters.map(lambda call: mine.calls.post(*call), calls))

    @contextmanager
    def beside(self) -> Iterator[None]:
        """As long as the block lasts, each of them is owed something, and gets more."""
        self.rss_kib_alone = self.rss_kib_alone or rss_kib(self.run.one.pid)
        self._turn("resume")
        self.peers.watched()
        with aside(play, self.run.one.port, self.many, self.tenant, self.tries_per_s) as flood:
            time.sleep(LEAD_IN_S)
            yield
            self.rss_kib_max = max(self.rss_kib_max, rss_kib(self.run.one.pid))
        accepted, refused_ms = flood.result
        self.accepted += accepted
        self.refused_ms += refused_ms
        self._turn("pause")
        self._wait_until_all_ended()

    def _wait_until_all_ended(self) -> None:
        watched = self.peers.watched()
        self.open_max, self.requests = max(self.open_max, watched.open_max), self.requests + watched.requests
        late = time.monotonic() + 2 * TIMEOUT_MS / 1000 + 5
        while watched.open:
            time.sleep(0.1)
            watched = self.peers.watched()
            if time.monotonic() > late:
                raise SystemExit(f"{watched.open} requests are still open long after their deadline")
        self.held_s_max = max(self.held_s_max, watched.held_s_max)

    def tell(self) -> None:
        grown_kib = max(0, self.rss_kib_max - self.rss_kib_alone)
        say(
            f"  {self.requests} attempts at misbehaving endpoints, {self.open_max} open at once, the last ended"
            f" {1000 * self.held_s_max - TIMEOUT_MS:+.0f} ms after its deadline; {grown_kib / self.many:.1f} KiB each"
        )
        if self.refused_ms:
            late_ms = p(self.refused_ms, 99)
            say(f"  {self.accepted} accepted, {len(self.refused_ms)} refused within {late_ms:.1f} ms (p99)")


def play(pipe: Connection, port: int, many: int, tenant: str, per_second: float) -> tuple[int, list[float]]:
    """Publish to the crowd until told to end; how many were accepted, and how long each refusal took."""
    lines, plan = Lines(port), Plan(topic="crowd", types=many, keys=10**9, tenant=tenant)
    pipe.send("begun")
    name = f"crowd{time.monotonic_ns()}"
    found = publish(lines, plan, f"{name}a", many / LEAD_IN_S, many, pipe.poll)
    found += publish(lines, plan, f"{name}b", per_second, 10**9, pipe.poll)
    refused = [1000 * (one.answered - one.sent) for one in found if one.status == 429]
    if wrong := [one for one in found if one.status not in (202, 429)]:
        raise SystemExit(f"a publish to the crowd was answered {wrong[0]}")
    return len(found) - len(refused), refused
