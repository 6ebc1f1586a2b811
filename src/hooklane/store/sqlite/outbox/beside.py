"""The inbox in the same SQLite file: read by a thread of its own, changed by the sender's writer."""

from __future__ import annotations

import asyncio
import sqlite3
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

from hooklane.store.beside import COMPONENT, Change, Changed, Question, is_there
from hooklane.store.inbox import Flow
from hooklane.store.sqlite import database
from hooklane.store.sqlite.inbox.statements import perform
from hooklane.store.sqlite.inbox.verbs import SqliteVerbs
from hooklane.store.sqlite.outbox import audit

T = TypeVar("T")
_VERBS = SqliteVerbs()


class SqliteBeside:
    """`InboxBeside`: a long list must hold up neither the event loop nor the thread that reads for the sender."""

    path: str
    inbox_kind = "sqlite"
    _looker: ThreadPoolExecutor | None = None
    _glass: sqlite3.Connection | None = None

    @abstractmethod
    async def _write(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T: ...

    async def ask_inbox(self, question: Question[T]) -> T | None:
        if self._looker is None:
            self._looker = ThreadPoolExecutor(1, "hooklane inbox reader")
        return await asyncio.get_running_loop().run_in_executor(self._looker, self._ask, question)

    async def change_inbox(self, change: Change[T]) -> T | None:
        return await self._write(_change, change)

    def _ask(self, question: Question[T]) -> T | None:
        with database.errors_named(self.path):
            if self._glass is None:
                self._glass = database.connect(self.path)
                self._glass.execute("PRAGMA query_only = ON")
            conn = self._glass
            conn.execute("BEGIN")  # one snapshot, which waits for no writer
            try:
                return _run(conn, question(_VERBS)) if is_there(_version(conn), _newest()) else None
            finally:
                conn.execute("ROLLBACK")

    def _close_beside(self) -> None:
        if self._looker is not None:
            self._looker.shutdown()
            self._looker = None
        if self._glass is not None:
            self._glass.close()
            self._glass = None


def _change(conn: sqlite3.Connection, change: Change[T]) -> T | None:
    if not is_there(_version(conn), _newest()):
        return None
    changed: Changed[T] = _run(conn, change(_VERBS))
    if changed.act is not None:
        audit.append(conn, changed.act)
    return changed.result


def _run(conn: sqlite3.Connection, flow: Flow[T]) -> T:
    try:
        step = next(flow)
        while True:
            step = flow.send(perform(conn, step))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _version(conn: sqlite3.Connection) -> int:
    return database.version_of(conn, COMPONENT)


@cache
def _newest() -> int:
    return len(database.migrations_of("hooklane.store.sqlite.inbox.migrations"))
