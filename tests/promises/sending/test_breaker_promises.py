"""S10: an endpoint that is down is left alone: nothing is dropped, no tries are used up, and it comes back."""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import pairwise

from tests.support.pace import scaled_ms
from tests.support.receiver import Answer
from tests.support.running_sender import running_sender

from hooklane.core.breaker import BreakerRules
from hooklane.core.engine import Engine
from hooklane.model.health import BreakerState
from hooklane.model.lane import DeliveryState
from hooklane.store.reads import LetterFilter

QUICK = BreakerRules(hold_ms=300, hold_ms_max=600)
KEYS = 60


def quick_engine():
    return Engine(breaker=QUICK)


async def state_of(sender, endpoint):
    health = (await sender.store.health()).get(endpoint.id)
    return BreakerState.CLOSED if health is None else health.state


async def opened(sender, endpoint):
    async def is_open():
        return await state_of(sender, endpoint) in (BreakerState.OPEN, BreakerState.PROBING)

    await sender.until(is_open)


async def test_s10_an_outage_is_waited_out_without_loss_and_without_dead_letters(store_url, sink):
    """Two tries each, and an outage of many waits: a sender without a breaker would have used them up at once."""
    sink.react = lambda _: Answer(status=503)
    async with running_sender(store_url, engine=quick_engine()) as sender:
        backoff_ms = scaled_ms(250)  # longer than it takes to open: who had a second try before would be dead
        endpoint = await sender.endpoint(sink.url(), attempts_max=2, backoff_ms=backoff_ms, in_flight_max=20)
        events = [await sender.publish("order.created", key=f"order:{n}") for n in range(KEYS)]
        await opened(sender, endpoint)
        await sender.until(lambda: sender.relay.engine.in_flight == 0)
        at_first = len(sink.requests)
        probes = await sink.arrived(at_first + 3)  # further ones, each after a longer wait than the one before
        states = await sender.states(*(one.event_id for one in events))
        sink.react = lambda _: Answer()
        await sender.delivered(*(one.event_id for one in events))
        letters = await sender.store.dead_letters("default", LetterFilter(), None, 10)

        async def is_closed():
            return await state_of(sender, endpoint) is BreakerState.CLOSED

        await sender.until(is_closed)

    assert at_first <= 2 * 20  # those in flight when it opened, and no more
    gaps = [later.arrived_at - earlier.arrived_at for earlier, later in pairwise(probes[at_first:])]
    assert min(gaps) >= 0.3
    assert DeliveryState.DEAD not in states
    assert list(letters.items) == []


async def test_s10_a_restart_does_not_forget_that_an_endpoint_is_down(store_url, sink):
    sink.react = lambda _: Answer(status=500)
    async with running_sender(store_url) as sender:
        endpoint = await sender.endpoint(sink.url())
        events = [await sender.publish("order.created", key=f"order:{n}") for n in range(KEYS)]
        await opened(sender, endpoint)
    before = len(sink.requests)

    async with running_sender(store_url) as sender:
        await sender.until(lambda: endpoint.id in sender.relay.engine.queues)
        fresh = [await sender.publish("order.created", key=f"fresh:{n}") for n in range(10)]
        held = await sender.states(*(one.event_id for one in (*events, *fresh)))
        queue = sender.relay.engine.queues[endpoint.id]
        assert queue.breaker.state is BreakerState.OPEN

    assert len(sink.requests) == before
    assert set(held) <= {DeliveryState.QUEUED, DeliveryState.RETRYING}


async def test_s10_what_one_worker_finds_holds_for_all_and_one_of_them_probes(postgres_url, sink):
    lease_ms = scaled_ms(900)  # a machine that is busy renews late
    async with AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(running_sender(postgres_url, lease_ms=lease_ms, engine=quick_engine()))
            for _ in range(2)
        ]
        first = workers[0]
        await first.until(lambda: {len(one.relay.engine.epochs) for one in workers} == {128})
        sink.react = lambda _: Answer(status=503, after_s=0.05)
        endpoint = await first.endpoint(sink.url(), in_flight_max=20)
        events = [await first.publish("order.created", key=f"order:{n}") for n in range(KEYS)]
        queues = [await one.until(lambda one=one: one.relay.engine.queues.get(endpoint.id)) for one in workers]
        held = (BreakerState.OPEN, BreakerState.PROBING)
        await first.until(lambda: all(queue.breaker.state in held for queue in queues))
        await first.until(lambda: all(one.relay.engine.in_flight == 0 for one in workers))
        before = len(sink.requests)
        probes = (await sink.arrived(before + 4))[before:]
        sink.react = lambda _: Answer()
        await first.delivered(*(one.event_id for one in events))

    for earlier, later in pairwise(probes):
        assert earlier.settled_at <= later.arrived_at  # one at a time
    assert min(b.arrived_at - a.arrived_at for a, b in pairwise(probes)) >= 0.3


async def test_s10_client_errors_never_open_it(sender, sink):
    sink.react = lambda _: Answer(status=422)
    await sender.endpoint(sink.url(), attempts_max=1)

    events = [await sender.publish("order.created", key=f"order:{n}") for n in range(KEYS)]

    async def all_dead():
        return set(await sender.states(*(one.event_id for one in events))) == {DeliveryState.DEAD}

    await sender.until(all_dead)
    assert dict(await sender.store.health()) == {}
    assert len(sink.requests) == KEYS
