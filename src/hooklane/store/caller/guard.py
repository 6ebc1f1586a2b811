"""A handler may write in our transaction, and not end it: how is its commit refused before it happens?

PostgreSQL does it for every driver and every spelling. A cursor WITH HOLD is opened whose rows cannot be computed; a
COMMIT has to compute what such a cursor still owes, fails, and the transaction is rolled back. Nothing is computed
before, and closing the cursor makes the transaction one that can be committed. SQLite asks an authorizer.
A rollback keeps nothing, so it is let through, and found out. What comes after it is refused before it is sent, as is
every text that would end our transaction or close our cursor (`lent.py`); besides, what psycopg2 begins is read-only.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any, Protocol

from hooklane.errors import TransactionAborted, TransactionMisused
from hooklane.store.caller.base import Caller
from hooklane.store.caller.causes import causes, field_of, sqlstate
from hooklane.store.caller.flow import Dialect, Flow
from hooklane.store.caller.lent import Lent
from hooklane.store.caller.statements import STATEMENTS
from hooklane.store.caller.transaction_control import REFUSAL

ENDED = "the handler has tried to commit tx, or has rolled it back: hooklane does it, when it returns"
CLOSED = "the handler has closed tx: hooklane does it, when it returns"
CAUGHT = (
    "an error of the database was caught inside the handler, and its transaction is aborted since then, so nothing of"
    " it was kept: let the error through, or use a savepoint around what may fail"
)

LEFT_OPEN = (
    "the handler has entered transaction.atomic() and not left it: nothing of it would be committed, so nothing is kept"
)

_NO_SUCH_CURSOR = "34000"
_READ_ONLY = "PreventCommandIfReadOnly"
"""The function of the server that refuses to write, which the drivers tell with an error."""
_IN_TRANSACTION = 2
"""libpq's PQTRANS_INTRANS, which psycopg and psycopg2 both tell."""


class Guard(Protocol):
    """Stands while a handler has the connection."""

    def set(self) -> Flow[None]: ...
    def lift(self, error: BaseException | None) -> Flow[None]:
        """The handler is done, with *error* or without: `TransactionMisused` or `TransactionAborted` where what it was
        given is not there any more. An error of the handler's own is the news, and what follows from it is not."""


def guard_of(caller: Caller, tx: Any) -> Guard:
    """A guard for a handler that gets *tx*."""
    if caller.dialect is Dialect.SQLITE:
        return SqliteGuard(caller, tx)
    return PostgresGuard(tx)


class _CommitOf:
    """The method `commit` of a connection, refused for a while, where an instance may have its own."""

    def __init__(self, tx: Any) -> None:
        # The async kinds of SQLAlchemy call the sync one that they stand for.
        self._tx = getattr(tx, "sync_session", None) or getattr(tx, "sync_connection", None) or tx
        self.refused = False

    def refuse(self) -> None:
        if hasattr(self._tx, "commit"):
            with suppress(AttributeError):  # psycopg2 is written in C, and its methods stay as they are
                self._tx.commit = self.refuse_now

    def allow(self) -> None:
        with suppress(AttributeError):
            del self._tx.commit

    def refuse_now(self, *_: Any, **__: Any) -> Any:
        self.refused = True
        raise TransactionMisused(REFUSAL)


class PostgresGuard:
    def __init__(self, tx: Any) -> None:
        self._tx = tx
        self._commit = _CommitOf(tx)
        self._blocks = blocks_of(tx)
        self._lent = Lent(tx, self._commit.refuse_now)

    def set(self) -> Flow[None]:
        is_asyncpg = type(self._tx).__module__.startswith("asyncpg")
        yield STATEMENTS["refuse_commit_and_end" if is_asyncpg else "refuse_commit"]
        self._commit.refuse()
        self._lent.watch()

    def lift(self, error: BaseException | None) -> Flow[None]:
        self._commit.allow()
        self._lent.release()
        if _is_refused(error) or self._commit.refused or self._is_read_only(error):
            raise TransactionMisused(ENDED) from error
        refuse_closed(self._tx, error)
        if error is not None:
            return
        refuse_ended(self._tx, self._blocks)
        try:
            yield STATEMENTS["let_commit"]
        except Exception as raised:
            # SQLAlchemy's session has let go of the connection and taken another one.
            if sqlstate(raised) == _NO_SUCH_CURSOR or type(raised).__name__ == "ResourceClosedError":
                raise TransactionMisused(ENDED) from raised
            raise

    def _is_read_only(self, error: BaseException | None) -> bool:
        """Whether the handler has ended our transaction and wrote in one of its own, where the driver begins those as
        read-only. An error of another connection, to a standby perhaps, leaves this one as it was; one that came
        through this one (a foreign table) is raised elsewhere in the server."""
        if error is None or not any(_raised_in(cause) == _READ_ONLY for cause in causes(error)):
            return False
        begins_read_only = getattr(self._tx, "read_only", None) or getattr(self._tx, "readonly", None)
        # A block of psycopg's has rolled back already when its error is seen here.
        return bool(begins_read_only) and self._tx.info.transaction_status != _IN_TRANSACTION


