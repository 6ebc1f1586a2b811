"""`python -m bench.hostile_sender`: do healthy endpoints notice 1,000 hostile ones?

Through the whole sender: a real server, real peers, real attempts. Events for healthy endpoints are published one by
one over HTTP at a fixed rate, in rounds that alternate: alone, and beside hostile endpoints that never answer, drip,
and flood with headers, bodies and interim answers, and are kept owed with new events. In between those are paused.
"""

from __future__ import annotations

from pathlib import Path

from bench.evenly import Plan
from bench.gateway import gateway
from bench.hostile import BEHAVIOURS, hostile_peers
from bench.misbehaving import Misbehaving
from bench.stores import Store
from bench.tail import Tail, command, course, in_turns

HEALTHY = 40
TIMES_MAX = 1.5
OPTIONS = {"hostile": 1_000, "rate": 250.0, "seconds": 14.0, "rounds": 3}


def measure(store: Store, folder: Path, *, hostile: int, rate: float, seconds: float, rounds: int) -> Tail:
    found = Tail(store.name, f"{hostile:,} hostile endpoints")
    with (
        hostile_peers() as peers,
        gateway(store.fresh(), folder) as one,
        course(one, store, folder, Plan(types=HEALTHY)) as run,
    ):
        run.pids["hostile peers"] = peers.pid
        run.add_endpoints("default", [f"order.{number}" for number in range(HEALTHY)])
        crowd = Misbehaving(run, peers, hostile, list(BEHAVIOURS))
        crowd.make()
        in_turns(found, run, crowd.beside, rate=rate, seconds=seconds, rounds=rounds)
        crowd.tell()
    return found


if __name__ == "__main__":
    command("hostile_sender", __doc__, TIMES_MAX, measure, OPTIONS)
