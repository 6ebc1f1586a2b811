"""kill -9 under load, and a new server on the same store: how long until the first delivery?"""

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

WITHIN_S = 2.0
LOAD_S = 1.5


def run(bench: Bench) -> tuple[list[Figure], list[Goal]]:
    figures: list[Figure] = []
    goals: list[Goal] = []
    for store in bench.stores:
        waits, check = _measure(bench, store)
        figures.append(
            Figure(
                scenario="kill -9 and restart",
                variant=store.name,
                rates=[1 / wait for wait in waits],
                check=check,
                notes={"first delivery after the restart, s": median(waits)},
            )
        )
        goals.append(
            Goal(
                what=f"first delivery after kill -9 and restart on {store.name}",
                wanted=f"<= {WITHIN_S:g} s",
                found=f"{median(waits):.1f} s ({min(waits):.1f}-{max(waits):.1f})",
                is_reached=max(waits) <= WITHIN_S,
            )
        )
    return figures, goals


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
