"""One endpoint's trouble is not another's: what hangs, drips and floods costs those who answer next to nothing."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from bench.hostile import BEHAVIOURS, hostile_server
from tests.support.pace import scaled_ms
from tests.support.running_sender import running_sender
from tests.support.sqlite_files import new_outbox_file

from hooklane.model.attempt import Delivered

FAST = 10
ROUNDS = 20
STALL_MS = 1_000
"""A busy machine may cost that much; whoever waits for a silent endpoint waits at least for twice as long."""


@pytest.fixture(scope="module")
def hostile():
    with hostile_server() as port:
        yield port


@pytest.fixture
async def sender(tmp_path):
    async with running_sender(new_outbox_file(tmp_path / "hooklane.db"), grace_ms=200) as one:
        yield one


async def latencies(sender, endpoints):
    """From publish to ack, in milliseconds: one event to each endpoint, again and again."""
    ids = tuple(one.id for one in endpoints)
    before = len(sender.settled)
    for n in range(ROUNDS):
        event = await sender.publish("order.created", key=f"order:{n}", endpoints=ids)
        await sender.delivered(event.event_id)
    acks = [one for one in sender.settled[before:] if one.send.endpoint.id in ids]
    assert {type(one.outcome) for one in acks} == {Delivered}
    return [one.at - one.send.event.created_at for one in acks]


def p90(values):
    return statistics.quantiles(values, n=10)[8]


def hold(quiet, noisy):
    """By the slowest tenth, as one stall of the machine is the slowest hundredth of a run this short.

    That the others wait for nobody is a promise, held here. How little they notice is a figure of `make bench`.
    """
    assert p90(noisy) <= p90(quiet) + scaled_ms(STALL_MS)


async def test_an_endpoint_that_never_answers_does_not_slow_the_others_down(sender, hostile):
    """F38."""
    fast = [await sender.endpoint(f"http://127.0.0.1:{hostile}/ok", types=("x",)) for _ in range(FAST)]
    await latencies(sender, fast)  # connections are made
    quiet = await latencies(sender, fast)
    stuck = await sender.endpoint(f"http://127.0.0.1:{hostile}/never", types=("x",), timeout_ms=20_000)
    for n in range(300):
        await sender.publish("order.created", key=f"backlog:{n}", endpoints=(stuck.id,))
    noisy = await latencies(sender, fast)
    held = sender.relay.engine.queues[stuck.id].in_flight

    print(f"p90 quiet {p90(quiet):.0f} ms, beside {held} that hang {p90(noisy):.0f} ms")
    assert held == 64
    hold(quiet, noisy)


async def test_hostile_endpoints_end_by_their_deadline_and_the_others_hardly_notice(sender, hostile):
    """Scaled down from a thousand, which `python -m bench transport` runs."""
    fast = [await sender.endpoint(f"http://127.0.0.1:{hostile}/ok", types=("x",)) for _ in range(FAST)]
    await latencies(sender, fast)
    quiet = await latencies(sender, fast)
    crowd = [
        await sender.endpoint(f"http://127.0.0.1:{hostile}{path}", types=("x",), timeout_ms=2_500, attempts_max=1)
        for path in list(BEHAVIOURS) * 15
    ]
    for half in (crowd[:60], crowd[60:]):
        await sender.publish("order.created", key="crowd", endpoints=tuple(one.id for one in half))
    ids = {one.id for one in crowd}

    def arrived():
        return sender.relay.engine.in_flight + sum(one.send.endpoint.id in ids for one in sender.settled)

    await sender.until(lambda: arrived() == len(crowd))
    noisy = await latencies(sender, fast)
    ended = await sender.until(
        lambda: len(found := [one for one in sender.settled if one.send.endpoint.id in ids]) == len(crowd) and found
    )

    words = Counter(type(one.outcome).__name__ for one in ended)
    longest = max(one.at - one.send.at for one in ended)
    print(f"{len(crowd)} hostile: {dict(words)}, longest {longest} ms; p90 {p90(quiet):.0f} -> {p90(noisy):.0f} ms")
    assert longest <= 2_500 + scaled_ms(1_000)
    assert "Delivered" not in words
    hold(quiet, noisy)
