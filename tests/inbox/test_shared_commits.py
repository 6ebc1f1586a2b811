"""On SQLite, transactions that come while one is open may share its commit: nobody's work hangs on another's."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.inbox.kit import outcome, own_source, signed
from tests.support.processes import until

from hooklane.errors import StoreBusy
from hooklane.receiver import Event, Inbox
from hooklane.store.sqlite.inbox import transactions
from hooklane.store.sqlite.inbox.transactions import SqliteSession, Transactions

WAIT_MS = 10_000


@pytest.fixture(autouse=True)
def _nobody_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here handlers wait for others to come, which must not count."""
    monkeypatch.setattr(transactions, "SLOW_S", 3600.0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "app.db") as conn:
        conn.execute("CREATE TABLE orders (id TEXT UNIQUE ON CONFLICT ROLLBACK)")
        conn.execute("CREATE TABLE lines (id TEXT REFERENCES parts (id) DEFERRABLE INITIALLY DEFERRED)")
        conn.execute("CREATE TABLE parts (id TEXT PRIMARY KEY)")
    conn.close()
    return str(tmp_path / "app.db")


@pytest.fixture
def file(path: str) -> Iterator[Transactions]:
    file = Transactions(path)
    yield file
    file.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def ids(path: str) -> list[str]:
    conn = sqlite3.connect(path)
    try:
        return [id for (id,) in conn.execute("SELECT id FROM orders ORDER BY id")]
    finally:
        conn.close()


def write(session: SqliteSession, id: str) -> None:
    session.tx.execute("INSERT INTO orders VALUES (?)", (id,))


def two(file: Transactions, threads: ThreadPoolExecutor) -> tuple[Future[None], SqliteSession]:
    """One that has done its part and waits for the commit, and the one that came next and is open."""
    first = file.begin(WAIT_MS)
    write(first, "first")
    next_one = threads.submit(file.begin, WAIT_MS)
    until(lambda: file.is_wanted, what="the next one to wait")
    waits = threads.submit(first.commit)
    return waits, next_one.result(timeout=10)


def test_who_shares_a_commit_is_answered_after_it_and_not_before(
    path: str, file: Transactions, threads: ThreadPoolExecutor
) -> None:
    waits, second = two(file, threads)
    write(second, "second")
    seen_before = ids(path)
    answered_before = waits.done()
    second.commit()
    second.close()
    waits.result(timeout=10)

    assert (seen_before, answered_before) == ([], False)
    assert ids(path) == ["first", "second"]
    assert not file.is_busy


def test_what_fails_in_a_shared_transaction_undoes_only_its_own_part(
    path: str, file: Transactions, threads: ThreadPoolExecutor
) -> None:
    waits, second = two(file, threads)
    write(second, "second")
    second.rollback()
    second.close()
    waits.result(timeout=10)

    assert ids(path) == ["first"]
    assert not file.is_busy


def test_nobody_waits_behind_one_failure_after_the_other(
    path: str, file: Transactions, threads: ThreadPoolExecutor
) -> None:
    waits, second = two(file, threads)
    third = threads.submit(file.begin, WAIT_MS)
    until(lambda: file.is_wanted, what="the third to wait")
    second.rollback()
    second.close()
    waits.result(timeout=10)
    seen = ids(path)
    third.result(timeout=10).close()

    assert seen == ["first"]


def test_when_one_brings_the_whole_transaction_down_the_others_are_told_to_try_again(
    path: str, file: Transactions, threads: ThreadPoolExecutor
) -> None:
    waits, second = two(file, threads)
    with pytest.raises(sqlite3.IntegrityError):
        write(second, "first")  # its constraint says: roll everything back
    second.rollback()
    second.close()

    with pytest.raises(StoreBusy):
        waits.result(timeout=10)
    assert ids(path) == []
    assert not file.is_busy


def test_an_async_session_commits_at_once_for_all(path: str, file: Transactions, threads: ThreadPoolExecutor) -> None:
    waits, second = two(file, threads)
    third = threads.submit(file.begin, WAIT_MS)
    until(lambda: file.is_wanted, what="the next one to wait")
    write(second, "second")
    second.commit(alone=True)
    waits.result(timeout=10)
    seen = ids(path)
    second.close()
    third.result(timeout=10).close()

    assert seen == ["first", "second"]


def test_nobody_waits_for_the_handlers_of_others_where_they_are_slow(
    path: str, file: Transactions, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "SLOW_S", 0.0)
    first = file.begin(WAIT_MS)
    write(first, "first")
    second = threads.submit(file.begin, WAIT_MS)
    until(lambda: file.is_wanted, what="the next one to wait")
    first.commit()
    seen = ids(path)
    first.close()
    second.result(timeout=10).close()

    assert seen == ["first"]


