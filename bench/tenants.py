"""`python -m bench.tenants`: does a tenant that misbehaves slow another?

One tenant tries to publish ten times its quota and has 1,000 endpoints that never answer; another publishes evenly to
an endpoint that does. Told is how long the other's events take from publish to arrival, alone and beside it, and how
quickly the flood is refused.
"""

from __future__ import annotations

from pathlib import Path

from bench.evenly import Plan
from bench.gateway import gateway
from bench.hostile import hostile_peers
from bench.misbehaving import Misbehaving
from bench.stores import Store
from bench.tail import Tail, command, course, in_turns

DEAD = 1_000
QUOTA = 50
"""Events a second that the loud tenant may publish; it tries ten times as many."""
TIMES_MAX = 1.5
OPTIONS = {"rate": 250.0, "seconds": 14.0, "rounds": 3}


def measure(store: Store, folder: Path, *, rate: float, seconds: float, rounds: int) -> Tail:
    found = Tail(store.name, f"a tenant at 10 x its quota with {DEAD:,} dead endpoints")
    with (
        hostile_peers() as peers,
        gateway(store.fresh(), folder) as one,
        course(one, store, folder, Plan(tenant="quiet")) as run,
    ):
        one.call("POST", "/api/v1/tenants", {"id": "quiet"})
        one.call("POST", "/api/v1/tenants", {"id": "loud", "quota": {"events_per_s": QUOTA}})
        run.pids["dead endpoints"] = peers.pid
        run.add_endpoints("quiet", ["order.*"])
        loud = Misbehaving(run, peers, DEAD, ["/never"], "loud", 10 * QUOTA)
        loud.make()
        in_turns(found, run, loud.beside, rate=rate, seconds=seconds, rounds=rounds)
        loud.tell()
    return found


if __name__ == "__main__":
    command("tenants", __doc__, TIMES_MAX, measure, OPTIONS)
