"""Writes that are safe to repeat and to receive in any order, on the caller's own connection, one statement each.

Each works with every kind of connection that a handler may have; with an async one, await it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
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
    freeze the field for ever: it raises `Reject`, or is refused with False when `future="skip"`. So does a key
    without a value.
    """
    if future not in ("raise", "skip"):
        raise UsageError(f'latest.apply: future must be "raise" or "skip", got {future!r}')
    if tie_column is None and tie != "":
        raise UsageError("latest.apply: tie has an effect only where tie_column names the column that keeps it")
    at_us = microseconds(at)
    if is_future(at_us, wall_now() if now is None else now, skew_ms):
        if future == "raise":
            raise Reject(f"future_clock: {table} {dict(key)} would be set at {at!r}, which is ahead of now")
        return _nothing()
    _columns("latest.apply", table, key, set, at_column, *([tie_column] if tie_column else []))
    _no_null("latest.apply", table, key)
    mark = {at_column: at_us, **({tie_column: tie} if tie_column else {})}
    return _upsert(_table(table), dict(key), {**set, **mark}, list(mark))


@OnTx
def insert_once(table: str, row: Mapping[str, Any], *, key: tuple[str, ...] | list[str]) -> Flow[bool]:
    """Insert *row* unless a row with the same *key* columns (a unique index) is there: whether it was inserted.

    `Reject` where a column of the key has no value: a unique index takes NULL any number of times.
    """
    _columns("insert_once", table, row)
    if _is_text(key) or not key or any(name not in row for name in key):
        raise UsageError(f"insert_once: key is a list of columns of the row, got {key!r}")
    _no_null("insert_once", table, {name: row[name] for name in key})
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

    *order* is the life of the entity, first state first. Answers whether the row moved. `Reject` where a column of
    *key* has no value.
    """
    if _is_text(order) or len({*order}) < len(order):
        raise UsageError(f"transition: order lists each state once, first state first, got {order!r}")
    if to not in order:
        raise UsageError(f"transition: {to!r} is not in order={list(order)}")
    _columns("transition", table, key, set or {}, column)
    _no_null("transition", table, key)
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
    if not isinstance(amount, int) or isinstance(amount, bool) or not -(2**63) <= amount < 2**63:
        raise UsageError(f"ledger_entry: amount is a whole number of the smallest unit, in 64 bits, got {amount!r}")
    names = {name: name for name in ("entry", "account", "amount")} | dict(columns or {})
    if len(names) > 3:
        raise UsageError(f"ledger_entry: columns renames entry, account and amount, got {dict(columns or {})}")
    _columns("ledger_entry", table, *names.values(), set or {})
    row = {names["entry"]: event.step_key(f"ledger:{step}"), names["account"]: account, names["amount"]: amount}
    return _insert(_table(table), {**row, **(set or {})}, [names["entry"]])


def _is_text(given: object) -> bool:
    """Whether *given*, which should be a list, is one text: its letters would be taken for the items."""
    return isinstance(given, str)


def _nothing() -> Flow[bool]:
    yield from ()
    return False


def _upsert(table: str, key: dict[str, Any], values: dict[str, Any], mark: list[str]) -> Flow[bool]:
    row = {**key, **values}
    held = [f"{_alias(table)}.{_name(name)}" for name in mark]
    comes = [f"excluded.{_name(name)}" for name in mark]
    # A row from before the column was there has no time, and everything is newer; likewise without a tie breaker.
    older = f"{held[0]} IS NULL OR ({', '.join(held)}) < ({', '.join(comes)})"
    for tie in held[1:]:
        older += f" OR ({held[0]} = {comes[0]} AND {tie} IS NULL)"
    rows = yield Statement(
        f"{_into(table, row)} ON CONFLICT ({_names(key)}) DO UPDATE SET {_changes(values)} WHERE {older} RETURNING 1",
        _bound(row),
    )
    return bool(rows)


def _insert(table: str, row: dict[str, Any], key: list[str]) -> Flow[bool]:
    rows = yield Statement(f"{_into(table, row)} ON CONFLICT ({_names(key)}) DO NOTHING RETURNING 1", _bound(row))
    return bool(rows)


def _move(
    table: str, key: dict[str, Any], column: str, to: str, earlier: list[str], values: dict[str, Any]
) -> Flow[bool]:
    moved = {column: to, **values}
    row = {**key, **moved}
    before = {f"before_{number}": state for number, state in enumerate(earlier)}
    held = f"{_alias(table)}.{_name(column)}"
    allowed = f"{held} IS NULL"  # a row without a status is before the first
    if before:
        allowed += f" OR {held} IN ({', '.join(':' + name for name in before)})"
    rows = yield Statement(
        f"{_into(table, row)} ON CONFLICT ({_names(key)}) DO UPDATE SET {_changes(moved)} WHERE {allowed} RETURNING 1",
        {**_bound(row), **before},
    )
    return bool(rows)


def _table(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"the name of a table has letters, digits and _, perhaps after a schema, got {name!r}")
    return ".".join(_name(part) for part in name.split("."))


def _alias(table: str) -> str:
    return table.rpartition(".")[2]


def _columns(helper: str, table: str, *groups: Mapping[str, Any] | str) -> None:
    """Refuse a column that is named twice, or badly: of two values the database, or this module, would choose one."""
    names = [name for group in groups for name in ([group] if isinstance(group, str) else group)]
    for name in names:
        if not _NAME.fullmatch(name) or "." in name:
            raise UsageError(f"{table}: the name of a column has letters, digits and _, got {name!r}")
    folded = [name.lower() for name in names]
    if twice := sorted({name for name in folded if folded.count(name) > 1}):
        raise UsageError(f"{helper}: {table} would get {', '.join(twice)} twice; each column has one value")


def _no_null(helper: str, table: str, key: Mapping[str, Any]) -> None:
    if not key:
        raise UsageError(f"{helper}: {table} needs a key, the columns of a unique index")
    if missing := [name for name, value in key.items() if value is None]:
        # A unique index takes any number of NULLs: each copy of the event would have a row of its own.
        raise Reject(f"{helper}: {table} has no key to be told by: {', '.join(missing)} is None")


def _name(name: str) -> str:
    """*name* in SQL. Quoted it may be a word of SQL, such as user or order; one with capitals means what it means in
    SQL without quotes, where PostgreSQL makes small letters of them."""
    return f'"{name}"' if name == name.lower() else name


def _names(names: Iterable[str]) -> str:
    return ", ".join(_name(name) for name in names)


def _into(table: str, row: Mapping[str, Any]) -> str:
    return f"INSERT INTO {table} ({_names(row)}) VALUES ({', '.join(f':v_{name}' for name in row)})"


def _changes(values: Iterable[str]) -> str:
    return ", ".join(f"{_name(name)} = excluded.{_name(name)}" for name in values)


def _bound(row: Mapping[str, Any]) -> dict[str, Any]:
    return {f"v_{name}": value for name, value in row.items()}
