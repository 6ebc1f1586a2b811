"""On SQLite a lane ends where its last event is: to publish in it writes no row of it, and it never begins again."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hooklane.core.fanout import places
from hooklane.store.outbox import StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.conformance_outbox.kit import Owner, endpoint, event, published

ROWS = "SELECT * FROM hooklane_lane_tail ORDER BY lane_id"
# As the release before publishes, word for word.
GROW_LANES = """
INSERT INTO hooklane_lane_tail (tenant, endpoint_id, key, pid, tail) VALUES ('default', 'ep_a', ?, ?, ?)
ON CONFLICT (endpoint_id, key) DO UPDATE SET tail = tail + excluded.tail RETURNING lane_id, tail
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteOutbox]:
    store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    yield store
    await store.close()


@pytest.fixture
def another(store: SqliteOutbox, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of another process to the same file."""
    with closing(sqlite3.connect(tmp_path / "outbox.db", isolation_level=None)) as conn:
        yield conn


async def seqs(store: SqliteOutbox, *ids: str, key: str = "k") -> list[int]:
    """Where events that are published to *key* come to stand."""
    return [one.seq for one in (await published(store, *(event(id, key) for id in ids))).grown]


def pid_of(conn: sqlite3.Connection) -> int:
    return int(conn.execute("SELECT pid FROM hooklane_lane_tail").fetchone()[0])


async def test_to_publish_in_a_lane_that_is_there_writes_no_row_of_it(store: SqliteOutbox, another: sqlite3.Connection):
    await seqs(store, "e1")
    before = another.execute(ROWS).fetchall()

    assert await seqs(store, "e2", "e3") == [2, 3]
    assert before == another.execute(ROWS).fetchall()


async def test_a_lane_whose_events_are_all_deleted_goes_on_where_it_ended(
    store: SqliteOutbox, another: sqlite3.Connection
):
    await seqs(store, "e1", "e2", "e3")
    another.execute("DELETE FROM hooklane_lane_event WHERE seq = 3")
    another.execute("DELETE FROM hooklane_lane_event")

    assert await seqs(store, "e4") == [4]


async def test_who_asks_for_a_lane_sees_where_it_ends(store: SqliteOutbox, another: sqlite3.Connection):
    await seqs(store, "e1", "e2")
    owner = await Owner.of(store)
    (lane,) = (await store.load(owner.worker, owner.epochs)).lanes[pid_of(another)]

    assert lane.tail == 2


async def test_an_older_process_goes_on_where_a_newer_one_ended_and_the_other_way_round(
    store: SqliteOutbox, another: sqlite3.Connection
):
    for round_ in range(3):
        seq = 3 * round_ + 1
        assert [seq, seq + 1] == await seqs(store, f"a{round_}", f"b{round_}")
        n = another.execute("SELECT max(n) FROM hooklane_event").fetchone()[0]
        another.execute("BEGIN IMMEDIATE")
        ((lane_id, tail),) = another.execute(GROW_LANES, ("k", pid_of(another), 1)).fetchall()
        another.execute(
            "INSERT INTO hooklane_lane_event (tenant, lane_id, seq, event_n) VALUES ('default', ?, ?, ?)",
            (lane_id, tail, n),
        )
        another.execute("COMMIT")
        assert seq + 2 == tail


async def test_a_lane_that_an_older_process_makes_is_found(store: SqliteOutbox, another: sqlite3.Connection):
    await seqs(store, "e1")
    another.execute(GROW_LANES, ("new", pid_of(another), 1)).fetchall()

    assert await seqs(store, "e2", key="new") == [2]
