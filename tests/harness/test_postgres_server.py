import os
import subprocess
from pathlib import Path

import asyncpg
import psycopg
import pytest
from tests.support import postgres as pg
from tests.support.postgres import Postgres, PostgresMissing, PostgresServer, installation, installations


def test_a_test_gets_an_empty_database(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        connection.execute("CREATE TABLE left_behind (id int)")

    assert tables == (0,)


def test_a_test_does_not_see_the_tables_of_another(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("SELECT * FROM left_behind")


async def test_each_version_of_the_machine_runs_and_speaks_asyncpg(
    each_postgres_url: str, request: pytest.FixtureRequest
) -> None:
    connection = await asyncpg.connect(each_postgres_url)
    try:
        version = connection.get_server_version().major
    finally:
        await connection.close()

    assert version in {one.major for one in installations()}
    assert f"pg{version}" in request.node.name


def test_the_shared_server_spares_the_disk(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("off",)


def test_two_databases_at_once_are_apart(postgres_server: Postgres) -> None:
    with postgres_server.fresh_database() as one, postgres_server.fresh_database() as other:
        with psycopg.connect(one) as connection:
            connection.execute("CREATE TABLE thing (id int)")
        with psycopg.connect(other) as connection, pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM thing")


def test_a_database_goes_away_although_a_test_forgot_its_connection(postgres_server: Postgres) -> None:
    with postgres_server.fresh_database() as url:
        forgotten = psycopg.connect(url)

    with pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    forgotten.close()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_what_was_committed_survives_a_crash_of_the_server(crash_postgres: PostgresServer) -> None:
    url = crash_postgres.address.create_database("crash")
    with psycopg.connect(url, autocommit=True) as writer:
        assert writer.execute("SHOW fsync").fetchone() == ("on",)
        writer.execute("CREATE TABLE ledger (id int)")
        writer.execute("INSERT INTO ledger VALUES (7)")
        writer.execute("BEGIN")
        writer.execute("INSERT INTO ledger VALUES (8)")
        crash_postgres.stop_immediate()

        with pytest.raises(psycopg.OperationalError):
            writer.execute("COMMIT")

    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    crash_postgres.start()
    with psycopg.connect(url) as reader:
        assert reader.execute("SELECT id FROM ledger").fetchall() == [(7,)]
    assert "not properly shut down" in crash_postgres.log()


def test_a_version_that_is_not_there_is_named() -> None:
    with pytest.raises(PostgresMissing, match="PostgreSQL 9 is missing: found only"):
        installation(9)


def test_root_without_user_namespaces_runs_it_as_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pg, "IN_NAMESPACE", ("false",))
    program = pg.installation().bin / "postgres"
    is_root = os.geteuid() == 0
    nobody_may_run_it = is_root and not subprocess.run(["test", "-x", program], user=65534, check=False).returncode

    if is_root and not nobody_may_run_it:
        with pytest.raises(PostgresMissing, match="run the tests as a plain user"), pg.postgres_server():
            pass
    else:
        with pg.postgres_server() as server, psycopg.connect(server.address.url()) as connection:
            owner = Path(f"/proc/{server.pid}").stat().st_uid
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert owner == (65534 if is_root else os.geteuid())
