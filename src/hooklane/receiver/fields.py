"""Writes that are safe to repeat and to receive in any order, on the caller's own connection, one statement each.

Each works with every kind of connection that a handler may have; with an async one, await it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, Generic, Literal, ParamSpec, overload

from hooklane.core.admission.freshness import SKEW_MS, is_future, microseconds
from hooklane.errors import Reject, UsageError
from hooklane.model.clock import Instant, wall_now
from hooklane.model.tx import AsyncTx, SyncTx
from hooklane.receiver.event import Event
from hooklane.store.caller import Flow, Statement, adapt

P = ParamSpec("P")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?")


class OnTx(Generic[P]):
    """A write on the caller's own connection: on a blocking one it gives a bool, on an async one something to await."""

    def __init__(self, statement: Callable[P, Flow[bool]]) -> None:
        self.statement = statement
        self.__doc__ = statement.__doc__
        self.__name__ = statement.__name__

    @overload
    def __call__(self, tx: AsyncTx, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, bool]: ...

    @overload
    def __call__(self, tx: SyncTx, *args: P.args, **kwargs: P.kwargs) -> bool: ...

    def __call__(self, tx: object, *args: P.args, **kwargs: P.kwargs) -> bool | Coroutine[Any, Any, bool]:
        flow = self.statement(*args, **kwargs)
        return adapt(tx).run(flow)


@OnTx
def apply_latest(
    table: str,
    *,
    key: Mapping[str, Any],
    at: int | float | str | datetime,
    set: Mapping[str, Any],
    tie: str = "",
    at_column: str = "at",
    tie_column: str | None = None,
    skew_ms: int = SKEW_MS,
    now: Instant | None = None,
    future: Literal["raise", "skip"] = "raise",
) -> Flow[bool]:
    """Insert or update the row of *key* in *table* if (*at*, *tie*) is newer than what it holds: whether it was.

    The table needs a unique index on the columns of *key* and an integer column *at_column* (microseconds UTC).
    Equal times lose unless *tie* (kept in *tie_column*) is larger. A time more than *skew_ms* ahead of *now* would
    freeze the field for ever: it raises `Reject`, or is refused with False when `future="skip"`.
    """
    if future not in ("raise", "skip"):
        raise UsageError(f'latest.apply: future must be "raise" or "skip", got {future!r}')
    at_us = microseconds(at)
    if is_future(at_us, wall_now() if now is None else now, skew_ms):
        if future == "raise":
            raise Reject(f"future_clock: {table} {dict(key)} would be set at {at!r}, which is ahead of now")
        return _nothing()
    _columns(table, key, set, at_column, *([tie_column] if tie_column else []))
    mark = {at_column: at_us, **({tie_column: tie} if tie_column else {})}
    return _upsert(_table(table), dict(key), {**set, **mark}, list(mark))


@OnTx
def insert_once(table: str, row: Mapping[str, Any], *, key: tuple[str, ...] | list[str]) -> Flow[bool]:
    """Insert *row* unless a row with the same *key* columns (a unique index) is there: whether it was inserted."""
    _columns(table, row)
    missing = [name for name in key if name not in row]
    if missing or not key:
        raise UsageError(f"insert_once: key must name columns of the row, got {list(key)}")
    return _insert(_table(table), dict(row), list(key))


@OnTx
def transition(
    table: str,
    *,
    key: Mapping[str, Any],
    to: str,
    order: list[str] | tuple[str, ...],
    column: str = "status",
    set: Mapping[str, Any] | None = None,
) -> Flow[bool]:
    """Move the status of the row of *key* forward to *to*, never back; the row is inserted if it is not there.

    *order* is the life of the entity, first state first. Answers whether the row moved.
    """
    if to not in order:
        raise UsageError(f"transition: {to!r} is not in order={list(order)}")
    _columns(table, key, set or {}, column)
    earlier = list(order[: list(order).index(to)])
    return _move(_table(table), dict(key), column, to, earlier, dict(set or {}))


