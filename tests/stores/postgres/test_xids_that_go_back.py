"""A crash, a failover or a restored backup gives transaction numbers out twice: nothing is stranded by it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest
from tests.support.eventually import eventually
from tests.support.failover import Pair, synchronous_pair
from tests.support.pooler import pooler
from tests.support.postgres import PostgresServer
from tests.support.receiver import Sink
from tests.support.running_sender import RunningSender, running_sender

from hooklane.core.fanout import places
from hooklane.core.worker.news import still_holds
from hooklane.errors import StoreError
from hooklane.sender.outbox import Outbox
from hooklane.store.outbox import News, Published, StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.testing.conformance_outbox.kit import Owner, draft, endpoint, event

BURNT = 5_000
EVENTS = 10


@pytest.fixture
async def crash_url(crash_postgres: PostgresServer) -> str:
    """A database on a server whose unflushed WAL stays unflushed, so that a crash loses it."""
    url = crash_postgres.address.create_database("marks")
    connection = await asyncpg.connect(url)
    await connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()
    return url


async def burn_xids(url: str, sender: RunningSender) -> None:
    """Transactions that are rolled back: the worker's snapshots count them, and no disk knows of them."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        f"DO $$ BEGIN FOR i IN 1..{BURNT} LOOP PERFORM pg_current_xact_id(); ROLLBACK; END LOOP; END $$"
    )
    await connection.close()
    await polled(url, sender)


