"""What a handler asks of the connection that it is lent is read before it is sent, by the means of each driver.

The database itself cannot see to what comes after the end of our transaction: it forgets with it whatever we told it,
and behind a pooler the next statement may go to another session. So each kind of connection is watched by its own
means: cursors of psycopg and psycopg2, the class of asyncpg, events of SQLAlchemy, wrappers of Django.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

from hooklane.store.caller.psycopg3 import IDLE
from hooklane.store.caller.transaction_control import Ending, ending_of

Ask = Callable[[object], None]
"""Called with a text before it is sent; it raises where the text must not be sent."""


class Lent:
    """A connection in a handler's hands. *refuse* raises, and is remembered to have been called."""

    def __init__(self, tx: Any, refuse: Callable[[], Any]) -> None:
        self._tx = tx
        self._refuse = refuse
        self._in_transaction: Callable[[], bool] = bool
        self._undo = ExitStack()

    def watch(self) -> None:
        tx = self._tx
        if hasattr(tx, "execute_wrappers"):
            self._watch_django(tx)
        elif type(tx).__module__.startswith("sqlalchemy"):
            self._watch_alchemy(tx)
        elif type(tx).__module__.startswith("asyncpg"):
            self._watch_asyncpg(getattr(tx, "_con", tx))
        else:
            self._watch_cursors(tx)

    def release(self) -> None:
        self._undo.close()

    def _ask(self, sql: object) -> None:
        """A rollback may pass, since drivers and SQLAlchemy roll back by themselves when something fails. After it
        nothing may: it would be written in a transaction that is not ours."""
        if not self._in_transaction() or ending_of(_text_of(sql, self._tx)) is Ending.CONTROL:
            self._refuse()

    def _watch_cursors(self, conn: Any) -> None:
        self._in_transaction = lambda: _status_of(conn) != IDLE
        for name in ("cursor_factory", "server_cursor_factory"):
            if hasattr(conn, name):
                factory = getattr(conn, name)
                setattr(conn, name, _asking_factory(factory or _plain_cursor(conn), self._asked_while_lent()))
                self._undo.callback(setattr, conn, name, factory)

    def _asked_while_lent(self) -> Ask:
        """For cursors that outlive the checkout: they ask no more."""
        lent = [True]
        self._undo.callback(lent.clear)
        return lambda sql: self._ask(sql) if lent else None

    def _watch_asyncpg(self, conn: Any) -> None:
        self._in_transaction = conn.is_in_transaction
        kind: Any = type(conn)
        conn.__class__ = _asking_asyncpg(kind)
        _asks[id(conn)] = self._ask
        self._undo.callback(setattr, conn, "__class__", kind)
        self._undo.callback(_asks.pop, id(conn), None)

    def _watch_django(self, wrapper: Any) -> None:
        def asking(execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
            self._ask(sql)
            return execute(sql, params, many, context)

        raw = wrapper.connection
        self._in_transaction = lambda: wrapper.connection is raw and _status_of(raw) != IDLE
        wrapper.execute_wrappers.append(asking)
        self._undo.callback(wrapper.execute_wrappers.remove, asking)

    def _watch_alchemy(self, tx: Any) -> None:
        from sqlalchemy import event

        # The async kinds stand for a sync one, and a session takes another connection after a rollback.
        tx = getattr(tx, "sync_session", None) or getattr(tx, "sync_connection", None) or tx
        is_session = hasattr(tx, "get_bind")
        connection = tx.connection() if is_session else tx
        raw = connection.connection.driver_connection
        # Whoever asks for the driver's own connection is past SQLAlchemy's events.
        if type(raw).__module__.startswith("asyncpg"):
            self._watch_asyncpg(raw)
        else:
            self._watch_cursors(raw)
        self._in_transaction = lambda: not connection.closed and _is_in_transaction(raw)

        def before_cursor_execute(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
            self._ask(statement)

        def after_begin(*_: Any) -> None:
            if not self._in_transaction():
                self._refuse()

        self._listen(event, connection, before_cursor_execute)
        if is_session:
            self._listen(event, tx, after_begin)

    def _listen(self, event: Any, target: Any, listener: Callable[..., None]) -> None:
        event.listen(target, listener.__name__, listener)
        self._undo.callback(event.remove, target, listener.__name__, listener)


def _status_of(conn: Any) -> int:
    return int(conn.info.transaction_status)  # psycopg and psycopg2 agree on this one


def _is_in_transaction(raw: Any) -> bool:
    if type(raw).__module__.startswith("asyncpg"):
        return bool(raw.is_in_transaction())
    return _status_of(raw) != IDLE


def _text_of(sql: object, tx: Any) -> str:
    if isinstance(sql, str):
        return sql
    if isinstance(sql, bytes):
        return sql.decode(errors="replace")
    compose: Any = getattr(sql, "as_string", None)  # psycopg.sql and psycopg2.sql
    return str(compose(tx)) if compose is not None else str(sql)


# psycopg, psycopg2


def _plain_cursor(conn: Any) -> Any:
    """What a psycopg2 connection takes when it was told nothing."""
    from psycopg2.extensions import cursor

    return cursor


def _asking_factory(factory: Any, ask: Ask) -> Any:
    kind = _asking_cursor(factory) if isinstance(factory, type) else None

    def make(*args: Any, **kwargs: Any) -> Any:
        if kind is None:
            return factory(*args, **kwargs)
        cursor = kind(*args, **kwargs)
        cursor.hooklane_ask = ask
        return cursor

    return make


@cache
def _asking_cursor(base: Any) -> Any:
    """A kind of cursor like *base* whose texts are read first. What is async gives what is to be awaited, as it was."""

    def asking(name: str) -> Any:
        send = getattr(base, name)

        def method(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
            self.hooklane_ask(query)
            return send(self, query, *args, **kwargs)

        return method

    names = [name for name in ("execute", "executemany", "stream", "copy", "copy_expert") if hasattr(base, name)]
    return type(base.__name__, (base,), {name: asking(name) for name in names} | {"__module__": base.__module__})


# asyncpg

_asks: dict[int, Ask] = {}
"""By the identity of a connection, which has no place for anything of ours."""


@cache
def _asking_asyncpg(base: Any) -> Any:
    def asking(name: str) -> Any:
        send = getattr(base, name)

        def method(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
            _asks[id(self)](query)
            return send(self, query, *args, **kwargs)

        return method

    names = ("execute", "executemany", "fetch", "fetchval", "fetchrow", "fetchmany", "prepare", "cursor")
    # What these are given cannot end a transaction, but they must be in one.
    copies = ("copy_records_to_table", "copy_to_table", "copy_from_table", "copy_from_query")
    methods = {name: asking(name) for name in (*names, *copies) if hasattr(base, name)}
    return type(base.__name__, (base,), methods | {"__slots__": (), "__module__": base.__module__})
