"""Polls that miss what they should tell: a sweep finds it, and says so."""

from __future__ import annotations

import dataclasses

from tests.support.receiver import Answer
from tests.support.running_sender import running_sender

from hooklane.core.fanout import places
from hooklane.core.worker.sweeping import Rounds
from hooklane.model.attempt import Delivered
from hooklane.model.clock import wall_now
from hooklane.sender.outbox import Outbox
from hooklane.server.metrics import Meter
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions
from hooklane.store.reads import LetterFilter

LETTERS = 20


async def test_what_no_poll_tells_is_found_by_a_sweep_and_counted(store_url, sink) -> None:
    meter = Meter()
    async with running_sender(store_url, rounds=Rounds(rest_ms_min=1, part=0.5)) as sender:
        listen = sender.listen
        sender.listen = lambda happening: (listen(happening), meter.listen(happening))
        await sender.endpoint(sink.url())
        await sender.delivered((await sender.publish("order.created", key="warm")).event_id)
        poll = sender.store.poll

        async def deaf(worker, pids, mark):
            return dataclasses.replace(await poll(worker, pids, mark), grown=())

        sender.store.poll = deaf
        with Outbox(store_url) as outbox:
            events = [{"type": "order.created", "data": n, "key": f"k{n}"} for n in range(40)]
            outbox.publish_many([*events, *({"type": "order.created", "data": n} for n in range(40))])

        def found() -> bool:
            keyed = [one for one in sender.settled if one.send.key is not None]
            return len(keyed) > 2 and len(sender.settled) - len(keyed) > 2

        await sender.until(found)

    assert meter.total.missed >= 5


async def test_a_replay_and_a_changed_endpoint_that_no_poll_tells_of_are_found_by_a_sweep(store_url, sink) -> None:
    async with running_sender(store_url, rounds=Rounds(rest_ms_min=1, part=1.0), poll_ms=10) as sender:
        sink.react = lambda _: Answer(status=400)
        mended = await sender.endpoint(sink.url(), attempts_max=1)
        for n in range(LETTERS):  # in partitions all over: one of them is swept soon
            await sender.publish("order.created", key=f"k{n}")
        letters = await sender.until(lambda: dead_letters(sender))
        sink.react = lambda _: Answer(status=200)
        poll = sender.store.poll

        async def deaf(worker, pids, mark):
            news = await poll(worker, pids, mark)
            return dataclasses.replace(news, grown=(), recovered=(), endpoints=())

        sender.store.poll = deaf
        elsewhere = outbox_store(store_url, StoreOptions(placer=places))
        await elsewhere.open()
        for letter in letters:
            assert await elsewhere.replay("default", letter.id, actor="a person", now=wall_now())

        await sender.until(lambda: any(isinstance(one.outcome, Delivered) for one in sender.settled))

        other = dataclasses.replace(mended, url=sink.url("/moved"))
        assert await elsewhere.save_endpoint(other, expect=mended)
        await sender.until(lambda: sender.relay.engine.queues[mended.id].endpoint.url == other.url)
        await elsewhere.close()


async def dead_letters(sender):
    found = (await sender.store.dead_letters("default", LetterFilter(), None, LETTERS)).items
    return found if len(found) == LETTERS else None


async def test_a_sweep_finds_nothing_where_polls_tell_everything(store_url, sink) -> None:
    meter = Meter()
    async with running_sender(store_url, rounds=Rounds(rest_ms_min=1, part=0.5)) as sender:
        listen = sender.listen
        sender.listen = lambda happening: (listen(happening), meter.listen(happening))
        await sender.endpoint(sink.url())
        with Outbox(store_url) as outbox:
            for n in range(40):
                outbox.publish("order.created", n, key=f"k{n % 5}")
                await sender.publish("order.created", key=f"k{n % 7}")
                outbox.publish("order.created", n)
        await sender.until(lambda: len(sender.settled) == 120)

    assert meter.total.missed == 0
