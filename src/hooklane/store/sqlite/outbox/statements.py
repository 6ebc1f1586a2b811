"""How does a flow of the sender's store run on a connection of ours? Lists as JSON, batches row by row."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from hooklane.model.jumps import JUMP_MS
from hooklane.model.redelivery import REDELIVERIES
from hooklane.store.caller.flow import Rows, Statement, drive
from hooklane.store.sql.outbox.steps import Batch, Flow, Pattern
from hooklane.store.sql.queries import Sql, queries_of
from hooklane.store.sqlite.spelling import in_sqlite

T = TypeVar("T")
SQL = queries_of(
    "hooklane.store.sql.outbox",
    "hooklane.store.sqlite.outbox",
    spelled=in_sqlite,
    redeliveries=REDELIVERIES,
    jump_ms=JUMP_MS,
)
_encode = msgspec.json.Encoder().encode


def run(conn: sqlite3.Connection, flow: Flow[T]) -> T:
    """Run *flow* in the transaction that is open, or statement by statement where none is."""
    return drive(flow, lambda step: perform(conn, step))


def run_on_snapshot(conn: sqlite3.Connection, flow: Flow[T]) -> T:
    """Run a *flow* that only reads, all of it on one snapshot, which waits for no writer."""
    conn.execute("BEGIN")
    try:
        return run(conn, flow)
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def perform(conn: sqlite3.Connection, step: Sql | Batch | Statement) -> Rows:
    match step:
        case Sql(name=name, params=params):
            text = SQL[name]
            return conn.execute(text, _bound(params)).fetchall() if text else ()
        case Batch(name=name, rows=rows, common=common):
            text, found = SQL[name], []
            if text:
                for row in rows:
                    found += conn.execute(text, {**common, **row}).fetchall()
            return found
        case Statement(sql=text, params=params):
            return conn.execute(text, params).fetchall()


def _bound(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in params.items()}


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return _encode(value).decode()
    return value.glob if isinstance(value, Pattern) else value
