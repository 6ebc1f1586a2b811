"""Where does a lane end? Publishing finds out without a counter: it holds the lane's row, and updates nothing."""

import asyncio
from dataclasses import replace
from typing import TypeVar

import asyncpg
import pytest
from tests.stores.postgres.test_interleaving_owners import RIGHT_AND_BROKEN, take_out
from tests.stores.postgres.test_interleaving_publish import hold_lanes, seqs
from tests.support.pace import scaled_s
from tests.support.steps import Steps

from hooklane.core.fanout import places
from hooklane.model.clock import Instant
from hooklane.store.caller import Flow, Rows
from hooklane.store.postgres.outbox import PostgresOutbox, publish
from hooklane.store.postgres.transactions import execute
from hooklane.store.sql.outbox import retention
from hooklane.testing.conformance_outbox.kit import T0, Owner, draft, endpoint, event, published
from hooklane.testing.conformance_recovery.kit import ALL, DAY_MS, pruned

T = TypeVar("T")
OLD = replace(ALL, events=Instant(T0 + 30 * DAY_MS), attempts=Instant(T0 + 30 * DAY_MS))


async def rows_of_lanes(conn: asyncpg.Connection) -> list[asyncpg.Record]:
    return await conn.fetch("SELECT key, ctid, xmin FROM hooklane.lane_name ORDER BY key")


async def test_publishing_leaves_no_old_rows_behind(store: PostgresOutbox, conn: asyncpg.Connection) -> None:
    """Beside a transaction that is held open they could not be removed: each event would be slower than the last."""
    await published(store, event("e1", "a"), event("e2", "b"))
    before = await rows_of_lanes(conn)

    for n in range(10):  # at once, the longer way (an event without a key), and all or nothing
        await published(store, event(f"f{n}", "a"), event(f"g{n}", "b"))
        await published(store, event(f"h{n}", "a"), event(f"l{n}", None))
        await store.publish_all([draft(event(f"i{n}", "b"))])
        await published(store, event(f"j{n}", "a"), event(f"k{n}", f"new {n}"))

    assert (await rows_of_lanes(conn))[:2] == before
    tails = await conn.fetch("SELECT tail FROM hooklane.lane_tail ORDER BY key LIMIT 2")
    assert [row["tail"] for row in tails] == [31, 21]


@RIGHT_AND_BROKEN
async def test_the_last_seq_is_read_when_the_lane_is_held(
    store: PostgresOutbox, steps: Steps, conn: asyncpg.Connection, broken: bool
) -> None:
    """Read before the wait for its holder, it misses what the holder published."""
    if broken:
        lock = "PERFORM FROM hooklane.lane_name n WHERE n.lane_id = ANY(ids) ORDER BY n.lane_id FOR NO KEY UPDATE;"
        holds = "DO UPDATE SET pid = n.pid WHERE false"
        await hold_lanes(conn, holds, "DO NOTHING", "END\n$$", f"{lock}\nEND\n$$")
    await published(store, event("e1", "a"))
    first = await steps.begin(publish.publish([draft(event("e2", "a"))], places))
    second = await steps.begin(publish.publish([draft(event("e3", "a"))], places))
    await first.step(4)
    await second.step(2)
    await second.step_and_wait()

    assert seqs(await first.finish()) == [2]
    if broken:
        with pytest.raises(asyncpg.DivisionByZeroError):
            await second.finish()
    else:
        assert seqs(await second.finish()) == [3]


@RIGHT_AND_BROKEN
async def test_a_lane_that_the_transaction_made_before_is_not_new_to_it(
    store: PostgresOutbox, conn: asyncpg.Connection, broken: bool
) -> None:
    """Only those that this very call made are known to be empty."""
    if broken:
        mine = "EXISTS (SELECT 1 FROM hooklane.lane_name n WHERE n.lane_id = w.lane_id AND n.xmin::text = {xid})"
        xid = "(pg_current_xact_id()::text::bigint % 4294967296)::text"
        await hold_lanes(conn, "made[width_bucket(w.lane_id, made)] = w.lane_id", mine.format(xid=xid))
    await published(store, event("e1", "old"), event("e2", "old"))
    async with conn.transaction():
        keys = ("old", "new", "new")
        first = await _run(conn, publish.publish([draft(event(f"f{n}", key)) for n, key in enumerate(keys)], places))
        again = publish.publish([draft(event(f"g{key}", key)) for key in ("old", "newer", "new")], places)

        assert seqs(first) == [3, 1, 2]
        if broken:
            with pytest.raises(asyncpg.DivisionByZeroError):
                async with conn.transaction():
                    await _run(conn, again)
        else:
            assert seqs(await _run(conn, again)) == [4, 1, 3]


async def test_who_sees_the_past_is_told_to_begin_anew(store: PostgresOutbox, conn: asyncpg.Connection) -> None:
    """With a place that is taken as with a lane that is new: as a counter that was moved meanwhile would tell."""
    await published(store, event("e1", "a"))
    for n, key in enumerate(("a", "new")):
        async with conn.transaction(isolation="repeatable_read"):
            await conn.fetchval("SELECT count(*) FROM hooklane.event")  # from here on it sees nothing newer
            await published(store, event(f"f{n}", key))
            with pytest.raises(asyncpg.SerializationError):
                async with conn.transaction():
                    await _run(conn, publish.publish([draft(event(f"g{n}", key))], places))

    async with conn.transaction(isolation="serializable"):
        report = await _run(conn, publish.publish([draft(event("h", "a"))], places))
    assert seqs(report) == [3]


