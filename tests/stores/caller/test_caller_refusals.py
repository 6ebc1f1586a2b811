"""Connections on which a publish would not be atomic, or not be ours, are refused before anything is written."""

import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from tests.support.connections import EVERY, ON_POSTGRES, ON_SQLITE, Open, ask, settle
from tests.support.postgres import Postgres

from hooklane.errors import UsageError
from hooklane.store.caller import DatabaseIdentity, PostgresIdentity, SqliteIdentity, adapt

ONE = "SELECT 1"
AUTOCOMMIT = "autocommit with no transaction open"
FAILED = "already failed"


def with_scheme(url: str, scheme: str) -> str:
    return scheme + url[url.index("://") :]


async def test_another_database_is_refused(kind: str, owned: Open, tmp_path: Path) -> None:
    if kind in ON_SQLITE:
        elsewhere: DatabaseIdentity = SqliteIdentity(tmp_path / "other.db")
        (tmp_path / "other.db").touch()
    else:
        elsewhere = PostgresIdentity("elsewhere", 1, 2)

    with pytest.raises(UsageError, match="another database: expected"):
        await settle(adapt(owned.tx).run(ask(ONE), elsewhere))


async def test_a_database_of_another_dialect_is_refused(kind: str, owned: Open, tmp_path: Path) -> None:
    elsewhere = PostgresIdentity("db", 1, 2) if kind in ON_SQLITE else SqliteIdentity(tmp_path / "x.db")

    with pytest.raises(UsageError, match="the outbox is on"):
        await settle(adapt(owned.tx).run(ask(ONE), elsewhere))


@pytest.mark.parametrize("kind", ON_POSTGRES)  # SQLite has no such state
async def test_an_aborted_transaction_is_refused(owned: Open, identity: DatabaseIdentity) -> None:
    caller = adapt(owned.tx)
    with pytest.raises(Exception, match="division by zero"):
        await settle(caller.run(ask("SELECT 1 / 0")))

    for _ in range(2):  # and again, now that the database is known
        with pytest.raises(UsageError, match=FAILED):
            await settle(adapt(owned.tx).run(ask(ONE), identity))
    await settle(owned.rollback())


# A session is left out, it opens another connection; so is a pool's, which may already be somebody else's.
@pytest.mark.parametrize("kind", [kind for kind in EVERY if not kind.endswith(("session", "pool"))])
async def test_a_closed_connection_is_refused(kind: str, url: str) -> None:
    async with EVERY[kind](url) as opened:
        await settle(opened.tx.close())

        with pytest.raises(UsageError, match="is closed"):
            await settle(adapt(opened.tx).run(ask(ONE)))


async def test_a_connection_that_was_given_back_to_its_pool_is_refused(noted_postgres_url: str) -> None:
    async with asyncpg.create_pool(noted_postgres_url, min_size=1, max_size=1) as pool:
        connection = await pool.acquire()
        await pool.release(connection)

        with pytest.raises(UsageError, match="given back to its pool"):
            await settle(adapt(connection).run(ask(ONE)))


def test_psycopg_in_autocommit_is_refused_unless_in_a_block(noted_postgres_url: str) -> None:
    with psycopg.connect(noted_postgres_url, autocommit=True) as connection:
        with pytest.raises(UsageError, match=AUTOCOMMIT):
            adapt(connection).run(ask(ONE))
        with connection.transaction():
            assert list(adapt(connection).run(ask(ONE))) == [(1,)]


