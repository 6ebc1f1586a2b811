"""`Outbox.publish(tx=…)`: gapless, in the order of the commits, and gone with a rollback, with every driver."""

import asyncio
import gc
import sqlite3
import warnings
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from tests.support.connections import EVERY, ON_POSTGRES, ON_SQLITE, Open, ask, settle

from hooklane.core.fanout import places
from hooklane.errors import InvalidEvent, UsageError
from hooklane.sender.outbox import Outbox
from hooklane.store.caller import adapt
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions
from hooklane.testing.conformance_outbox.kit import Owner, add_tenants, endpoint


@pytest.fixture
async def outbox(url: str) -> AsyncIterator[Outbox]:
    store = outbox_store(url, StoreOptions(places))
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    await store.close()
    return Outbox(url)


async def delivered(url: str) -> list[tuple[str | None, int, bytes]]:
    """What a worker would send: key, seq and data of everything that is owed, in order."""
    store = outbox_store(url, StoreOptions(places))
    await store.open()
    try:
        lanes = await (await Owner.of(store, "checker")).loaded()
        found = await store.fetch([(row.id, row.head, 100) for row in lanes.values()])
        return sorted(
            ((one.key, seq, one.data) for _, seq, one in found), key=lambda item: (item[0] or "", item[1], item[2])
        )
    finally:
        await store.close()


async def test_an_event_is_published_by_the_callers_commit(url: str, outbox: Outbox, owned: Open) -> None:
    await settle(adapt(owned.tx).run(ask("INSERT INTO note (id) VALUES (1)")))
    published = await settle(outbox.publish("order.created", {"id": 7}, key="order:7", tx=owned.tx))
    await settle(owned.commit())

    assert [stamp.seq for stamp in published.stamps] == [1]
    assert await delivered(url) == [("order:7", 1, b'{"id":7}')]


async def test_s3_a_rollback_takes_the_event_along_and_leaves_no_gap(url: str, outbox: Outbox, owned: Open) -> None:
    await settle(outbox.publish("order.created", 1, key="k", tx=owned.tx))
    await settle(owned.rollback())
    outbox.publish("order.created", 2, key="k")

    assert await delivered(url) == [("k", 1, b"2")]


async def test_many_at_once_keep_their_order(url: str, outbox: Outbox, owned: Open) -> None:
    events = [{"type": "t", "data": n, "key": "ab"[n % 2]} for n in range(4)] + [{"type": "t", "data": 9}]
    await settle(outbox.publish_many(events, tx=owned.tx))
    await settle(owned.commit())

    assert await delivered(url) == [(None, 1, b"9"), ("a", 1, b"0"), ("a", 2, b"2"), ("b", 1, b"1"), ("b", 2, b"3")]


async def test_a_refused_event_leaves_no_trace_though_the_caller_commits(url: str, outbox: Outbox, owned: Open) -> None:
    events = [{"type": "t", "data": 1, "key": "k"}, {"type": "t", "data": 2, "key": "k", "endpoints": ["ep_nowhere"]}]
    with pytest.raises(InvalidEvent, match="ep_nowhere"):
        await settle(outbox.publish_many(events, tx=owned.tx))
    await settle(outbox.publish("t", 3, key="k", tx=owned.tx))
    await settle(owned.commit())

    assert await delivered(url) == [("k", 1, b"3")]


async def test_the_same_idempotency_key_is_one_event(url: str, outbox: Outbox, owned: Open) -> None:
    first = outbox.publish("t", 1, key="k", idempotency_key="once")
    again = await settle(outbox.publish("t", 1, key="k", idempotency_key="once", tx=owned.tx))
    with pytest.raises(InvalidEvent, match="other content"):
        await settle(outbox.publish("t", 2, key="k", idempotency_key="once", tx=owned.tx))
    await settle(owned.commit())

    assert (first.event_id, True) == (again.event_id, again.repeated)
    assert await delivered(url) == [("k", 1, b"1")]