async def polled(url: str, sender: RunningSender) -> None:
    """Until the worker's mark is past everything that has happened so far."""
    connection = await asyncpg.connect(url)
    xmax = int(await connection.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
    await connection.close()
    await sender.until(lambda: int(sender.relay.worker.news.mark.xmax) >= xmax)


def publish_elsewhere(url: str) -> list[str]:
    """By another process, as far as the worker can tell: it is not fed."""
    with Outbox(url) as outbox:
        keyed = [outbox.publish("order.created", {"n": n}, key=f"k{n}") for n in range(EVENTS - 2)]
        loose = [outbox.publish("order.created", {"n": n}) for n in range(2)]
    return [one.event_id for one in (*keyed, *loose)]


async def next_xid(url: str) -> int:
    connection = await asyncpg.connect(url)
    xid = int(await connection.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::text"))
    await connection.close()
    return xid


async def test_what_is_published_after_a_crash_that_lost_xids_is_delivered(
    crash_postgres: PostgresServer, crash_url: str, sink: Sink
) -> None:
    async with running_sender(crash_url) as sender:
        await sender.endpoint(sink.url())
        await sender.delivered((await sender.publish("order.created", key="warm")).event_id)
        await burn_xids(crash_url, sender)
        before = await next_xid(crash_url)

        await asyncio.to_thread(crash_postgres.stop_immediate)
        await asyncio.to_thread(crash_postgres.start)

        assert await next_xid(crash_url) < before, "the crash lost no xid: this test shows nothing"
        ids = await asyncio.to_thread(publish_elsewhere, crash_url)
        begun = time.monotonic()
        await sender.delivered(*ids)
        print(f"all {len(ids)} delivered {time.monotonic() - begun:.2f} s after the last publish")


async def test_what_is_published_after_a_backup_was_restored_is_delivered(
    crash_postgres: PostgresServer, crash_url: str, sink: Sink, tmp_path: Path
) -> None:
    """Under a living worker, whose name, lease and epochs are in the backup as well."""
    async with running_sender(crash_url) as sender:
        await sender.endpoint(sink.url())
        await sender.delivered((await sender.publish("order.created", key="warm")).event_id)
        await asyncio.to_thread(crash_postgres.stop)
        await asyncio.to_thread(crash_postgres.keep_a_copy, tmp_path / "backup")
        await asyncio.to_thread(crash_postgres.start)
        lost = await asyncio.to_thread(publish_elsewhere, crash_url)
        await sender.delivered(*lost)
        await burn_xids(crash_url, sender)

        await asyncio.to_thread(crash_postgres.stop)
        await asyncio.to_thread(crash_postgres.restore, tmp_path / "backup")
        await asyncio.to_thread(crash_postgres.start)

        ids = await asyncio.to_thread(publish_elsewhere, crash_url)
        await sender.delivered(*ids)


async def test_behind_a_pooler_a_worker_stays_until_the_server_crashes(
    crash_postgres: PostgresServer, crash_url: str, sink: Sink
) -> None:
    async with pooler(crash_url) as (url, _), running_sender(url) as sender:
        await sender.endpoint(sink.url())
        await sender.delivered((await sender.publish("order.created", key="warm")).event_id)
        before = sender.relay.worker.name
        sessions = {sender.relay.worker.news.session.id}

        def polled_on_all() -> bool:
            sessions.add(sender.relay.worker.news.session.id)
            return len(sessions) == 3

        await sender.until(polled_on_all)
        assert sender.relay.worker.name == before, "each of these sessions is as old as the others"
        await burn_xids(crash_url, sender)

        await asyncio.to_thread(crash_postgres.stop_immediate)
        await asyncio.to_thread(crash_postgres.start)

        ids = await asyncio.to_thread(publish_elsewhere, crash_url)
        await sender.delivered(*ids)
        assert sender.relay.worker.name != before


async def test_a_worker_keeps_its_mark_while_the_session_that_read_it_lives(postgres_url: str) -> None:
    store = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await store.open()
    owner = await Owner.of(store)
    load = await owner.load()

    polls = [await store.poll("w1", list(owner.epochs), load.mark) for _ in range(3)]
    await asyncio.gather(*(store.poll("w1", list(owner.epochs), load.mark) for _ in range(3)))
    others = [await store.poll("w1", list(owner.epochs), polls[-1].mark) for _ in range(3)]
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("SELECT pg_terminate_backend($1)", int(others[-1].session.id.split()[0]))
    await connection.close()

    async def polled() -> News | None:
        with suppress(StoreError):
            return await store.poll("w1", list(owner.epochs), others[-1].mark)
        return None

    late = await eventually(polled)
    await store.close()

    assert all(still_holds(load.session, news.session, mark_lives=news.mark_lives) for news in polls)
    assert all(still_holds(polls[-1].session, news.session, mark_lives=news.mark_lives) for news in others)
    assert not still_holds(others[-1].session, late.session, mark_lives=late.mark_lives)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with synchronous_pair() as servers:
        yield servers


async def test_what_is_published_after_a_failover_is_delivered(pair: Pair, sink: Sink) -> None:
    async with running_sender(pair.url()) as sender:
        await sender.endpoint(sink.url())
        await sender.delivered((await sender.publish("order.created", key="warm")).event_id)
        before, ids = sender.relay.worker.name, []
        await polled(pair.url(), sender)  # news are not told before the standby has them, and it will have nothing more
        await asyncio.to_thread(pair.freeze)
        await burn_xids(pair.url(), sender)

        await asyncio.to_thread(pair.fail_over)

        await asyncio.to_thread(pair.commits_wait_for, "")
        ids = await asyncio.to_thread(publish_elsewhere, pair.url())
        begun = time.monotonic()
        await sender.delivered(*ids)
        print(f"all {len(ids)} delivered {time.monotonic() - begun:.2f} s after the last publish")
        assert sender.relay.worker.name != before


async def test_a_publisher_does_not_believe_endpoints_of_a_database_that_is_no_more(pair: Pair) -> None:
    """Both know a revision that followed the same one: the lost endpoint's, and that of another one."""
    store = PostgresOutbox(pair.url(), StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(endpoint("ep_a"), expect=None)
    await asyncio.to_thread(pair.commits_wait_for, "")
    await asyncio.to_thread(pair.freeze)
    await store.save_endpoint(endpoint("ep_lost"), expect=None)
    with Outbox(pair.url()) as outbox:
        outbox.publish("order.created", {}, key="k")
        await store.publish([draft(event("e1", "k"))])

        await asyncio.to_thread(pair.fail_over)
        await asyncio.to_thread(pair.commits_wait_for, "")
        other = PostgresOutbox(pair.url(), StoreOptions(placer=places))
        await other.open()
        await other.save_endpoint(endpoint("ep_new"), expect=None)
        await other.close()

        published = await asyncio.to_thread(outbox.publish, "order.created", {}, key="k")
        (result,) = (await store.publish([draft(event("e2", "k"))])).results
    await store.close()

    assert isinstance(result, Published)
    assert sorted(stamp.endpoint_id for stamp in result.stamps) == ["ep_a", "ep_new"]
    assert sorted(stamp.endpoint_id for stamp in published.stamps) == ["ep_a", "ep_new"]