async def test_async_psycopg_in_autocommit_is_refused_unless_in_a_block(noted_postgres_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(noted_postgres_url, autocommit=True) as connection:
        with pytest.raises(UsageError, match=AUTOCOMMIT):
            await settle(adapt(connection).run(ask(ONE)))
        async with connection.transaction():
            assert list(await settle(adapt(connection).run(ask(ONE)))) == [(1,)]


def test_a_psycopg_pipeline_is_refused(noted_postgres_url: str) -> None:
    with (
        psycopg.connect(noted_postgres_url) as connection,
        connection.pipeline(),
        pytest.raises(UsageError, match="pipeline"),
    ):
        adapt(connection).run(ask(ONE))


def test_psycopg2_in_autocommit_is_refused(noted_postgres_url: str) -> None:
    connection = psycopg2.connect(noted_postgres_url)
    connection.autocommit = True

    with pytest.raises(UsageError, match=AUTOCOMMIT):
        adapt(connection).run(ask(ONE))
    connection.close()


async def test_asyncpg_outside_a_transaction_is_refused(noted_postgres_url: str) -> None:
    connection = await asyncpg.connect(noted_postgres_url)

    with pytest.raises(UsageError, match=AUTOCOMMIT):
        await settle(adapt(connection).run(ask(ONE)))
    await connection.close()


def test_sqlite_without_isolation_is_refused_unless_begun(sqlite_url: str) -> None:
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)

    with pytest.raises(UsageError, match=AUTOCOMMIT):
        adapt(connection).run(ask(ONE))
    connection.execute("BEGIN")
    assert list(adapt(connection).run(ask(ONE))) == [(1,)]
    connection.close()


@pytest.mark.parametrize("scheme", ["sqlite", "postgresql+psycopg", "postgresql+psycopg2"])
def test_sqlalchemy_in_autocommit_is_refused(scheme: str, sqlite_url: str, noted_postgres_url: str) -> None:
    url = with_scheme(sqlite_url if scheme == "sqlite" else noted_postgres_url, scheme)
    engine = create_engine(url, isolation_level="AUTOCOMMIT")

    with engine.connect() as connection, pytest.raises(UsageError, match=AUTOCOMMIT):
        adapt(connection).run(ask(ONE))
    with Session(engine) as session, pytest.raises(UsageError, match=AUTOCOMMIT):
        adapt(session).run(ask(ONE))
    engine.dispose()


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql+asyncpg"])
async def test_async_sqlalchemy_in_autocommit_is_refused(scheme: str, noted_postgres_url: str) -> None:
    engine = create_async_engine(with_scheme(noted_postgres_url, scheme), isolation_level="AUTOCOMMIT")

    async with engine.connect() as connection:
        with pytest.raises(UsageError, match=AUTOCOMMIT):
            await settle(adapt(connection).run(ask(ONE)))
    await engine.dispose()


def test_sqlalchemy_whose_begin_event_begins_is_accepted(sqlite_url: str, sqlite_identity: SqliteIdentity) -> None:
    engine = create_engine(sqlite_url)
    event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))

    with engine.begin() as connection:
        assert list(adapt(connection).run(ask(ONE), sqlite_identity)) == [(1,)]
    engine.dispose()


def test_a_scoped_session_is_its_session(sqlite_url: str, sqlite_identity: SqliteIdentity) -> None:
    engine = create_engine(sqlite_url)
    scoped = scoped_session(sessionmaker(engine))

    assert list(adapt(scoped).run(ask(ONE), sqlite_identity)) == [(1,)]
    scoped.remove()
    engine.dispose()


def test_a_session_without_a_database_is_refused() -> None:
    with pytest.raises(UsageError, match="no single database"):
        adapt(Session())


class Lookalike:
    """Nothing that we know."""


@pytest.mark.parametrize("tx", [Lookalike(), 7, "default", object()])
def test_an_unknown_kind_is_told_what_is_supported(tx: Any) -> None:
    with pytest.raises(UsageError, match=r"supported are sqlite3\.Connection, psycopg\.Connection"):
        adapt(tx)


def test_none_is_refused_because_atomic_yields_it() -> None:
    with pytest.raises(UsageError, match="tx is None"):
        adapt(None)


