"""`sqlite3.Connection`.

In Python's default mode a transaction begins by itself at the first INSERT, but a flow may read first. So when none is
open we begin it, as a writer at once: the publish is part of the caller's next `commit()`, and never waits half-way.
"""

from __future__ import annotations

import sqlite3

from hooklane.store.caller.base import SyncCaller
from hooklane.store.caller.flow import Dialect, Flow, Rows, Statement
from hooklane.store.caller.placeholders import Style, bind

_BEGIN = Statement("BEGIN IMMEDIATE")


class SqliteCaller(SyncCaller):
    dialect = Dialect.SQLITE
    name = "sqlite3.Connection"

    def __init__(self, tx: sqlite3.Connection) -> None:
        self._tx = tx

    @property
    def session(self) -> object:
        return self._tx

    def check(self) -> None:
        try:
            in_transaction = self._tx.in_transaction
        except sqlite3.ProgrammingError as error:
            raise self._closed() from error
        if not in_transaction and is_autocommit(self._tx):
            raise self._autocommit('run "BEGIN IMMEDIATE" first, or leave isolation_level at its default')

    def open(self) -> Flow[None]:
        if not self._tx.in_transaction:
            yield _BEGIN

    def execute(self, statement: Statement) -> Rows:
        return execute(self._tx, statement)


def is_autocommit(tx: sqlite3.Connection) -> bool:
    """Whether this connection opens no transaction by itself; Python 3.12 added a second way to say so."""
    autocommit = getattr(tx, "autocommit", -1)
    return autocommit is True or (autocommit == -1 and tx.isolation_level is None)


def execute(tx: sqlite3.Connection, statement: Statement) -> Rows:
    """Run one statement whatever row and text factories the caller uses."""
    sql, values = bind(statement, Style.QMARK)
    cursor = tx.cursor()
    cursor.row_factory = None
    text_factory = tx.text_factory
    try:
        tx.text_factory = str
        return cursor.execute(sql, values).fetchall()
    finally:
        tx.text_factory = text_factory
        cursor.close()
