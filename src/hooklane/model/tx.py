"""The application's own connection, as a type checker sees it: what tells a blocking one from an async one.

`tx` of a handler is the driver's own object (a `sqlite3.Connection`, a `psycopg.Connection` …): annotate it with that
class. These types are for functions that take any of them.
"""

from __future__ import annotations

from collections.abc import Awaitable
from types import ModuleType
from typing import Any, Protocol, TypeAlias


class AsyncTx(Protocol):
    """asyncpg's and psycopg's async connections, SQLAlchemy's AsyncConnection and AsyncSession."""

    def execute(self, *args: Any, **kwargs: Any) -> Awaitable[Any]: ...


class Executes(Protocol):
    """sqlite3.Connection, psycopg.Connection, SQLAlchemy's Connection and Session."""

    def execute(self, *args: Any, **kwargs: Any) -> Any: ...


class HasCursor(Protocol):
    """psycopg2's connection, and Django's."""

    def cursor(self, *args: Any, **kwargs: Any) -> Any: ...


SyncTx: TypeAlias = Executes | HasCursor | str | ModuleType
"""A blocking connection; with Django also the alias of one, or the module `django.db.transaction`."""
