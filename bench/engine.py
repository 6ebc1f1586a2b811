"""What does the engine itself cost? Microseconds per event for feed, send, settle and commit, without any I/O.

python -m bench.engine [--events N]
"""

from __future__ import annotations

import argparse
from time import process_time

from hooklane.core.engine import Committed, EndpointChanged, Engine, LeaseSet, Loaded, Settled
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Timings
from hooklane.model.lane import PARTITIONS, Grown

NOW = Instant(1_750_000_000_000)
GOAL_US = 10.0
OK = Answer(200, Timings(1.0))


def run(lanes: int, events: int, *, loose: bool = False) -> float:
    """Drive an engine as a shell would, in batches, and return the processor seconds that its steps took."""
    engine = Engine()
    engine.step(NOW, [EndpointChanged(Endpoint(id="ep", url="https://x.example", created_at=NOW, in_flight_max=512))])
    engine.step(NOW, [LeaseSet(FOREVER), *(Loaded(pid, 1, []) for pid in range(PARTITIONS))])
    event = Event("evt_1", "order.created", "k", b'{"n":1}', NOW)
    seqs = [0] * lanes
    fed = delivered = 0
    spent = 0.0
    inputs: list[object] = []
    while delivered < events:
        many = min(512, events - fed)
        for n in range(fed, fed + many):
            if loose:
                inputs.append(Grown(-n - 1, n % PARTITIONS, "ep", None, 1, event))
            else:
                lane = n % lanes
                seqs[lane] += 1
                inputs.append(Grown(lane + 1, lane % PARTITIONS, "ep", f"k{lane}", seqs[lane], event))
        fed += many
        before = process_time()
        effects = engine.step(NOW, inputs)  # type: ignore[arg-type]
        spent += process_time() - before
        inputs = [Settled(send, OK, 0.5) for send in effects.sends]
        if effects.writes:
            delivered += len(effects.writes)
            inputs.append(Committed(effects.writes))
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000)
    events = parser.parse_args().events
    print(f"{'':>14} {'µs/event':>9}   (goal <= {GOAL_US:.0f})")
    for name, lanes in (("100 keys", 100), ("10,000 keys", 10_000), ("100,000 keys", 100_000)):
        print(f"{name:>14} {run(lanes, events) / events * 1e6:9.2f}")
    print(f"{'without a key':>14} {run(1, events, loose=True) / events * 1e6:9.2f}")


if __name__ == "__main__":
    main()