def test_who_gives_up_waiting_is_not_waited_for(path: str, file: Transactions, threads: ThreadPoolExecutor) -> None:
    first = file.begin(WAIT_MS)
    write(first, "first")
    with pytest.raises(StoreBusy):
        threads.submit(file.begin, 20).result(timeout=10)
    first.commit()
    first.close()

    assert ids(path) == ["first"]
    assert not file.is_busy


def test_a_fork_waits_until_no_transaction_is_open(path: str, file: Transactions, threads: ThreadPoolExecutor) -> None:
    open_one = file.begin(WAIT_MS)
    write(open_one, "first")
    stills = threads.submit(file.hold_still)
    until(lambda: file.is_wanted, what="the fork to wait")
    waited = not stills.done()
    open_one.commit()
    open_one.close()
    stills.result(timeout=10)
    seen, held = ids(path), file.is_busy
    file.go_on()

    assert (waited, seen, held) == (True, ["first"], True)
    assert not file.is_busy


# The same through an inbox


@pytest.fixture
def inbox(path: str) -> Iterator[Inbox]:
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=WAIT_MS)
    yield inbox
    inbox.close()


def crowd(inbox: Inbox, handler: Callable[[Event, Any], Any], numbers: range) -> dict[str, str]:
    """The outcome of each event when all come at once: the first is held until the others wait for their turn."""
    begun = threading.Event()

    def held(event: Event, tx: Any) -> None:
        if not begun.is_set():
            begun.set()
            until(lambda: inbox.store.transactions.is_wanted, what="the others to wait")
        handler(event, tx)

    own_source(inbox, order="none").on("*")(held)
    with ThreadPoolExecutor(len(numbers)) as pool:
        first = pool.submit(inbox.receive, signed(f"evt_{numbers[0]}"))
        begun.wait(10)
        others = [pool.submit(inbox.receive, signed(f"evt_{number}")) for number in numbers[1:]]
        return {
            f"evt_{number}": outcome(done.result(timeout=30))
            for number, done in zip(numbers, [first, *others], strict=True)
        }


def test_a_handler_that_fails_among_others_is_kept_with_its_error_and_they_are_applied(inbox: Inbox, path: str) -> None:
    def handler(event: Event, tx: Any) -> None:
        tx.execute("INSERT INTO orders VALUES (?)", (event.id,))
        if event.id == "evt_2":
            raise ValueError("not this one")

    outcomes = crowd(inbox, handler, range(5))
    (failed,) = inbox.rows(status="failed")

    assert {f"evt_{number}": "busy" if number == 2 else "applied" for number in range(5)} == outcomes
    assert ids(path) == ["evt_0", "evt_1", "evt_3", "evt_4"]
    assert "not this one" in (failed.handlings[0].error or "")


def test_an_event_that_fails_at_the_commit_does_not_fail_its_neighbours(inbox: Inbox, path: str) -> None:
    def handler(event: Event, tx: Any) -> None:
        tx.execute("INSERT INTO orders VALUES (?)", (event.id,))
        if event.id == "evt_1":
            tx.execute("INSERT INTO lines VALUES ('no such part')")  # noticed at the commit only

    outcomes = crowd(inbox, handler, range(4))

    assert outcomes == {"evt_0": "applied", "evt_1": "busy", "evt_2": "applied", "evt_3": "applied"}
    assert ids(path) == ["evt_0", "evt_2", "evt_3"]


def test_a_handler_cannot_end_its_part_of_a_shared_transaction(inbox: Inbox, path: str) -> None:
    def handler(event: Event, tx: Any) -> None:
        tx.execute("INSERT INTO orders VALUES (?)", (event.id,))
        if event.id == "evt_1":
            tx.execute("RELEASE hooklane")

    outcomes = crowd(inbox, handler, range(3))

    assert (outcomes["evt_0"], outcomes["evt_2"]) == ("applied", "applied")
    assert outcomes["evt_1"] != "applied"
    assert ids(path) == ["evt_0", "evt_2"]


def test_what_an_undone_attempt_left_for_after_the_commit_is_not_done_twice(inbox: Inbox) -> None:
    called: list[str] = []

    def handler(event: Event, tx: Any) -> None:
        event.on_commit(lambda: called.append(event.id))
        if event.id == "evt_1":
            tx.execute("INSERT INTO lines VALUES ('no such part')")

    crowd(inbox, handler, range(4))

    assert sorted(called) == ["evt_0", "evt_2", "evt_3"]