class SqliteGuard:
    def __init__(self, caller: Caller, tx: Any) -> None:
        raw = caller.session
        assert isinstance(raw, sqlite3.Connection)
        self._raw = raw
        self._tx = tx
        self._commit = _CommitOf(tx) if tx is not raw else None
        self._blocks = blocks_of(tx)
        # SQLAlchemy rolls back by itself when a flush fails, and what comes then begins another transaction. Elsewhere
        # there may be none, and what is written after a rollback would be kept at once.
        self._denied = ("BEGIN", "COMMIT") if _is_alchemy(tx) else ("BEGIN", "COMMIT", "ROLLBACK")
        self._refused = False

    def set(self) -> Flow[None]:
        yield from ()
        self._raw.set_authorizer(self._authorize)
        if self._commit is not None:
            self._commit.refuse()

    def lift(self, error: BaseException | None) -> Flow[None]:
        yield from ()
        with suppress(sqlite3.ProgrammingError):  # the handler has closed it
            self._raw.set_authorizer(None)
        if self._commit is not None:
            self._commit.allow()
            self._refused = self._refused or self._commit.refused
        if self._refused:
            raise TransactionMisused(ENDED) from error
        refuse_closed(self._tx, error)
        if error is not None:
            return
        refuse_ended(self._tx, self._blocks)
        if not self._raw.in_transaction:
            raise TransactionAborted(CAUGHT)

    def _authorize(self, action: int, what: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_TRANSACTION and what in self._denied:
            self._refused = True
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK


def refuse_closed(tx: Any, error: BaseException | None) -> None:
    """What the handler has closed itself; not what the server has ended, which psycopg calls `broken` and psycopg2
    marks with a 2. asyncpg does not tell the two apart."""
    is_closed = getattr(tx, "closed", False)
    if is_closed in (True, 1) and not getattr(tx, "broken", False) and not getattr(tx, "invalidated", False):
        raise TransactionMisused(CLOSED) from error


def blocks_of(tx: Any) -> int:
    """How many blocks of Django's *tx* is in, inside the one that commits; its own savepoints are among them."""
    return len(getattr(tx, "savepoint_ids", ()))


def refuse_ended(tx: Any, blocks: int) -> None:
    """SQLAlchemy knows without asking the database: it lets go of its connection at the end of a transaction, and a
    session whose flush has failed has rolled back already. Django knows that the block it is in has failed, and whether
    it is in more than the *blocks* in which the handler got it: the end of ours would be the end of the innermost."""
    if blocks_of(tx) > blocks:
        raise TransactionMisused(LEFT_OPEN)
    if getattr(tx, "is_active", True) is False or getattr(tx, "needs_rollback", False) is True:
        raise TransactionAborted(CAUGHT)
    if _is_alchemy(tx) and not tx.in_transaction():
        raise TransactionMisused(ENDED)


def _is_alchemy(tx: Any) -> bool:
    return callable(getattr(tx, "in_transaction", None))


def _is_refused(error: BaseException | None) -> bool:
    """Also where the handler has caught the refusal and went on: a driver whose connection is gone by then says so, and
    hides what was being handled."""
    return error is not None and any(REFUSAL in _words_of(cause) for cause in causes(error, hidden=True))


def _raised_in(error: BaseException) -> str | None:
    return getattr(field_of(error, "diag"), "source_function", None)


def _words_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # an error of the handler's that cannot be told is no refusal of ours
        return ""