async def _run(conn: asyncpg.Connection, flow: Flow[T]) -> T:
    rows: Rows | None = None
    while True:
        try:
            statement = next(flow) if rows is None else flow.send(rows)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        rows = await execute(conn, statement)


@RIGHT_AND_BROKEN
async def test_a_lane_whose_events_are_all_pruned_goes_on_behind_them(
    store: PostgresOutbox, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        take_out(monkeypatch, "drop_places", "n.tail_min < e.seq", "false")
    report = await published(store, *(event(f"e{n}", "a") for n in range(3)))
    owner = await Owner.of(store)
    await owner.deliver(report.grown[0].lane_id, 3)

    await pruned(store, OLD)
    assert await store.event("default", "e2") is None

    assert seqs(await published(store, event("f", "a"))) == [1 if broken else 4]


async def test_pruning_and_publishing_wait_for_each_other_in_a_lane(store: PostgresOutbox, steps: Steps) -> None:
    report = await published(store, *(event(f"e{n}", "a") for n in range(3)))
    owner = await Owner.of(store)
    await owner.deliver(report.grown[0].lane_id, 3)
    found, _ = await store._ask(lambda: retention.find_events(OLD, 0, 100))
    prune = await steps.begin(retention.remove_events(found))
    while await prune.step():
        pass  # everything is removed, and nothing committed
    late = await steps.begin(publish.publish([draft(event("f", "a"))], places))
    await late.step(2)
    await late.step_and_wait()

    await prune.finish()

    assert seqs(await late.finish()) == [4]
    assert seqs(await published(store, event("g", "a"))) == [5]


async def test_pruning_leaves_a_lane_alone_that_somebody_holds(store: PostgresOutbox, steps: Steps) -> None:
    """It must not wait with what it has locked already: the transaction that holds the lane may come to that next."""
    report = await published(store, *(event(f"e{n}", key) for n, key in enumerate("abc")))
    owner = await Owner.of(store)
    for one in report.grown:
        await owner.deliver(one.lane_id)
    held = await steps.begin(
        _both(
            publish.publish([draft(event("f", "b"))], places),
            publish.publish([draft(event("g", "a")), draft(event("h", "c"))], places),
        )
    )
    await held.step(4)

    async with asyncio.timeout(scaled_s(2)):
        removed = await pruned(store, OLD, 100)

    assert removed["events"] == 2
    assert await store.event("default", "e1") is not None
    assert seqs(await held.finish()) == [2, 2]
    assert seqs(await published(store, event("i", "b"))) == [3]
    await pruned(store, OLD, 100)
    assert await store.event("default", "e1") is None
    assert seqs(await published(store, event("j", "b"))) == [4]


async def test_whatever_else_is_called_so_in_the_database_is_not_ours(
    store: PostgresOutbox, conn: asyncpg.Connection
) -> None:
    """A function or table of the application's that would come first on its search_path."""
    await conn.execute(
        "CREATE SCHEMA app; CREATE TABLE app.lane_name (lane_id bigint);"
        " CREATE FUNCTION app.cardinality(bigint[]) RETURNS integer LANGUAGE sql AS 'SELECT 0';"
        " SET search_path = app, pg_catalog"
    )
    async with conn.transaction():
        first = await _run(conn, publish.publish([draft(event("e1", "a")), draft(event("e2", "b"))], places))
    async with conn.transaction():
        second = await _run(conn, publish.publish([draft(event("e3", "a"))], places))

    assert (seqs(first), seqs(second)) == ([1, 1], [2])


async def test_publishers_of_new_and_old_lanes_in_any_order_do_not_deadlock(
    store: PostgresOutbox, conn: asyncpg.Connection
) -> None:
    await store.save_endpoint(endpoint("ep_b"), expect=None)

    async def publisher(name: int) -> list[int | None]:
        found: list[int | None] = []
        for turn in range(12):
            keys = [f"k{(name * 7 + n * 5 + turn * 3) % 40}" for n in range(12)]
            batch = [draft(event(f"e{name}-{turn}-{n}", key)) for n, key in enumerate(keys)]
            report = await store.publish_all(batch)
            found += seqs(report)
        return found

    given = await asyncio.gather(*(publisher(name) for name in range(6)))

    assert sum(map(len, given)) == 6 * 12 * 12 * 2
    lanes = await conn.fetch("SELECT lane_id, array_agg(seq ORDER BY seq) AS seqs FROM hooklane.lane_event GROUP BY 1")
    assert all(row["seqs"] == list(range(1, len(row["seqs"]) + 1)) for row in lanes)
    assert await conn.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


@pytest.mark.parametrize("many", [1, 2], ids=["one-endpoint", "fan-out"])
async def test_a_transaction_that_goes_on_to_a_new_lane_does_not_deadlock(
    store: PostgresOutbox, steps: Steps, many: int
) -> None:
    """Another who wants both lanes must wait for the old one before it makes the new one."""
    if many == 2:
        await store.save_endpoint(endpoint("ep_b"), expect=None)
    await published(store, event("e1", "a"))
    first = publish.publish([draft(event("f1", "a"))], places)
    ours = await steps.begin(_both(first, publish.publish([draft(event("f2", "new"))], places)))
    await ours.step(4)
    theirs = await steps.begin(publish.publish([draft(event("g1", "new")), draft(event("g2", "a"))], places))
    await theirs.step(2)
    await theirs.step_and_wait()

    assert seqs(await ours.finish()) == [1] * many
    assert seqs(await theirs.finish()) == [2] * many + [3] * many


def _both(first: Flow[T], second: Flow[T]) -> Flow[T]:
    yield from first
    return (yield from second)
