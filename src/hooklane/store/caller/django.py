"""Django's connection: `django.db.connection`, `connections["alias"]`, an alias, or the module `transaction`."""

from __future__ import annotations

from typing import Any

from hooklane.errors import UsageError
from hooklane.store.caller.base import SyncCaller
from hooklane.store.caller.flow import Dialect, Rows, Statement
from hooklane.store.caller.placeholders import Style, bind
from hooklane.store.caller.psycopg2 import plain
from hooklane.store.caller.psycopg3 import IN_ERROR

_DIALECTS = {"sqlite": Dialect.SQLITE, "postgresql": Dialect.POSTGRESQL}


def wrapper_of(alias: str | None) -> Any:
    """The connection of this thread for *alias*."""
    from django.db import DEFAULT_DB_ALIAS, connections
    from django.utils.connection import ConnectionDoesNotExist

    try:
        return connections[alias or DEFAULT_DB_ALIAS]
    except ConnectionDoesNotExist as error:
        raise UsageError(f"tx={alias!r} is not an alias in Django's DATABASES") from error


class DjangoCaller(SyncCaller):
    def __init__(self, tx: Any) -> None:
        self._tx = tx
        self.name = f"Django connection {tx.alias!r}"
        if tx.vendor not in _DIALECTS:
            raise UsageError(f"tx ({self.name}) is on {tx.vendor}: hooklane writes to sqlite and postgresql")
        self.dialect = _DIALECTS[tx.vendor]

    @property
    def session(self) -> object:
        return self._tx.connection

    def check(self) -> None:
        if self._tx.needs_rollback or self._status() == IN_ERROR:
            raise self._aborted()
        if not self._tx.in_atomic_block and self._tx.get_autocommit():
            raise self._autocommit("use  with transaction.atomic():")

    def _status(self) -> int | None:
        raw = self._tx.connection
        if self.dialect is not Dialect.POSTGRESQL or raw is None:
            return None
        return int(raw.info.transaction_status)  # psycopg and psycopg2 agree on this one

    def execute(self, statement: Statement) -> Rows:
        sql, values = bind(statement, Style.FORMAT)
        with self._tx.cursor() as cursor:
            cursor.execute(sql, values)
            return plain(cursor.fetchall()) if cursor.description is not None else ()
