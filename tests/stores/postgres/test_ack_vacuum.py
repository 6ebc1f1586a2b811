"""Acks are folded every two seconds; the room that they took is used again, with or without autovacuum."""

import asyncpg
import pytest

from hooklane.core.fanout import places
from hooklane.store.outbox import StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox, ack_vacuum
from hooklane.store.postgres.outbox.fold_acks import FIRST
from hooklane.testing.conformance_outbox.kit import event, published

MANY = ack_vacuum.DUE_AFTER + 1_000
_ACKS = """
INSERT INTO hooklane.ack (pid, lane_id, head, tenant, at)
SELECT 0, $1, n + $2, 'default', 0 FROM generate_series(1, $3::bigint) n
"""


async def size_after(store: PostgresOutbox, conn: asyncpg.Connection, lane_id: int, head: int) -> int:
    """Of the table, once so many acks more have come and gone."""
    await conn.execute(_ACKS, lane_id, head, MANY)
    await store.tidy()
    assert await conn.fetchval("SELECT count(*) FROM hooklane.ack") == 0
    return int(await conn.fetchval("SELECT pg_relation_size('hooklane.ack')"))


@pytest.mark.parametrize("vacuumed", [True, False], ids=["", "without-the-vacuum"])
async def test_folded_acks_leave_their_room_to_the_next(
    store: PostgresOutbox, conn: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, vacuumed: bool
) -> None:
    monkeypatch.setattr(ack_vacuum, "REST_FACTOR", 0)
    if not vacuumed:
        monkeypatch.setattr(ack_vacuum.AckVacuum, "is_due", lambda _: False)
    lane_id = (await published(store, event("evt_1", "k"))).grown[0].lane_id
    await conn.execute("ALTER TABLE hooklane.ack SET (autovacuum_enabled = false)")

    first = await size_after(store, conn, lane_id, 1)
    second = await size_after(store, conn, lane_id, 1 + MANY)

    assert (second < 1.2 * first) is vacuumed


async def test_a_vacuum_that_takes_long_is_seldom(store: PostgresOutbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a transaction that is held open there is nothing to remove, and each vacuum would read all of it."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    vacuumed = ack_vacuum.AckVacuum()
    vacuumed.note(MANY, FIRST)
    monkeypatch.setattr(store.db, "maintain", _taking(now, 2.0))

    await vacuumed.vacuum(store.db)
    vacuumed.note(MANY, FIRST)

    now[0] += 2.0 * ack_vacuum.REST_FACTOR - 0.1
    assert not vacuumed.is_due()
    now[0] += 0.2
    assert vacuumed.is_due()


async def test_a_fold_begins_where_the_last_one_ended(
    store: PostgresOutbox, conn: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acks that cannot be removed are not read past each time; what comes in front of them waits for a while."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lane_id = (await published(store, event("evt_1", "k"))).grown[0].lane_id
    await conn.execute("ALTER TABLE hooklane.ack SET (autovacuum_enabled = false)")
    await conn.execute(_ACKS, lane_id, 1, 2_000)
    await store.tidy()
    await conn.execute(_ACKS, lane_id, 2_001, 1)
    await store.tidy()
    assert await conn.fetchval("SELECT count(*) FROM hooklane.ack") == 0, "what came behind is folded at once"
    await conn.execute("VACUUM hooklane.ack")
    await conn.execute(_ACKS, lane_id, 2_002, 1)
    assert await conn.fetchval("SELECT ctid::text FROM hooklane.ack") < "(1,0)", "it stands in front"

    await store.tidy()
    assert await conn.fetchval("SELECT count(*) FROM hooklane.ack") == 1
    now[0] += ack_vacuum.REWIND_S
    await store.tidy()
    assert await conn.fetchval("SELECT count(*) FROM hooklane.ack") == 0
    assert await conn.fetchval("SELECT head FROM hooklane.lane WHERE lane_id = $1", lane_id) == 2_003


async def test_a_role_that_does_not_own_the_tables_goes_without(store: PostgresOutbox, postgres_url: str) -> None:
    conn = await asyncpg.connect(postgres_url)
    role = f"guest_{await conn.fetchval('SELECT oid FROM pg_database WHERE datname = current_database()')}"
    await conn.execute(f"CREATE ROLE {role} LOGIN")
    try:
        await conn.execute(f"GRANT USAGE ON SCHEMA hooklane TO {role}")
        await conn.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA hooklane TO {role}")
        guest = PostgresOutbox(postgres_url.replace("postgres@", f"{role}@"), StoreOptions(placer=places))
        await guest.db.open()
        vacuumed = "SELECT vacuum_count FROM pg_stat_user_tables WHERE relid = 'hooklane.ack'::regclass"
        before = await conn.fetchval(vacuumed)
        ours = ack_vacuum.AckVacuum()
        ours.note(ack_vacuum.DUE_AFTER, ack_vacuum.FIRST)
        assert ours.is_due()

        await ours.vacuum(guest.db)

        assert not ours.is_due(), "it does not come back at once"
        assert await conn.fetchval(vacuumed) == before
        await guest.close()
    finally:
        await conn.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
        await conn.close()


def _taking(now: list[float], seconds: float):  # type: ignore[no-untyped-def]
    async def maintain(command: str) -> None:
        now[0] += seconds

    return maintain
