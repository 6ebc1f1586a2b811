"""Many hostile endpoints at once (R15, and R1-R7 together); in full size it is a benchmark."""

from __future__ import annotations

from bench.crowd import run_crowd
from bench.hostile import hostile_server
from tests.support.pace import scaled_ms


async def test_a_crowd_of_hostile_endpoints_ends_in_time_and_in_little_memory() -> None:
    with hostile_server() as hostile_port, hostile_server() as healthy_port:
        # Within it the quick ones must have answered, and before its ninth second no slow one has sent nine interim
        # responses, which would be too many: that one is to end by the deadline.
        timeout_ms = min(scaled_ms(1_000), 7_500)
        crowd = await run_crowd(hostile_port, healthy_port, endpoints=200, timeout_ms=timeout_ms, every_ms=5)
    print(crowd)

    assert crowd.ended.total() == 200
    assert crowd.last_after_deadline_ms < scaled_ms(1_000)
    assert crowd.memory_each_kib <= 64
    # Each of eight behaviours 25 times; the two endless drips of an error end as what they are, with their status.
    assert crowd.ended == {"timeout": 100, "bad_response": 50, "500": 50}
    # The bound of 1.5 is for a quiet machine and is printed by bench; here only that nobody starves.
    assert crowd.crowded_ms[0] < scaled_ms(50)