@pytest.mark.parametrize("kind", ON_POSTGRES)
@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_s3_two_transactions_on_one_key_deliver_in_commit_order(
    kind: str, url: str, outbox: Outbox, end: str
) -> None:
    """The second waits for the first one's counter, so seqs follow the commits; a rollback leaves no gap."""
    async with EVERY[kind](url) as first, EVERY[kind](url) as second:
        await settle(outbox.publish("t", 1, key="k", tx=first.tx))
        # In a thread of its own where the driver blocks; the loop stays free to end the first.
        waiting = asyncio.create_task(_apart(outbox, second.tx))
        await asyncio.wait([waiting], timeout=0.15)
        assert not waiting.done()
        await settle(getattr(first, end)())
        published = await waiting
        await settle(second.commit())

    assert [2 if end == "commit" else 1] == [stamp.seq for stamp in published.stamps]
    expected = [("k", 1, b"1"), ("k", 2, b"2")] if end == "commit" else [("k", 1, b"2")]
    assert expected == await delivered(url)


async def _apart(outbox: Outbox, tx: Any) -> Any:
    if adapt(tx).is_async:
        return await outbox.publish("t", 2, key="k", tx=tx)
    return await asyncio.to_thread(outbox.publish, "t", 2, key="k", tx=tx)


@pytest.mark.parametrize("kind", ON_SQLITE)
async def test_on_sqlite_the_second_transaction_waits_for_the_first(url: str, outbox: Outbox, owned: Open) -> None:
    outbox.publish("t", 1, key="k", tx=owned.tx)
    other = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        outbox.publish("t", 2, key="k", tx=other)

    owned.commit()
    outbox.publish("t", 2, key="k", tx=other)
    other.commit()
    other.close()

    assert await delivered(url) == [("k", 1, b"1"), ("k", 2, b"2")]


async def test_publishing_never_waits_for_delivery(url: str, outbox: Outbox, owned: Open) -> None:
    store = outbox_store(url, StoreOptions(places))
    await store.open()
    outbox.publish("t", 1, key="k")
    owner = await Owner.of(store)
    (lane_id,) = await owner.loaded()
    await owner.kill(lane_id)

    published = await settle(outbox.publish("t", 2, key="k", tx=owned.tx))
    await settle(owned.commit())

    assert [stamp.seq for stamp in published.stamps] == [2]
    await store.close()


async def test_a_connection_to_another_database_is_refused(
    kind: str, outbox: Outbox, tmp_path: Path, postgres_server: Any
) -> None:
    if kind in ON_SQLITE:
        async with EVERY[kind](f"sqlite:///{tmp_path / 'elsewhere.db'}") as owned:
            with pytest.raises(UsageError, match="another database"):
                await settle(outbox.publish("t", 1, tx=owned.tx))
        return
    with postgres_server.fresh_database() as elsewhere:
        async with EVERY[kind](elsewhere) as owned:
            with pytest.raises(UsageError, match="another database"):
                await settle(outbox.publish("t", 1, tx=owned.tx))


@pytest.mark.parametrize("kind", ["psycopg"])
def test_crosswise_publishes_get_the_databases_own_deadlock(url: str, outbox: Outbox) -> None:
    """One by one and in the other order: that is why `publish_many` and "publish last" are in the documentation."""
    with psycopg.connect(url) as one, psycopg.connect(url) as other:
        outbox.publish("t", 1, key="a", tx=one)
        outbox.publish("t", 1, key="b", tx=other)

        def publish(key: str, tx: psycopg.Connection[Any]) -> str | None:
            try:
                outbox.publish("t", 2, key=key, tx=tx)
            except psycopg.Error as error:
                tx.rollback()  # as any caller does; until then the other one waits
                return error.sqlstate
            return None

        with ThreadPoolExecutor(2) as threads:
            outcomes = list(threads.map(publish, ["b", "a"], [one, other]))

    assert {"40P01", None} == set(outcomes)


@pytest.mark.parametrize("kind", ["asyncpg"])
async def test_a_repeatable_read_caller_gets_the_databases_own_conflict(url: str, outbox: Outbox) -> None:
    outbox.publish("t", 1, key="k")
    connection = await asyncpg.connect(url)
    transaction = connection.transaction(isolation="repeatable_read")
    await transaction.start()
    await connection.fetchval("SELECT count(*) FROM note")
    outbox.publish("t", 2, key="k")

    with pytest.raises(asyncpg.SerializationError):
        await outbox.publish("t", 3, key="k", tx=connection)
    await transaction.rollback()
    await connection.close()


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Decimal("0.10"), r"write str\(value\)"),
        (datetime(2026, 1, 2, tzinfo=UTC), r"write value\.isoformat\(\), with a time zone"),
        (date(2026, 1, 2), r"write value\.isoformat\(\)"),
        (float("nan"), "NaN and Infinity have no JSON form"),
        (float("-inf"), "NaN and Infinity have no JSON form"),
        (b"\x00", "b64encode"),
        ({1}, r"write sorted\(value\)"),
        ("\ud800", "lone surrogate"),
        (10**70, "more than 64 characters"),
        ({1: "a", "1": "b"}, "the same key twice"),
        ({("a", 1): "b"}, r"keys must be str.*: write str\(name\)"),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite3"])
