"""The clock of the database is set: retries, leases and takeovers cost a few seconds, never until it has caught up."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from tests.support.eventually import eventually
from tests.support.pace import scaled_s
from tests.support.receiver import Answer, Sink
from tests.support.running_sender import running_sender

from hooklane.core.fanout import places
from hooklane.model.lane import PARTITIONS
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions

DAY_S = 86_400
WITHIN_S = 60.0
LEASE_MS = 3_000


def set_clock(url: str, seconds: int) -> None:
    """What every statement of ours takes for the time is *seconds* from the true one."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION hooklane.now_ms() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS"
            f" $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint + {seconds} * 1000::bigint $$"
        )


async def arrived(sink: Sink, many: int) -> None:
    await asyncio.to_thread(sink.wait_for, many, within_s=WITHIN_S)


@pytest.mark.parametrize("seconds", [-DAY_S, DAY_S, 3_650 * DAY_S], ids=["a day back", "a day on", "ten years on"])
async def test_a_database_clock_that_is_set_does_not_stop_retries(postgres_url, sink, seconds):
    sink.follow([Answer(status=503), Answer(status=503), Answer(status=200)])
    async with running_sender(postgres_url, lease_ms=LEASE_MS) as sender:
        await sender.endpoint(sink.url(), backoff_ms=1_000, backoff_cap_ms=1_000)
        published = await sender.publish("a.b", key="k")
        await arrived(sink, 1)

        set_clock(postgres_url, seconds)
        await arrived(sink, 2)
        set_clock(postgres_url, 0)

        await sender.delivered(published.event_id)
    assert [request.headers["webhook-id"] for request in sink.requests] == [published.event_id] * 3


async def test_a_database_clock_that_is_set_back_while_nobody_works_does_not_stop_retries(postgres_url, sink):
    sink.follow([Answer(status=503), Answer(status=200)])
    async with running_sender(postgres_url, lease_ms=LEASE_MS) as sender:
        await sender.endpoint(sink.url(), backoff_ms=6_000, backoff_cap_ms=6_000)
        published = await sender.publish("a.b", key="k")
        await arrived(sink, 1)
        await sender.until(lambda: sender.settled)

    set_clock(postgres_url, -DAY_S)

    async with running_sender(postgres_url, lease_ms=LEASE_MS) as sender:
        await sender.delivered(published.event_id)


async def test_the_lease_of_a_dead_worker_is_waited_for_once_though_the_clock_was_set_back(postgres_url):
    store = outbox_store(postgres_url, StoreOptions(placer=places))
    await store.open()
    await store.join("dead", LEASE_MS)
    lost = {one.pid: one.epoch for one in await store.acquire("dead", PARTITIONS)}

    set_clock(postgres_url, -DAY_S)

    async with running_sender(postgres_url, lease_ms=LEASE_MS) as sender:

        async def all_taken() -> bool:
            return len(sender.relay.engine.epochs) == PARTITIONS

        await eventually(all_taken, within_s=WITHIN_S)
        taken = dict(sender.relay.engine.epochs)
    await store.close()
    assert len(lost) == PARTITIONS
    assert all(taken[pid] > epoch for pid, epoch in lost.items()), "what the dead worker still writes is refused"


async def test_a_worker_that_is_frozen_in_its_renewal_keeps_nobody_else_from_theirs(postgres_url):
    store = outbox_store(postgres_url, StoreOptions(placer=places))
    await store.open()
    await store.join("w1", LEASE_MS)
    with psycopg.connect(postgres_url) as frozen:
        frozen.execute("SELECT value FROM hooklane.counter WHERE name = 'clock' FOR UPDATE")

        async with asyncio.timeout(scaled_s(WITHIN_S)):
            renewed = await store.renew("w1", LEASE_MS)

        frozen.rollback()
    await store.close()
    assert renewed is not None
