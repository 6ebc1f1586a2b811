"""A small Django program: publishes-like writes on Django's connection. Run by test_caller_django, one promise a line.

Usage: python -m tests.support.django_caller ENGINE NAME [HOST PORT USER] [--psycopg2]
"""

import json
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

if "--psycopg2" in sys.argv:
    sys.modules["psycopg"] = None  # type: ignore[assignment]  # then Django takes psycopg2

import django
import pytest
from django.conf import settings

ENGINE, NAME, *SERVER = [word for word in sys.argv[1:] if not word.startswith("--")]
DATABASE: dict[str, Any] = {"ENGINE": f"django.db.backends.{ENGINE}", "NAME": NAME}
if SERVER:
    DATABASE |= {"HOST": SERVER[0], "PORT": SERVER[1], "USER": SERVER[2]}
settings.configure(DATABASES={"default": DATABASE, "second": {**DATABASE}})
django.setup()

from django.db import connection, connections, transaction  # noqa: E402

from hooklane.errors import TransactionMisused, UsageError  # noqa: E402
from hooklane.sender.outbox import Outbox  # noqa: E402
from hooklane.store.caller import (  # noqa: E402
    DatabaseIdentity,
    Flow,
    PostgresIdentity,
    Rows,
    SqliteIdentity,
    Statement,
    adapt,
    drive,
    guard_of,
    identify_postgres,
    undoable,
)

WORDS = "50 % of :names %s"


def write(number: int) -> Flow[Rows]:
    yield Statement("SELECT count(*) FROM note")
    return (
        yield Statement(
            "INSERT INTO note (id, words, raw) VALUES (:id, :words, :raw) RETURNING id, words, raw -- 5 %",
            {"id": number, "words": WORDS, "raw": b"\x00\xff"},
        )
    )


def identity() -> DatabaseIdentity:
    if ENGINE == "sqlite3":
        return SqliteIdentity(Path(NAME))
    with transaction.atomic():
        found = adapt(connection).run(identify_postgres())
    assert isinstance(found, PostgresIdentity)
    return found


