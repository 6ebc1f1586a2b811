"""What hooklane writes on a caller's connection is part of the caller's transaction, with every driver."""

import gc
import sqlite3
import warnings
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from tests.support.connections import ON_POSTGRES, ON_SQLITE, Open, ask, settle
from tests.support.inboxes import execute

from hooklane.errors import TransactionMisused, UsageError
from hooklane.store.caller import (
    DatabaseIdentity,
    Flow,
    Guard,
    Rows,
    Statement,
    adapt,
    drive,
    drive_async,
    guard_of,
    undoable,
)

WORDS = "50 % of :names, 'quoted' %s $1 ? — ünïcode"
INSERT = "INSERT INTO note (id, words, raw) VALUES (:id, :words, :raw) RETURNING id, words, raw /* 100 % */"
COUNT = "SELECT count(*) FROM note"


def write(number: int) -> Flow[Rows]:
    # The first statement reads: a driver that begins only at the first write must not leave it outside.
    yield Statement(COUNT)
    return (yield Statement(INSERT, {"id": number, "words": WORDS, "raw": b"\x00\xff"}))


def counted(kind: str, url: str) -> int:
    """What everybody else sees."""
    if kind in ON_SQLITE:
        other = sqlite3.connect(url.removeprefix("sqlite:///"))
        number = other.execute(COUNT).fetchone()[0]
        other.close()
        return int(number)
    with psycopg.connect(url) as connection:
        row = connection.execute(COUNT).fetchone()
        assert row is not None
        return int(row[0])


async def test_values_come_back_as_they_went_in(owned: Open, identity: DatabaseIdentity) -> None:
    rows = await settle(adapt(owned.tx).run(write(2**40), identity))

    assert [tuple(row) for row in rows] == [(2**40, WORDS, b"\x00\xff")]
    await settle(owned.rollback())


async def test_nothing_is_an_empty_value_too(owned: Open, identity: DatabaseIdentity) -> None:
    rows = await settle(adapt(owned.tx).run(ask(INSERT, id=1, words=None, raw=None), identity))

    assert [tuple(row) for row in rows] == [(1, None, None)]
    await settle(owned.rollback())


async def test_a_statement_without_rows_gives_none(owned: Open, identity: DatabaseIdentity) -> None:
    assert list(await settle(adapt(owned.tx).run(ask("DELETE FROM note WHERE id = :id", id=7), identity))) == []
    await settle(owned.rollback())


@pytest.mark.parametrize("kind", ON_POSTGRES)
async def test_arrays_travel_with_every_postgres_driver(owned: Open, identity: DatabaseIdentity) -> None:
    sql = "SELECT * FROM unnest(:ids::bigint[], :words::text[], :raws::bytea[]) ORDER BY 1"
    params: dict[str, Any] = {"ids": [1, 2**40], "words": ['a"{},\\b', None], "raws": [b"\x00\\", b""]}

    rows = await settle(adapt(owned.tx).run(ask(sql, **params), identity))
    empty = await settle(adapt(owned.tx).run(ask(sql, ids=[], words=[], raws=[]), identity))

    assert [tuple(row) for row in rows] == [(1, 'a"{},\\b', b"\x00\\"), (2**40, None, b"")]
    assert list(empty) == []
    await settle(owned.rollback())


async def test_it_is_seen_by_others_only_after_the_callers_commit(
    kind: str, url: str, owned: Open, identity: DatabaseIdentity
) -> None:
    await settle(adapt(owned.tx).run(write(1), identity))
    before = counted(kind, url)
    await settle(owned.commit())

    assert (before, counted(kind, url)) == (0, 1)


async def test_a_rollback_of_the_caller_leaves_no_trace(
    kind: str, url: str, owned: Open, identity: DatabaseIdentity
) -> None:
    await settle(adapt(owned.tx).run(write(1), identity))
    await settle(owned.rollback())

    assert counted(kind, url) == 0


async def test_several_flows_share_one_transaction(
    kind: str, url: str, owned: Open, identity: DatabaseIdentity
) -> None:
    for number in (1, 2, 3):
        await settle(adapt(owned.tx).run(write(number), identity))
    before = counted(kind, url)
    await settle(owned.commit())

    assert (before, counted(kind, url)) == (0, 3)


async def test_an_error_of_the_database_comes_through_and_reaches_the_flow(owned: Open) -> None:
    reached = []

    def twice() -> Flow[None]:
        yield from write(1)
        try:
            yield from write(1)
        except Exception as error:
            reached.append(error)
            raise

    with pytest.raises(Exception, match=r"(?i)unique|duplicate") as caught:
        await settle(adapt(owned.tx).run(twice()))

    assert reached == [caught.value]
    assert not isinstance(caught.value, UsageError)
    await settle(owned.rollback())


async def test_a_refusal_half_way_leaves_no_trace_even_when_the_caller_commits(
    kind: str, url: str, owned: Open, identity: DatabaseIdentity
) -> None:
    def refused() -> Flow[None]:
        yield from write(1)
        raise UsageError("the second event is bad")

    caller = adapt(owned.tx)
    with pytest.raises(UsageError, match="second event"):
        await settle(caller.run(undoable(refused()), identity))
    await settle(caller.run(undoable(write(2)), identity))
    await settle(owned.commit())

    assert counted(kind, url) == 1


async def guarded(owned: Open, identity: DatabaseIdentity) -> tuple[Any, Guard]:
    caller = adapt(owned.tx)
    await settle(caller.run(write(1), identity))
    guard = guard_of(caller, owned.tx)
    await settle(caller.run(guard.set()))
    return caller, guard


async def test_a_transaction_that_was_guarded_can_be_committed_when_the_guard_is_lifted(
    kind: str, url: str, owned: Open, identity: DatabaseIdentity
) -> None:
    caller, guard = await guarded(owned, identity)
    await settle(caller.run(write(2)))

    await settle(caller.run(guard.lift(None)))
    await settle(owned.commit())
    assert counted(kind, url) == 2


@pytest.mark.parametrize("how", ["commit", "text"])
async def test_a_commit_is_refused_before_it_happens_with_every_driver(
    kind: str, url: str, owned: Open, identity: DatabaseIdentity, how: str
) -> None:
    caller, guard = await guarded(owned, identity)
    with pytest.raises(Exception, match=r"hooklane commits|not authorized") as caught:
        await settle(owned.commit() if how == "commit" else execute(owned.tx, "COMMIT"))
    assert counted(kind, url) == 0

    with pytest.raises(TransactionMisused, match="tried to commit"):
        await settle(drive_guard(caller, guard, caught.value))
    assert counted(kind, url) == 0


async def test_a_rollback_is_noticed_with_every_driver(
    kind: str, url: str, owned: Open, identity: DatabaseIdentity
) -> None:
    caller, guard = await guarded(owned, identity)
    with suppress(sqlite3.DatabaseError):  # SQLite's own connections do not even let it happen
        await settle(owned.rollback())

    with pytest.raises(TransactionMisused, match="rolled it back"):
        await settle(drive_guard(caller, guard, None))
    assert counted(kind, url) == 0


def drive_guard(caller: Any, guard: Guard, error: BaseException | None) -> Any:
    return (drive_async if caller.is_async else drive)(guard.lift(error), caller.execute)


@pytest.mark.parametrize("kind", ["psycopg-async", "asyncpg", "sqlalchemy-asyncpg-session"])
async def test_an_async_flow_that_is_not_awaited_warns(owned: Open) -> None:
    caller = adapt(owned.tx)
    assert caller.is_async

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        caller.run(write(1))
        gc.collect()

    assert any("was never awaited" in str(warning.message) for warning in caught)
