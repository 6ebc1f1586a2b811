"""When a whole table is locked, or the database is set to be strict: all publishes wait, and none is forgotten."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from tests.support.pace import scaled_s

from hooklane.core.fanout import places
from hooklane.errors import StoreUnavailable
from hooklane.model.attempt import DELIVERED
from hooklane.sender.publisher import Publisher
from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.outbox import BUSY, Published, Refused, StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.testing.conformance_outbox.kit import Owner, draft, endpoint, event, published


@pytest.fixture
async def impatient(postgres_url: str) -> AsyncIterator[PostgresOutbox]:
    """A store on a database that lets no session wait long for a lock."""
    conn = await asyncpg.connect(postgres_url)
    name = await conn.fetchval("SELECT current_database()")
    await conn.execute(f"ALTER DATABASE \"{name}\" SET lock_timeout = '100ms'")
    await conn.close()
    store = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    yield store
    await store.close()


async def test_a_publish_that_meets_a_locked_table_is_answered_when_it_is_free(
    store: PostgresOutbox, conn: asyncpg.Connection
) -> None:
    await published(store, event("evt_0", "k"))
    publisher = Publisher(store)

    async with conn.transaction():
        await conn.execute("LOCK TABLE hooklane.lane_tail IN ACCESS EXCLUSIVE MODE")
        # One without a key makes them go the longer way, which waits for no lock.
        drafts = [draft(event("evt_1", "k")), draft(event("evt_2", None))]
        (keyed, loose) = (await store.publish(drafts)).results
        publishing = asyncio.gather(*map(publisher.publish, drafts))
        await asyncio.sleep(0.2)
        assert not publishing.done()

    assert [one.code for one in (keyed, loose) if isinstance(one, Refused)] == [BUSY, BUSY]
    async with asyncio.timeout(scaled_s(10)):
        results = await publishing
    assert [one.stamps[0].seq for one in results if isinstance(one, Published)] == [2, None]


async def test_an_ack_that_lost_a_race_is_made_the_longer_way(
    store: PostgresOutbox, conn: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane_id = (await published(store, event("evt_0", "k"))).grown[0].lane_id
    owner = await Owner.of(store)

    async def lost(_: object, run: int) -> None:
        raise asyncpg.SerializationError("could not serialize access due to concurrent update")

    monkeypatch.setattr(store.db, "once", lost)
    await owner.settle(lane_id, DELIVERED)

    assert await conn.fetchval("SELECT head FROM hooklane.ack WHERE lane_id = $1", lane_id) == 2


async def test_an_ack_waits_for_a_locked_table_though_the_database_would_not(
    impatient: PostgresOutbox, postgres_url: str
) -> None:
    lane_id = (await published(impatient, event("evt_0", "k"))).grown[0].lane_id
    owner = await Owner.of(impatient)
    settlement = await owner.settlement(lane_id, DELIVERED)
    conn = await asyncpg.connect(postgres_url)

    async with conn.transaction():
        await conn.execute("LOCK TABLE hooklane.ack IN ACCESS EXCLUSIVE MODE")
        committing = asyncio.create_task(owner.commit(settlement))
        await asyncio.sleep(0.3)
        assert not committing.done()
    await conn.close()

    assert (await committing).fenced == frozenset()
    assert (await owner.row(lane_id)).head == 2


@pytest.mark.parametrize(("verb", "table"), [("load", "ack"), ("poll", "lane_tail"), ("fetch", "lane_event")])
async def test_an_owner_that_may_not_wait_for_a_lock_is_told_to_come_back(
    impatient: PostgresOutbox, postgres_url: str, verb: str, table: str
) -> None:
    """What it gets is an error that it knows: by any other, the deliver role would end."""
    lane_id = (await published(impatient, event("evt_0", "k"))).grown[0].lane_id
    owner = await Owner.of(impatient)
    mark = (await owner.load()).mark
    calls = {
        "load": owner.load,
        "poll": lambda: impatient.poll("w1", list(owner.epochs), mark),
        "fetch": lambda: impatient.fetch([(lane_id, 1, 1)]),
    }
    conn = await asyncpg.connect(postgres_url)

    async with conn.transaction():
        await conn.execute(f"LOCK TABLE hooklane.{table} IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreUnavailable):
            await calls[verb]()
    await conn.close()


async def test_what_is_done_every_few_seconds_reads_no_names(store: PostgresOutbox, conn: asyncpg.Connection) -> None:
    """A name outlives its promised week with its event: three weeks of them were read every two seconds."""
    async with conn.transaction():
        await conn.execute("LOCK TABLE hooklane.idempotency IN ACCESS EXCLUSIVE MODE")
        await store.tidy()


async def test_a_stricter_isolation_of_the_database_is_not_ours(store: PostgresOutbox, postgres_url: str) -> None:
    """Publishers of one lane would otherwise be answered by turns that they come too late."""
    conn = await asyncpg.connect(postgres_url)
    await conn.execute(
        f'ALTER DATABASE "{await conn.fetchval("SELECT current_database()")}"'
        " SET default_transaction_isolation = 'serializable'"
    )
    await conn.close()
    strict = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await strict.open()
    asked = Statement("SHOW transaction_isolation")

    def flow() -> Flow[str]:
        ((level,),) = yield asked
        return str(level)

    assert await strict.db.write(flow) == "read committed"
    await strict.db.once(asked)  # the first one makes a connection stand ready
    assert [tuple(row) for row in await strict.db.once(asked)] == [("read committed",)]
    await strict.close()