def test_an_engine_or_a_cursor_is_told_to_be_the_connection(sqlite_url: str) -> None:
    connection = sqlite3.connect(":memory:")
    for tx in (create_engine(sqlite_url), connection.cursor()):
        with pytest.raises(UsageError, match="pass the connection on which your transaction is open"):
            adapt(tx)
    connection.close()


def test_the_same_postgres_over_another_route_is_accepted(
    noted_postgres_url: str, postgres_identity: PostgresIdentity
) -> None:
    with psycopg.connect(noted_postgres_url.replace("127.0.0.1", "localhost")) as connection:
        assert list(adapt(connection).run(ask(ONE), postgres_identity)) == [(1,)]


def test_another_database_of_the_same_server_is_refused(
    postgres_server: Postgres, postgres_identity: PostgresIdentity
) -> None:
    with (
        postgres_server.fresh_database() as url,
        psycopg.connect(url) as connection,
        pytest.raises(UsageError, match="on the same server"),
    ):
        adapt(connection).run(ask(ONE), postgres_identity)


def test_a_role_without_rights_can_still_be_told_where_it_is(
    noted_postgres_url: str, postgres_identity: PostgresIdentity
) -> None:
    with psycopg.connect(noted_postgres_url) as connection:
        connection.execute("CREATE ROLE hooklane_nobody")
        connection.execute("SET LOCAL ROLE hooklane_nobody")
        try:
            assert list(adapt(connection).run(ask(ONE), postgres_identity)) == [(1,)]
        finally:
            connection.rollback()


def test_postgres_is_asked_where_it_is_once_per_connection(
    noted_postgres_url: str, postgres_identity: PostgresIdentity
) -> None:
    with psycopg.connect(noted_postgres_url, prepare_threshold=1) as connection:
        for _ in range(5):
            adapt(connection).run(ask(ONE), postgres_identity)
        asked = connection.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%pg_control_system%'"
        ).fetchone()

    assert asked == (0,)  # psycopg prepares what it sees a second time


def test_a_moved_sqlite_file_is_recognised_by_what_it_is(
    sqlite_url: str, sqlite_identity: SqliteIdentity, tmp_path: Path
) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(sqlite_identity.path)
    connection = sqlite3.connect(link)

    assert list(adapt(connection).run(ask(ONE), sqlite_identity)) == [(1,)]
    connection.close()


def test_a_sqlite_database_in_memory_is_refused(sqlite_identity: SqliteIdentity) -> None:
    connection = sqlite3.connect(":memory:")

    with pytest.raises(UsageError, match="in-memory"):
        adapt(connection).run(ask(ONE), sqlite_identity)
    connection.close()


def test_sqlite_begins_as_a_writer_so_that_it_never_waits_half_way(
    sqlite_url: str, sqlite_identity: SqliteIdentity
) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    ours, other = sqlite3.connect(path), sqlite3.connect(path, timeout=0)
    adapt(ours).run(ask("SELECT count(*) FROM note"), sqlite_identity)

    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    ours.close()
    other.close()


def test_factories_of_the_caller_do_not_matter(sqlite_url: str) -> None:
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    connection.row_factory = sqlite3.Row
    connection.text_factory = bytes

    assert adapt(connection).run(ask("SELECT 'text'")) == [("text",)]
    assert connection.text_factory is bytes
    connection.close()


def test_cursor_factories_of_the_caller_do_not_matter(noted_postgres_url: str) -> None:
    from psycopg2.extras import RealDictConnection

    with psycopg.connect(
        noted_postgres_url, row_factory=psycopg.rows.dict_row, cursor_factory=psycopg.RawCursor
    ) as connection:
        assert adapt(connection).run(ask("SELECT :n::int, :n::int", n=5)) == [(5, 5)]
    old = psycopg2.connect(noted_postgres_url, connection_factory=RealDictConnection)
    assert adapt(old).run(ask("SELECT :n::int", n=5)) == [(5,)]
    old.close()
