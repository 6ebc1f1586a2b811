"""kill -9 under load: how long until a new server on the same host, or one that runs on another, delivers?"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException

from bench import sink as sinks
from bench.gateway import Gateway, gateway
from bench.nginx import sink_server
from bench.report import Check, Figure, Goal, median
from bench.rounds import Bench, stage
from bench.stores import Store
from hooklane.model.lane import PARTITIONS

WITHIN_S, ELSEWHERE_WITHIN_S = 2.0, 10.0
LOAD_S = 1.5
KEYS_AFTER = 256
SHARED_WITHIN_S = 60.0
_OWNERS = "SELECT count(*) FROM hooklane.part WHERE owner IS NOT NULL GROUP BY owner"


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        waits, check = _measure(bench, store)
        _tell("first delivery after kill -9 and restart", store, waits, WITHIN_S, check, figures, goals)
    return figures, goals


def run_takeover(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    """On PostgreSQL: of two servers on two hosts one is killed, and the other takes over all that it had."""
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        if store.name != "postgres":
            continue  # a SQLite file has one host
        waits, check = _measure_takeover(bench, store)
        what = "all lanes deliver after kill -9 of one of two hosts"
        _tell(what, store, waits, ELSEWHERE_WITHIN_S, check, figures, goals)
    return figures, goals


def _tell(
    what: str, store: Store, waits: list[float], within_s: float, check: Check, figures: list[Figure], goals: list[Goal]
) -> None:
    figures.append(
        Figure(
            scenario=what,
            variant=store.name,
            rates=[1 / wait for wait in waits],
            check=check,
            notes={"s": median(waits)},
        )
    )
    goals.append(
        Goal(
            what=f"{what} on {store.name}",
            wanted=f"<= {within_s:g} s",
            found=f"{median(waits):.1f} s ({min(waits):.1f}-{max(waits):.1f})",
            is_reached=max(waits) <= within_s,
        )
    )


def _measure(bench: Bench, store: Store) -> tuple[list[float], Check]:
    waits: list[float] = []
    accepted = 0
    with stage(bench, f"recovery on {store.name}") as folder, sink_server(folder / "sink") as sink:
        db = store.fresh()
        for number in range(bench.rounds):
            with ExitStack() as stack:
                one = stack.enter_context(gateway(db, folder))
                if not number:
                    one.add_endpoint(f"http://127.0.0.1:{sink.port}/")
                load = Load(one)
                load.run_for(LOAD_S)
                os.kill(one.pid, signal.SIGKILL)
                load.end()
                accepted += load.accepted
            sink.flush()
            size = sink.log.stat().st_size
            killed = time.time()
            with gateway(db, folder) as one:
                one.call("POST", "/api/v1/events", {"type": "order.created", "key": f"after:{number}", "data": {}})
                accepted += 1
                one.drain()
                sink.flush()
                seen = sinks.read(sink.log, size)
                waits.append(seen.first_at - killed)
                bench.say(f"  round {number + 1}, {store.name}: first delivery after {waits[-1]:.1f} s")
        seen = sinks.read(sink.log)
        # What was in flight when it died comes once more, and must: nobody knows whether it had arrived.
    return waits, Check(lost=max(0, accepted - seen.distinct), reordered=seen.reordered, duplicates=0)


def _measure_takeover(bench: Bench, store: Store) -> tuple[list[float], Check]:
    """From the kill until the last of many new keys is delivered: half of them were of the host that is dead."""
    waits: list[float] = []
    accepted = 0
    with (
        stage(bench, f"takeover on {store.name}") as folder,
        sink_server(folder / "sink") as sink,
        gateway(db := store.fresh(), folder, host="second") as second,
    ):
        second.add_endpoint(f"http://127.0.0.1:{sink.port}/")
        for number in range(bench.rounds):
            with gateway(db, folder, host="first") as first:
                wait_until_shared(db)
                load = Load(first)
                load.run_for(LOAD_S)
                os.kill(first.pid, signal.SIGKILL)
                killed = time.time()
                load.end()
                accepted += load.accepted + KEYS_AFTER
            sink.flush()
            size = sink.log.stat().st_size
            after = [{"type": "order.created", "key": f"{number}:{n}", "data": {}} for n in range(KEYS_AFTER)]
            second.call("POST", "/api/v1/events/batch", {"events": after})
            second.drain()
            sink.flush()
            waits.append(sinks.read(sink.log, size).last_at - killed)
            bench.say(f"  round {number + 1}, {store.name}: all lanes deliver after {waits[-1]:.1f} s")
        seen = sinks.read(sink.log)
    return waits, Check(lost=max(0, accepted - seen.distinct), reordered=seen.reordered, duplicates=0)


def wait_until_shared(db: str, many: int = 2) -> None:
    """Until *many* servers have an equal share of the partitions each."""
    import psycopg

    deadline = time.monotonic() + SHARED_WITHIN_S
    with psycopg.connect(db, autocommit=True) as connection:
        while sorted(many for (many,) in connection.execute(_OWNERS)) != [PARTITIONS // many] * many:
            if time.monotonic() > deadline:
                raise SystemExit(f"{many} servers did not share the partitions within {SHARED_WITHIN_S:g} s")
            time.sleep(0.1)


class Load:
    """One connection that publishes without a pause, and counts what was answered."""

    def __init__(self, one: Gateway) -> None:
        self.accepted = 0
        self._one = one
        self._thread = threading.Thread(target=self._publish)

    def run_for(self, seconds: float) -> None:
        self._thread.start()
        time.sleep(seconds)

    def end(self) -> None:
        self._thread.join(30)

    def _publish(self) -> None:
        connection = HTTPConnection("127.0.0.1", self._one.port, timeout=10)
        number = 0
        try:
            while True:
                number += 1
                body = json.dumps({"type": "order.created", "key": f"customer:{number % 100}", "data": {"n": number}})
                connection.request("POST", "/api/v1/events", body, {"content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                self.accepted += answer.status == 202
        except (OSError, HTTPException):
            return  # it was killed
