"""`python -m bench.searching`: what do searches cost deliveries?

Events are published at an even rate and timed until they arrive at a receiver, in turns: while nothing else happens,
and while somebody searches through all that was delivered before, by every filter, without a pause.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path

from bench import many_events
from bench.aside import aside
from bench.evenly import Plan
from bench.gateway import gateway
from bench.stores import Store
from bench.tail import Course, Tail, command, course, in_turns, p, say

LANES, TIMES_MAX = 10_000, 2.0
OPTIONS = {"events": 200_000, "searchers": 1, "rate": 250.0, "seconds": 14.0, "rounds": 3}
PAGES = 5
"""Of one search, until the next begins."""
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


def search(pipe: Connection, port: int) -> list[float]:
    """Ask for page after page, one filter after the other, until told to stop; how long each call took, in ms."""
    connection, took, number = HTTPConnection("127.0.0.1", port, timeout=60), list[float](), 0
    while not pipe.poll():
        path = f"/api/v1/{SEARCHES[number % len(SEARCHES)]}"
        cursor = ""
        for _ in range(PAGES):
            began = time.monotonic()
            connection.request("GET", f"{path}{'&' if '?' in path else '?'}cursor={cursor}" if cursor else path)
            answer = connection.getresponse()
            said = json.loads(answer.read())
            took.append(1000 * (time.monotonic() - began))
            cursor = said.get("next") or ""
            if not cursor:
                break
        number += 1
        if number == 1:
            pipe.send("begun")
    return took


class Searchers:
    """People at work."""

    def __init__(self, run: Course, many: int) -> None:
        self._run, self._many = run, many
        self.took_ms: list[float] = []

    @contextmanager
    def beside(self, left: int | None = None) -> Iterator[None]:
        left = self._many if left is None else left
        if not left:
            yield
            return
        with aside(search, self._run.one.port) as one, self.beside(left - 1):
            yield
        self.took_ms += one.result


def measure(
    store: Store, folder: Path, *, events: int, searchers: int, rate: float, seconds: float, rounds: int
) -> Tail:
    db = store.fresh()
    with gateway(db, folder):
        pass  # makes the tables
    many_events.fill(db, events, LANES, int(time.time() * 1000))
    found = Tail(store.name, f"searches in a loop through {events:,} events")
    with gateway(db, folder) as one, course(one, store, folder, Plan()) as run:
        run.add_endpoints("default", ["order.*"])
        people = Searchers(run, searchers)
        in_turns(found, run, people.beside, rate=rate, seconds=seconds, rounds=rounds)
    took = people.took_ms
    say(f"  {len(took):,} calls of searches, p50 {p(took, 50):.0f}, p99 {p(took, 99):.0f} ms")
    return found


if __name__ == "__main__":
    command("searching", __doc__, TIMES_MAX, measure, OPTIONS)
