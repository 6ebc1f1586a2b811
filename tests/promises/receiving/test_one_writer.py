"""The transactions of one process in one SQLite file: one at a time, in order, and parts that are undone alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.promises.receiving.orders import ids, made_in
from tests.support.pace import scaled_s
from tests.support.processes import until

from hooklane.errors import StoreBusy
from hooklane.store.sqlite.inbox.transactions import SqliteSession, Transactions

WAIT_MS = 10_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return made_in(tmp_path)


@pytest.fixture
def file(path: str) -> Iterator[Transactions]:
    file = Transactions(path)
    yield file
    file.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def write(session: SqliteSession, id: str) -> None:
    session.tx.execute("INSERT INTO orders VALUES (?)", (id,))


def test_a_part_that_is_undone_leaves_what_was_kept_before_and_after_it(path: str, file: Transactions) -> None:
    session = file.begin(WAIT_MS)
    write(session, "first")
    session.save()
    write(session, "second")
    session.undo()
    session.save()
    write(session, "third")
    session.keep()
    whole = session.is_whole
    session.commit()
    session.close()

    assert (whole, ids(path)) == (True, ["first", "third"])


def test_a_part_that_brings_the_whole_down_is_seen_to_have_done_so(path: str, file: Transactions) -> None:
    session = file.begin(WAIT_MS)
    write(session, "first")
    session.save()
    with pytest.raises(sqlite3.IntegrityError):
        write(session, "first")  # its constraint says: roll everything back
    session.undo()
    whole = session.is_whole
    session.close()

    assert (whole, ids(path), file.is_busy) == (False, [], False)


def test_what_is_closed_without_a_commit_is_undone_and_the_next_may_begin(path: str, file: Transactions) -> None:
    session = file.begin(WAIT_MS)
    write(session, "first")
    session.close()
    file.begin(WAIT_MS).close()

    assert (ids(path), file.is_busy) == ([], False)


def test_they_begin_in_the_order_in_which_they_came(file: Transactions, threads: ThreadPoolExecutor) -> None:
    order: list[int] = []

    def take(number: int) -> None:
        session = file.begin(WAIT_MS)
        order.append(number)
        session.close()

    first = file.begin(WAIT_MS)
    takers = []
    for number in range(4):
        takers.append(threads.submit(take, number))
        until(lambda number=number: len(file._writing._waiters) == number + 1, what="the next to wait")  # type: ignore[misc]
    first.close()
    for taker in takers:
        taker.result(timeout=scaled_s(10))

    assert order == [0, 1, 2, 3]


def test_who_gives_up_waiting_is_not_waited_for(path: str, file: Transactions, threads: ThreadPoolExecutor) -> None:
    first = file.begin(WAIT_MS)
    write(first, "first")
    with pytest.raises(StoreBusy):
        threads.submit(file.begin, 20).result(timeout=scaled_s(10))
    first.commit()
    first.close()

    assert (ids(path), file.is_busy) == (["first"], False)


def test_a_fork_waits_until_no_transaction_is_open(path: str, file: Transactions, threads: ThreadPoolExecutor) -> None:
    open_one = file.begin(WAIT_MS)
    write(open_one, "first")
    stills = threads.submit(file.hold_still)
    until(lambda: file.is_wanted, what="the fork to wait")
    waited = not stills.done()
    open_one.commit()
    open_one.close()
    stills.result(timeout=scaled_s(10))
    seen, held = ids(path), file.is_busy
    file.go_on()

    assert (waited, seen, held) == (True, ["first"], True)
    assert not file.is_busy
