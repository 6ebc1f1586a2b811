"""What hooklane writes on a caller's connection is part of the caller's transaction, with every driver."""

import gc
import sqlite3
import warnings
from typing import Any

import psycopg
import pytest
from tests.support.connections import ON_POSTGRES, ON_SQLITE, Open, ask, settle

from hooklane.errors import UsageError
from hooklane.store.caller import Flow, Home, Rows, Statement, adapt, confirm, mark, undoable

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


async def test_values_come_back_as_they_went_in(owned: Open, home: Home) -> None:
    rows = await settle(adapt(owned.tx).run(write(2**40), home))

    assert [tuple(row) for row in rows] == [(2**40, WORDS, b"\x00\xff")]
    await settle(owned.rollback())


async def test_nothing_is_an_empty_value_too(owned: Open, home: Home) -> None:
    rows = await settle(adapt(owned.tx).run(ask(INSERT, id=1, words=None, raw=None), home))

    assert [tuple(row) for row in rows] == [(1, None, None)]
    await settle(owned.rollback())


async def test_a_statement_without_rows_gives_none(owned: Open, home: Home) -> None:
    assert list(await settle(adapt(owned.tx).run(ask("DELETE FROM note WHERE id = :id", id=7), home))) == []
    await settle(owned.rollback())


@pytest.mark.parametrize("kind", ON_POSTGRES)
async def test_arrays_travel_with_every_postgres_driver(owned: Open, home: Home) -> None:
    sql = "SELECT * FROM unnest(:ids::bigint[], :words::text[], :raws::bytea[]) ORDER BY 1"
    params: dict[str, Any] = {"ids": [1, 2**40], "words": ['a"{},\\b', None], "raws": [b"\x00\\", b""]}

    rows = await settle(adapt(owned.tx).run(ask(sql, **params), home))
    empty = await settle(adapt(owned.tx).run(ask(sql, ids=[], words=[], raws=[]), home))

    assert [tuple(row) for row in rows] == [(1, 'a"{},\\b', b"\x00\\"), (2**40, None, b"")]
    assert list(empty) == []
    await settle(owned.rollback())


async def test_it_is_seen_by_others_only_after_the_callers_commit(kind: str, url: str, owned: Open, home: Home) -> None:
    await settle(adapt(owned.tx).run(write(1), home))
    before = counted(kind, url)
    await settle(owned.commit())

    assert (before, counted(kind, url)) == (0, 1)


async def test_a_rollback_of_the_caller_leaves_no_trace(kind: str, url: str, owned: Open, home: Home) -> None:
    await settle(adapt(owned.tx).run(write(1), home))
    await settle(owned.rollback())

    assert counted(kind, url) == 0


async def test_several_flows_share_one_transaction(kind: str, url: str, owned: Open, home: Home) -> None:
    for number in (1, 2, 3):
        await settle(adapt(owned.tx).run(write(number), home))
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
    kind: str, url: str, owned: Open, home: Home
) -> None:
    def refused() -> Flow[None]:
        yield from write(1)
        raise UsageError("the second event is bad")

    caller = adapt(owned.tx)
    with pytest.raises(UsageError, match="second event"):
        await settle(caller.run(undoable(refused()), home))
    await settle(caller.run(undoable(write(2)), home))
    await settle(owned.commit())

    assert counted(kind, url) == 1


async def test_a_transaction_that_was_marked_is_still_there(owned: Open, home: Home) -> None:
    caller = adapt(owned.tx)
    await settle(caller.run(mark(), home))
    await settle(caller.run(write(1)))

    await settle(caller.run(confirm()))
    await settle(owned.rollback())


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_handler_that_ends_the_transaction_itself_is_noticed(owned: Open, home: Home, end: str) -> None:
    caller = adapt(owned.tx)
    await settle(caller.run(mark(), home))
    await settle(getattr(owned, end)())

    with pytest.raises(UsageError, match=r"committed or rolled back tx itself|no transaction open"):
        await settle(caller.run(confirm()))


@pytest.mark.parametrize("kind", ["psycopg-async", "asyncpg", "sqlalchemy-asyncpg-session"])
async def test_an_async_flow_that_is_not_awaited_warns(owned: Open) -> None:
    caller = adapt(owned.tx)
    assert caller.is_async

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        caller.run(write(1))
        gc.collect()

    assert any("was never awaited" in str(warning.message) for warning in caught)
