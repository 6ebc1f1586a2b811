"""Opening a PostgreSQL store: migrations by one at a time, and one clear line when it cannot be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from tests.promises.receiving.kit import own_source, signed
from tests.stores.outbox.test_upgrade import COUNTED_TAILS, undone
from tests.support.pace import scaled_s

from hooklane import Inbox, Outbox
from hooklane.core.fanout import places
from hooklane.errors import StoreRefused, StoreUnavailable
from hooklane.store.caller.flow import Rows, Statement, drive
from hooklane.store.caller.placeholders import Style, bind
from hooklane.store.outbox import StoreOptions
from hooklane.store.postgres import database, schema
from hooklane.store.postgres.database import Database
from hooklane.store.postgres.outbox import PostgresOutbox, publish_port
from hooklane.store.postgres.outbox.publish_port import PostgresPublishPort
from hooklane.store.sql.migration_files import statements_of
from hooklane.testing.conformance_outbox.kit import endpoint, event, published

OPTIONS = StoreOptions(placer=places)


async def opened(url: str) -> PostgresOutbox:
    store = PostgresOutbox(url, OPTIONS)
    await store.open()
    return store


async def test_many_who_open_an_empty_database_at_once_migrate_it_once(empty_postgres_url: str) -> None:
    stores = await asyncio.gather(*(opened(empty_postgres_url) for _ in range(5)))

    rosters = [await store.roster() for store in stores]
    assert {256} == {roster.free for roster in rosters}
    for store in stores:
        await store.close()


async def test_opening_again_changes_nothing(each_postgres_url: str) -> None:
    store = await opened(each_postgres_url)
    await store.join("w1", 60_000)
    await store.acquire("w1", 10)
    await store.close()

    store = await opened(each_postgres_url)
    PostgresPublishPort(each_postgres_url, OPTIONS).close()

    assert (await store.roster()).owned == {"w1": 10}
    await store.close()


async def test_a_newer_schema_is_refused_and_not_touched(empty_postgres_url: str) -> None:
    await (await opened(empty_postgres_url)).close()
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("UPDATE hooklane.schema SET version = 99")

    with pytest.raises(StoreRefused, match="schema 99, newer than this hooklane's"):
        await opened(empty_postgres_url)
    with pytest.raises(StoreRefused, match="schema 99, newer than this hooklane's"):
        PostgresPublishPort(empty_postgres_url, OPTIONS)


async def test_a_role_that_may_only_use_the_tables_can_open_them(empty_postgres_url: str) -> None:
    await (await opened(empty_postgres_url)).close()
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute("CREATE ROLE hooklane_app LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA hooklane TO hooklane_app")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA hooklane TO hooklane_app")
        connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA hooklane TO hooklane_app")
    try:
        store = await opened(empty_postgres_url.replace("postgres@", "hooklane_app@"))
        assert (await store.roster()).free == 256
        await store.close()
    finally:
        with psycopg.connect(empty_postgres_url) as connection:
            connection.execute("DROP OWNED BY hooklane_app")
            connection.execute("DROP ROLE hooklane_app")


async def test_a_migration_that_another_process_runs_is_waited_for_and_then_given_up(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "LOCK_WAIT", "100ms")
    other = await asyncpg.connect(empty_postgres_url)
    await other.execute("BEGIN; " + schema._SQL["schema_lock"])

    with pytest.raises(StoreUnavailable, match="another process is migrating it"):
        await opened(empty_postgres_url)
    await other.close()


async def test_a_migration_does_not_keep_publishers_waiting_behind_an_open_transaction(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "TABLE_WAIT", "100ms")
    store = await opened(empty_postgres_url)
    await store.save_endpoint(endpoint(), expect=None)
    await published(store, event("e1", "a"))
    await store.close()
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute(undone(publish_port.MIGRATIONS) + COUNTED_TAILS)
        connection.execute("UPDATE hooklane.schema SET version = 4 WHERE component = 'outbox'")
    backup = await asyncpg.connect(empty_postgres_url)
    await backup.execute("BEGIN; SELECT FROM hooklane.lane_tail")

    async with asyncio.timeout(scaled_s(5)):
        with pytest.raises(StoreUnavailable, match="a transaction that is still open"):
            await opened(empty_postgres_url)
    await backup.close()

    store = await opened(empty_postgres_url)
    assert [one.seq for one in (await published(store, event("e2", "a"))).grown] == [2]
    await store.close()


async def test_no_server_at_the_address_is_one_clear_line_without_the_password() -> None:
    with pytest.raises(
        StoreUnavailable, match=r"^postgresql://me:\*\*\*@127\.0\.0\.1:1/x: PostgreSQL cannot be reached"
    ) as caught:
        await opened("postgresql://me:secret@127.0.0.1:1/x")

    assert "secret" not in str(caught.value)


async def test_a_database_that_does_not_exist_is_refused(empty_postgres_url: str) -> None:
    with pytest.raises(StoreRefused, match="does not exist"):
        await opened(empty_postgres_url + "_nowhere")


def test_a_script_is_cut_where_its_statements_end() -> None:
    script = "-- a; comment\nSELECT 1; -- trailing\nCREATE FUNCTION f() AS $$\n  SELECT 1;\n$$;\n"

    assert list(statements_of(script)) == ["SELECT 1;", "CREATE FUNCTION f() AS $$\n  SELECT 1;\n$$;"]
    with pytest.raises(StoreRefused, match="in the middle"):
        list(statements_of("SELECT 1"))


@asynccontextmanager
async def encoded(url: str, encoding: str) -> AsyncIterator[str]:
    """The URL of a database of this *encoding*, beside the one at *url*."""
    name = f"{url.rpartition('/')[2]}_{encoding.lower()}"
    conn = await asyncpg.connect(url)
    await conn.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
    try:
        yield f"{url.rpartition('/')[0]}/{name}"
    finally:
        await conn.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await conn.close()


async def test_a_database_that_cannot_hold_every_text_is_refused(empty_postgres_url: str) -> None:
    """One key that it cannot hold would refuse all that share a commit with it."""
    async with encoded(empty_postgres_url, "LATIN1") as url:
        with pytest.raises(StoreRefused, match=r"encoding of this database is LATIN1.* ENCODING 'UTF8'"):
            await opened(url)


async def test_an_inbox_is_not_kept_in_a_database_that_cannot_hold_every_text(empty_postgres_url: str) -> None:
    """Naive: it is, and an event with a letter that the database lacks is answered 503 until its provider gives up."""
    async with encoded(empty_postgres_url, "LATIN1") as url:
        for where in (url, lambda: psycopg.connect(url)):
            with pytest.raises(StoreRefused, match=r"encoding of this database is LATIN1.* ENCODING 'UTF8'"):
                await asyncio.to_thread(Inbox, where)


async def test_an_inbox_does_not_speak_an_encoding_that_cannot_say_every_text(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreRefused, match="client_encoding of this connection is LATIN1"):
        await asyncio.to_thread(Inbox, lambda: psycopg.connect(empty_postgres_url, client_encoding="latin1"))

    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    assert await asyncio.to_thread(applied, empty_postgres_url) == ["snow ☃"]


async def test_an_inbox_and_an_outbox_work_where_the_database_does_not_look_at_bytes(empty_postgres_url: str) -> None:
    async with encoded(empty_postgres_url, "SQL_ASCII") as url:
        assert await asyncio.to_thread(applied, url) == ["snow ☃"]
        await (await opened(url)).close()
        published = await asyncio.to_thread(lambda: Outbox(url).publish("t", {"k": "☃"}, key="snow ☃"))
        assert published.key == "snow ☃"


def applied(url: str) -> list[str | None]:
    """The keys that a handler of an inbox at *url* sees, of one event."""
    keys: list[str | None] = []
    inbox = Inbox(url)
    own_source(inbox).on("*")(lambda event, tx: keys.append(event.key))
    assert inbox.receive(signed("evt_1", key="snow ☃", seq=1)).status == 200
    inbox.run_once()
    inbox.close()
    return keys


def rows_of(connection: psycopg.Connection[Any], asked: Statement) -> Rows:
    sql, values = bind(asked, Style.FORMAT)
    cursor = connection.execute(sql, values)  # type: ignore[call-overload]
    return cursor.fetchall() if cursor.description else []


LIMITED = (
    "ALTER ROLE CURRENT_USER IN DATABASE {} SET statement_timeout = '1s'",
    "ALTER ROLE CURRENT_USER IN DATABASE {} SET idle_in_transaction_session_timeout = '1s'",
)
LATER = "ALTER ROLE CURRENT_USER IN DATABASE {} SET transaction_timeout = '1s'"
"""PostgreSQL 17 and newer."""


@pytest.fixture
def limited_postgres_url(each_postgres_url: str) -> str:
    """A database in which the role's statements, transactions and pauses have a second."""
    with psycopg.connect(each_postgres_url, autocommit=True) as connection:
        for limit in (*LIMITED, *([LATER] if connection.info.server_version >= 170_000 else [])):
            connection.execute(limit.format(connection.info.dbname))  # type: ignore[arg-type]
    return each_postgres_url


async def test_a_migration_takes_as_long_as_it_takes(
    limited_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "COMMAND_WAIT_S", 1.3)
    large = Database(limited_postgres_url, size=1)
    await large.open()

    await large.migrate("large", ["SELECT pg_sleep(1.6);"])

    assert await large.read(lambda: schema.version_of("large")) == 1
    with pytest.raises(StoreUnavailable, match="timeout"):  # the limit is the role's again
        await large.write(lambda: (yield Statement("SELECT pg_sleep(1.6)")))
    await large.close()


def test_a_migration_on_a_connection_of_the_application_takes_as_long_as_it_takes(limited_postgres_url: str) -> None:
    with psycopg.connect(limited_postgres_url) as connection:
        drive(schema.migrate_once("large", ["SELECT pg_sleep(1.6);"]), lambda asked: rows_of(connection, asked))
    with psycopg.connect(limited_postgres_url) as connection:
        found = connection.execute("SELECT version FROM hooklane.schema").fetchall()

    assert found == [(1,)]