def test_data_that_json_has_no_word_for_is_refused_with_advice(outbox: Outbox, value: Any, advice: str) -> None:
    with pytest.raises(InvalidEvent, match=advice):
        outbox.publish("order.created", {"value": value}, key="order:7")


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"key": 7}, r"key must be text, got 7: write str\(value\)"),
        ({"id": 7}, "id must be text"),
        ({"idempotency_key": b"k"}, "idempotency_key must be text"),
        ({"type": None}, "type must be text, got None"),
        ({"endpoints": "ep_a"}, "endpoints must be a list of ids, got 'ep_a'"),
        ({"endpoints": 7}, "endpoints must be a list of ids, got 7"),
        ({"endpoints": [7]}, r"endpoints must be a list of ids, got \[7\]"),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite3"])
def test_what_must_be_text_is_refused_with_advice(outbox: Outbox, wrong: dict[str, Any], advice: str) -> None:
    with pytest.raises(InvalidEvent, match=advice):
        outbox.publish(**{"type": "order.created", "data": 1} | wrong)


@pytest.mark.parametrize("kind", ["psycopg-async", "asyncpg", "sqlalchemy-asyncpg-session"])
async def test_a_publish_that_is_not_awaited_is_named_by_the_warning(outbox: Outbox, owned: Open) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outbox.publish("order.created", 1, tx=owned.tx)
        gc.collect()

    said = [str(warning.message) for warning in caught if "never awaited" in str(warning.message)]
    assert said == ["coroutine 'Outbox.publish' was never awaited"]


@pytest.mark.parametrize("kind", ["psycopg"])
def test_publishers_do_not_fail_each_other_under_a_stricter_default(url: str, outbox: Outbox) -> None:
    """Their own transactions are READ COMMITTED, whatever the database begins others with."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            f"ALTER DATABASE {connection.info.dbname} SET default_transaction_isolation = 'serializable'".encode()
        )

    def publish(n: int) -> list[int]:
        with Outbox(url) as mine:
            return [mine.publish("t", n, key="k").stamps[0].seq for _ in range(10)]

    with ThreadPoolExecutor(4) as threads:
        seqs = [seq for some in threads.map(publish, range(4)) for seq in some]

    assert sorted(seqs) == list(range(1, 41))


@pytest.mark.parametrize("kind", ["psycopg", "sqlite3"])
def test_a_closed_outbox_keeps_no_connection_and_may_be_used_again(url: str, outbox: Outbox) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with Outbox(url) as mine:
            mine.publish("t", 1, key="k")
        assert mine.publish("t", 2, key="k").stamps[0].seq == 2
        mine.close()
        del mine
        gc.collect()


async def test_an_outbox_publishes_for_its_own_tenant_alone(url: str, outbox: Outbox, owned: Open) -> None:
    store = outbox_store(url, StoreOptions(places))
    await store.open()
    await add_tenants(store, "acme")
    await store.save_endpoint(endpoint("ep_acme", tenant="acme"), expect=None)
    await store.close()

    mine = await settle(Outbox(url, tenant="acme").publish("order.created", {"id": 7}, key="k", tx=owned.tx))
    with pytest.raises(InvalidEvent, match="no tenant 'nobody'"):
        await settle(Outbox(url, tenant="nobody").publish("order.created", {"id": 8}, key="k", tx=owned.tx))
    await settle(owned.commit())

    assert [stamp.endpoint_id for stamp in mine.stamps] == ["ep_acme"]
    assert await delivered(url) == [("k", 1, b'{"id":7}')]
    with pytest.raises(UsageError, match="no tenant can have the id"):
        Outbox(url, tenant="a b")
