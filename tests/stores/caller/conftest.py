"""A database with one small table, for each kind of connection that a caller may have."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from zlib import crc32

import psycopg
import pytest
from tests.support.connections import EVERY, ON_POSTGRES, ON_SQLITE, TABLE, Open

from hooklane.store.caller import DatabaseIdentity, PostgresIdentity, SqliteIdentity, adapt, identify_postgres

ON_EVERY_KIND = {
    "test_an_event_is_published_by_the_callers_commit",
    "test_s3_a_rollback_takes_the_event_along_and_leaves_no_gap",
    "test_a_commit_is_refused_before_it_happens_with_every_driver",
}
"""What `make test` shows on every kind of connection. Of all else it shows each case on one kind on SQLite and on three
on PostgreSQL, in turns, so that each kind sees a quarter of the cases; the whole product soaks."""


@pytest.hookimpl(tryfirst=True)  # before those that soak are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    kinds_of: dict[str, dict[str, list[pytest.Item]]] = {}
    for item in items:
        kind = item.callspec.params.get("kind") if hasattr(item, "callspec") else None
        name = item.nodeid.partition("[")[0]
        if (
            kind is not None
            and Path(__file__).parent in item.path.parents
            and name.partition("::")[2] not in ON_EVERY_KIND
        ):
            kinds_of.setdefault(name, {}).setdefault(kind, []).append(item)
    for name, kinds in kinds_of.items():
        if len(kinds) <= len(ON_SQLITE):
            continue
        turn = crc32(name.partition("::")[2].encode())  # the same, whichever tests were asked for
        share = {*list(ON_POSTGRES)[turn % 4 :: 4], list(ON_SQLITE)[turn % len(ON_SQLITE)]}
        for kind in kinds.keys() - share:
            for item in kinds[kind]:
                item.add_marker(pytest.mark.soak)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    path = tmp_path / "caller.db"
    with sqlite3.connect(path) as connection:
        connection.execute(TABLE.format(bytes="blob"))
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture
def noted_postgres_url(postgres_url: str) -> str:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(TABLE.format(bytes="bytea"))
    return postgres_url


@pytest.fixture
def sqlite_identity(sqlite_url: str) -> SqliteIdentity:
    return SqliteIdentity(Path(sqlite_url.removeprefix("sqlite:///")))


@pytest.fixture
def postgres_identity(noted_postgres_url: str) -> PostgresIdentity:
    with psycopg.connect(noted_postgres_url) as connection:
        return adapt(connection).run(identify_postgres())


@pytest.fixture(params=EVERY)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, kind: str) -> str:
    return str(request.getfixturevalue("sqlite_url" if kind in ON_SQLITE else "noted_postgres_url"))


@pytest.fixture
def identity(request: pytest.FixtureRequest, kind: str) -> DatabaseIdentity:
    return request.getfixturevalue("sqlite_identity" if kind in ON_SQLITE else "postgres_identity")


@pytest.fixture
async def owned(kind: str, url: str) -> AsyncIterator[Open]:
    """A connection of each kind, and how its owner ends the transaction."""
    async with EVERY[kind](url) as opened:
        yield opened
