"""A database of an older hooklane is brought up to date with everything that it holds."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import psycopg

from hooklane.core.fanout import places
from hooklane.store.outbox import StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox, publish_port
from hooklane.store.sql.migration_files import migrations_of, statements_of
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.store.sqlite.outbox import store as sqlite_outbox
from hooklane.testing.conformance_outbox.announcing import announce
from hooklane.testing.conformance_outbox.kit import Outbox, Owner, endpoint, event, published

OPTIONS = StoreOptions(placer=places)
TABLES = ("lane", "loose", "redelivery")
# Attempts as they stood up to version 4: by their lane.
ATTEMPTS_BY_LANE = """
ALTER TABLE hooklane_attempt RENAME TO newer;
CREATE TABLE hooklane_attempt (
    lane_id INTEGER NOT NULL, seq INTEGER NOT NULL, started_at INTEGER NOT NULL, attempt INTEGER NOT NULL,
    tenant TEXT NOT NULL, took_ms REAL NOT NULL, outcome TEXT NOT NULL, status INTEGER, failure TEXT, said TEXT,
    detail BLOB, PRIMARY KEY (lane_id, seq, started_at, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO hooklane_attempt SELECT lane_id, seq, started_at, attempt, tenant, took_ms, outcome, status, failure, said,
    detail FROM newer;
DROP TABLE newer;
"""
# Lanes as they stood up to version 4: with a counter.
COUNTED_TAILS = """
UPDATE hooklane.lane_name n SET tail_min = t.tail FROM hooklane.lane_tail t WHERE t.lane_id = n.lane_id;
DROP FUNCTION hooklane.hold_lanes;
DROP VIEW hooklane.lane_tail;
ALTER TABLE hooklane.lane_name RENAME TO lane_tail;
ALTER TABLE hooklane.lane_tail RENAME COLUMN tail_min TO tail;
ALTER TABLE hooklane.lane_tail ALTER COLUMN tail DROP DEFAULT;
ALTER TABLE hooklane.lane_tail ADD CONSTRAINT lane_tail_tail_check CHECK (tail > 0);
ALTER INDEX hooklane.lane_name_pkey RENAME TO lane_tail_pkey;
ALTER INDEX hooklane.lane_name_once RENAME TO lane_tail_endpoint_id_key_key;
ALTER INDEX hooklane.lane_name_for_load RENAME TO lane_tail_for_load;
"""
SINCE = 6
"""Up to here the tests below undo a migration as each of them needs it; all that came later only adds."""


def undone(migrations: str) -> str:
    """What takes the additions of the newer migrations away again, the newest first."""
    prefix = "hooklane." if ".postgres." in migrations else ""
    undo: list[str] = []
    for statement in [one for script in migrations_of(migrations)[SINCE:] for one in statements_of(script)]:
        if found := re.match(r"CREATE TABLE (?:IF NOT EXISTS )?(\S+)", statement):
            undo.append(f"DROP TABLE {found[1]};")
        elif found := re.match(r"ALTER TABLE (\S+)\s+ADD COLUMN (\w+)", statement):
            undo.append(f"ALTER TABLE {found[1]} DROP COLUMN {found[2]};")
        elif found := re.match(r"CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?(\w+)", statement):
            undo.append(f"DROP INDEX {prefix}{found[1]};")
        elif found := re.match(r"CREATE VIEW (\S+)", statement):
            undo.append(f"DROP VIEW {found[1]};")
        elif found := re.match(r"CREATE TRIGGER (?:IF NOT EXISTS )?(\w+) .*? ON (\S+)", statement, re.DOTALL):
            undo.append(f"DROP TRIGGER {found[1]}{f' ON {found[2]}' if prefix else ''};")
        elif found := re.match(r"INSERT INTO (\S+) \(name, value\) VALUES \('(\w+)'", statement):
            undo.append(f"DELETE FROM {found[1]} WHERE name = '{found[2]}';")
    return "\n".join(reversed(undo))


EVENTS = [f"e{n}" for n in (*range(12), 98)]


async def fill(store: Outbox) -> Owner:
    """Lanes in every state, and deliveries without one."""
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    report = await published(store, *(event(f"e{n}", f"k{n % 4}") for n in range(12)), event("e98", None))
    owner = await Owner.of(store)
    lanes = [one.lane_id for one in report.grown]
    await owner.deliver(lanes[0], 2)
    await owner.fail(lanes[1])
    await owner.kill(lanes[2])
    await owner.fail(lanes[-1])
    return owner


async def check(store: Outbox, owner: Owner, before: dict[int, object]) -> None:
    """Everything is there, and what is new works on it."""
    await store.open()
    owner = replace(owner, store=store)
    rows = await owner.loaded()
    assert rows == before
    for lane_id in [row.id for row in rows.values() if row.state != "blocked"]:
        await announce(owner, lane_id)
    assert {row.starts for row in (await owner.loaded()).values() if row.state != "blocked"} == {1}
    await store.close()


async def test_a_sqlite_file_from_before_announcements_were_on_record_keeps_its_events(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    store = SqliteOutbox(str(path), OPTIONS)
    owner = await fill(store)
    before = dict(await owner.loaded())
    await store.close()
    with sqlite3.connect(path) as connection:
        connection.executescript(undone(sqlite_outbox.MIGRATIONS) + ATTEMPTS_BY_LANE)
        for table in TABLES:
            connection.execute(f"ALTER TABLE hooklane_{table} DROP COLUMN starts")
        connection.execute("UPDATE hooklane_schema SET version = 3 WHERE component = 'outbox'")
    connection.close()

    await check(SqliteOutbox(str(path), OPTIONS), owner, before)


async def test_a_sqlite_file_whose_attempts_stood_by_lane_keeps_every_one(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    store = SqliteOutbox(str(path), OPTIONS)
    await fill(store)
    before = {one: await store.attempts("default", one) for one in EVENTS}
    assert sum(map(len, before.values())) >= 5, "delivered, failed and dead ones, with a lane and without"
    await store.close()
    with sqlite3.connect(path) as connection:
        connection.executescript(undone(sqlite_outbox.MIGRATIONS) + ATTEMPTS_BY_LANE)
        connection.execute("UPDATE hooklane_schema SET version = 4 WHERE component = 'outbox'")
    connection.close()

    store = SqliteOutbox(str(path), OPTIONS)
    await store.open()
    assert {one: await store.attempts("default", one) for one in EVENTS} == before
    await store.close()


async def test_a_postgres_schema_from_before_announcements_were_on_record_keeps_its_events(
    empty_postgres_url: str,
) -> None:
    store = PostgresOutbox(empty_postgres_url, OPTIONS)
    owner = await fill(store)
    before = dict(await owner.loaded())
    await store.close()
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute(undone(publish_port.MIGRATIONS) + COUNTED_TAILS)
        for table in TABLES:
            connection.execute(f"ALTER TABLE hooklane.{table} DROP COLUMN starts")
        connection.execute("UPDATE hooklane.schema SET version = 3 WHERE component = 'outbox'")

    await check(PostgresOutbox(empty_postgres_url, OPTIONS), owner, before)


async def test_a_postgres_schema_whose_lanes_were_counted_goes_on_behind_their_last_event(
    empty_postgres_url: str,
) -> None:
    store = PostgresOutbox(empty_postgres_url, OPTIONS)
    owner = await fill(store)
    before = dict(await owner.loaded())
    await store.close()
    with psycopg.connect(empty_postgres_url) as connection:
        connection.execute(undone(publish_port.MIGRATIONS) + COUNTED_TAILS)
        connection.execute("DELETE FROM hooklane.lane_event WHERE seq < 3", prepare=False)  # as pruning does
        connection.execute("UPDATE hooklane.schema SET version = 4 WHERE component = 'outbox'")

    store = PostgresOutbox(empty_postgres_url, OPTIONS)
    await store.open()
    assert await replace(owner, store=store).loaded() == before
    report = await published(store, event("e20", "k0"), event("e21", "k3"), event("e22", "new"))
    assert [one.seq for one in report.grown] == [4, 4, 1]
    await store.close()