@OnTx
def ledger_entry(
    table: str,
    *,
    event: Event,
    account: object,
    amount: int,
    step: str = "",
    columns: Mapping[str, str] | None = None,
    set: Mapping[str, Any] | None = None,
) -> Flow[bool]:
    """Book *amount* on *account* once per event (and *step*): whether it was booked now. The balance is the sum.

    The table needs the columns `entry` (unique), `account` and `amount`; *columns* renames them.
    """
    if not isinstance(amount, int) or isinstance(amount, bool):
        raise UsageError(f"ledger_entry: amount is a whole number of the smallest unit, got {amount!r}")
    names = {"entry": "entry", "account": "account", "amount": "amount", **(columns or {})}
    row = {names["entry"]: event.step_key(f"ledger:{step}"), names["account"]: account, names["amount"]: amount}
    return insert_once.statement(table, {**row, **(set or {})}, key=[names["entry"]])


def _nothing() -> Flow[bool]:
    yield from ()
    return False


def _upsert(table: str, key: dict[str, Any], values: dict[str, Any], mark: list[str]) -> Flow[bool]:
    row = {**key, **values}
    changes = ", ".join(f"{name} = excluded.{name}" for name in values)
    held = ", ".join(f"{_alias(table)}.{name}" for name in mark)
    comes = ", ".join(f"excluded.{name}" for name in mark)
    # A row from before the column was there has no time, and everything is newer; likewise without a tie breaker.
    older = f"{_alias(table)}.{mark[0]} IS NULL OR ({held}) < ({comes})"
    for tie in mark[1:]:
        older += f" OR ({_alias(table)}.{mark[0]} = excluded.{mark[0]} AND {_alias(table)}.{tie} IS NULL)"
    rows = yield Statement(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({_values(row)}) ON CONFLICT ({', '.join(key)})"
        f" DO UPDATE SET {changes} WHERE {older} RETURNING 1",
        _bound(row),
    )
    return bool(rows)


def _insert(table: str, row: dict[str, Any], key: list[str]) -> Flow[bool]:
    rows = yield Statement(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({_values(row)})"
        f" ON CONFLICT ({', '.join(key)}) DO NOTHING RETURNING 1",
        _bound(row),
    )
    return bool(rows)


def _move(
    table: str, key: dict[str, Any], column: str, to: str, earlier: list[str], values: dict[str, Any]
) -> Flow[bool]:
    row = {**key, column: to, **values}
    changes = ", ".join(f"{name} = excluded.{name}" for name in row if name not in key)
    before = {f"before_{number}": state for number, state in enumerate(earlier)}
    allowed = f"{_alias(table)}.{column} IS NULL"  # a row without a status is before the first
    if before:
        allowed += f" OR {_alias(table)}.{column} IN ({', '.join(':' + name for name in before)})"
    rows = yield Statement(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({_values(row)}) ON CONFLICT ({', '.join(key)})"
        f" DO UPDATE SET {changes} WHERE {allowed} RETURNING 1",
        {**_bound(row), **before},
    )
    return bool(rows)


def _table(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"the name of a table has letters, digits and _, perhaps after a schema, got {name!r}")
    return name


def _alias(table: str) -> str:
    return table.rpartition(".")[2]


def _columns(table: str, *groups: Mapping[str, Any] | str) -> None:
    for group in groups:
        for name in [group] if isinstance(group, str) else group:
            if not _NAME.fullmatch(name) or "." in name:
                raise UsageError(f"{table}: the name of a column has letters, digits and _, got {name!r}")


def _values(row: Mapping[str, Any]) -> str:
    return ", ".join(f":v_{name}" for name in row)


def _bound(row: Mapping[str, Any]) -> dict[str, Any]:
    return {f"v_{name}": value for name, value in row.items()}