def count() -> int:
    with connections["second"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM note")
        return int(cursor.fetchone()[0])


def refused(run: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run()


def values_come_back_as_they_went_in() -> None:
    with transaction.atomic():
        rows = adapt(connection).run(write(1), identity())
        transaction.set_rollback(True)
    assert [tuple(row) for row in rows] == [(1, WORDS, b"\x00\xff")], rows


def a_commit_of_atomic_keeps_it() -> None:
    before = count()
    with transaction.atomic():
        adapt(connection).run(write(2), identity())
        assert ENGINE == "sqlite3" or count() == before
    assert count() == before + 1


def an_exception_in_atomic_leaves_no_trace() -> None:
    before = count()
    try:
        with transaction.atomic():
            adapt(connection).run(write(3), identity())
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert count() == before


def an_alias_a_wrapper_and_the_module_are_the_connection() -> None:
    with transaction.atomic():
        for tx in (connection, connections["default"], "default", transaction):
            adapt(tx).run(undoable(write(4)), identity())
            with connection.cursor() as cursor:
                cursor.execute("DELETE FROM note WHERE id = 4")


def an_unknown_alias_is_refused() -> None:
    refused(lambda: adapt("nowhere"), "not an alias")


def autocommit_is_refused() -> None:
    refused(lambda: adapt(connection).run(write(5)), "autocommit with no transaction open")


def autocommit_off_is_accepted() -> None:
    before = count()
    transaction.set_autocommit(False)
    try:
        adapt(connection).run(write(6), identity())
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)
    assert count() == before


def a_transaction_marked_for_rollback_is_refused() -> None:
    with transaction.atomic():
        transaction.set_rollback(True)
        refused(lambda: adapt(connection).run(write(7)), "already failed")


def an_aborted_transaction_is_refused() -> None:
    if ENGINE == "sqlite3":
        return
    with transaction.atomic():
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")
        except django.db.DataError:
            refused(lambda: adapt(connection).run(write(8)), "already failed")
        transaction.set_rollback(True)


def another_database_is_refused() -> None:
    other = SqliteIdentity(Path(NAME + ".other")) if ENGINE == "sqlite3" else PostgresIdentity("x", 1, 2)
    with transaction.atomic():
        refused(lambda: adapt(connection).run(write(9), other), "another database")


def a_nested_atomic_that_fails_takes_it_along() -> None:
    before = count()
    with transaction.atomic():
        try:
            with transaction.atomic():
                adapt(connection).run(write(10), identity())
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
    assert count() == before


def a_guarded_transaction_can_be_committed_when_the_guard_is_lifted() -> None:
    before = count()
    with transaction.atomic():
        caller = adapt(connection)
        caller.run(write(11), identity())
        guard = guard_of(caller, connection)
        caller.run(guard.set(), identity())
        with transaction.atomic():
            caller.run(write(12))
        caller.run(guard.lift(None))
    assert count() == before + 2


def a_commit_is_refused_before_it_happens() -> None:
    before = count()
    with pytest.raises(TransactionMisused, match="tried to commit"):
        write_and_commit()
    assert count() == before


def write_and_commit() -> None:
    with transaction.atomic():
        caller = adapt(connection)
        caller.run(write(13), identity())
        guard = guard_of(caller, connection)
        caller.run(guard.set(), identity())
        try:
            with connection.cursor() as cursor:
                cursor.execute("COMMIT")
        except (django.db.Error, TransactionMisused) as error:
            drive(guard.lift(error), caller.execute)


def what_a_handler_writes_in_a_transaction_of_its_own_is_not_kept() -> None:
    kept = "INSERT INTO note (id, words) VALUES (99, 'kept')"
    for texts in (
        [f"ROLLBACK; BEGIN; {kept}; COMMIT"],
        ["ROLLBACK", "BEGIN", kept, "COMMIT"],
        ["ROLLBACK", kept],
        ["CLOSE ALL", kept, "COMMIT"],
    ):
        before = count()
        with pytest.raises(TransactionMisused, match="tried to commit"):
            ask_all(texts)
        assert count() == before, texts


def ask_all(texts: list[str]) -> None:
    with transaction.atomic():
        caller = adapt(connection)
        caller.run(write(14), identity())
        guard = guard_of(caller, connection)
        caller.run(guard.set(), identity())
        for text in texts:
            with suppress(Exception), connection.cursor() as cursor:
                cursor.execute(text)
        drive(guard.lift(None), caller.execute)


def a_publish_commits_and_vanishes_with_its_block() -> None:
    table = "hooklane_event" if ENGINE == "sqlite3" else "hooklane.event"
    address = f"sqlite:///{NAME}" if ENGINE == "sqlite3" else f"postgresql://{SERVER[2]}@{SERVER[0]}:{SERVER[1]}/{NAME}"
    outbox = Outbox(address)
    with transaction.atomic():
        outbox.publish("order.created", {"id": 1}, key="k", tx=connection)
        transaction.set_rollback(True)
    with transaction.atomic():
        outbox.publish("order.created", {"id": 2}, key="k", tx=transaction)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT data FROM {table}")
        assert [bytes(data) for (data,) in cursor.fetchall()] == [b'{"id":2}']


PROMISES = [
    values_come_back_as_they_went_in,
    a_commit_of_atomic_keeps_it,
    an_exception_in_atomic_leaves_no_trace,
    an_alias_a_wrapper_and_the_module_are_the_connection,
    an_unknown_alias_is_refused,
    autocommit_is_refused,
    autocommit_off_is_accepted,
    a_transaction_marked_for_rollback_is_refused,
    an_aborted_transaction_is_refused,
    another_database_is_refused,
    a_nested_atomic_that_fails_takes_it_along,
    a_guarded_transaction_can_be_committed_when_the_guard_is_lifted,
    a_commit_is_refused_before_it_happens,
]
if ENGINE == "postgresql":
    PROMISES.append(what_a_handler_writes_in_a_transaction_of_its_own_is_not_kept)
if "--psycopg2" not in sys.argv:  # the outbox's own connection is psycopg's, which is hidden there
    PROMISES.append(a_publish_commits_and_vanishes_with_its_block)

if __name__ == "__main__":
    if ENGINE == "postgresql":
        from django.db.backends.postgresql.psycopg_any import is_psycopg3

        assert is_psycopg3 is ("--psycopg2" not in sys.argv)
    for promise in PROMISES:
        try:
            promise()
            outcome = "ok"
        except BaseException:
            outcome = traceback.format_exc()
        print(json.dumps({promise.__name__: outcome}))
