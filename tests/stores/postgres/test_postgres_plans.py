"""How PostgreSQL finds what an owner asks for: by index, however long the log behind a parked endpoint has grown."""

from dataclasses import replace

import asyncpg
import pytest

from hooklane.store.caller import Statement
from hooklane.store.caller.placeholders import Style, bind
from hooklane.store.postgres.outbox import PostgresOutbox, lanes
from hooklane.store.postgres.outbox.statements import SQL
from hooklane.testing.conformance_outbox.kit import Owner, draft, event


@pytest.fixture
async def grown(store: PostgresOutbox, conn: asyncpg.Connection) -> PostgresOutbox:
    for start in range(0, 20_000, 2_000):
        await store.publish([draft(event(f"e{n}", f"k{n % 400}")) for n in range(start, start + 2_000)])
    await conn.execute("ANALYZE hooklane.lane_event, hooklane.event, hooklane.lane_tail")
    return store


async def plan_of(conn: asyncpg.Connection, statement: Statement) -> str:
    sql, values = bind(statement, Style.DOLLAR)
    return "\n".join(row[0] for row in await conn.fetch(f"EXPLAIN {sql}", *values))


async def generic_plan_of(conn: asyncpg.Connection, statement: Statement) -> str:
    """The plan for any values, as a connection has it that plans each statement once."""
    sql, values = bind(statement, Style.DOLLAR)
    arguments = ["{" + ",".join(map(str, one)) + "}" if isinstance(one, list) else str(one) for one in values]
    await conn.execute("SET plan_cache_mode = force_generic_plan")
    await conn.execute(f"PREPARE asked AS {sql}")
    shown = ", ".join(f"'{one}'" for one in arguments)
    return "\n".join(row[0] for row in await conn.fetch(f"EXPLAIN EXECUTE asked ({shown})"))


@pytest.mark.parametrize("is_analyzed", [True, False], ids=["analyzed", "new"])
async def test_a_poll_does_not_read_all_deliveries_without_order_that_are_owed(
    store: PostgresOutbox, conn: asyncpg.Connection, is_analyzed: bool
) -> None:
    """200,000 behind a dead endpoint took 30 ms of the database, four times a second and worker."""
    owner = await Owner.of(store)
    for start in range(0, 20_000, 500):
        await conn.execute(
            "INSERT INTO hooklane.loose (n, tenant, endpoint_id, pid, event_n)"
            " SELECT n, 'default', 'ep_a', n % 256, n FROM generate_series($1::int, $1 + 499) n",
            start,
        )
    if is_analyzed:
        await conn.execute("ANALYZE hooklane.loose")
    mark = (await owner.load()).mark

    plan = await generic_plan_of(conn, lanes.poll_statement(list(owner.epochs), replace(mark, xip=("3", "4"))))

    assert "loose_for_poll" in plan
    assert "loose_owed" not in plan
    assert "Seq Scan on loose" not in plan


async def test_a_poll_reads_only_what_is_new(grown: PostgresOutbox, conn: asyncpg.Connection) -> None:
    owner = await Owner.of(grown)
    mark = (await owner.load()).mark

    plan = await plan_of(conn, lanes.poll_statement(list(owner.epochs), mark))

    assert "lane_event_for_poll" in plan
    assert "Seq Scan on lane_event" not in plan


async def test_a_poll_reads_what_was_told_already_once_and_not_for_each_row(
    grown: PostgresOutbox, conn: asyncpg.Connection
) -> None:
    owner = await Owner.of(grown)
    mark = (await owner.load()).mark

    plan = await plan_of(conn, lanes.poll_statement(list(owner.epochs), replace(mark, told=("1", "2"))))

    assert "hashed SubPlan" in plan
    assert "ALL (" not in plan


async def test_events_are_fetched_lane_by_lane(grown: PostgresOutbox, conn: asyncpg.Connection) -> None:
    flow = lanes.fetch([(lane_id, 1, 16) for lane_id in range(1, 200)])

    plan = await plan_of(conn, next(flow))

    assert "lane_event_pkey" in plan
    assert "Seq Scan on lane_event" not in plan
    assert "Seq Scan on event" not in plan


async def test_a_failure_looks_up_the_acks_of_its_own_lane(grown: PostgresOutbox, conn: asyncpg.Connection) -> None:
    await conn.execute("INSERT INTO hooklane.ack SELECT 1, n % 400, 2, 'default', 0 FROM generate_series(1, 50000) n")
    await conn.execute("ANALYZE hooklane.ack")
    columns = {"lanes": [1], "heads": [1], "states": ["retrying"], "attempts": [1], "nexts": [0]}
    columns |= {"revs": [0], "reasons": ["500"], "sinces": [0]}

    plan = await plan_of(conn, Statement(SQL["hold_heads"], columns))

    assert "ack_of_lane" in plan
