"""How is a step performed on a connection of ours? Parameters go by position, and NULLs are not bound at all.

sqlite3 looks for an adapter for each NULL and each `bytes`, which is four times as slow as a number.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import compress, repeat
from operator import is_not, itemgetter
from typing import Any

from hooklane.store.caller.placeholders import Style, translate
from hooklane.store.sql.queries import Many, Step, queries_of
from hooklane.store.sqlite.spelling import in_sqlite

_INSERT = "insert_row"
QUERIES = queries_of("hooklane.store.sql", "hooklane.store.sqlite.inbox", spelled=in_sqlite)

Statement = tuple[str, Callable[[Any], Sequence[Any]]]
"""A text, and what puts its parameters in order."""


def perform(conn: sqlite3.Connection, step: Step) -> Any:
    """The rows of a statement, or of each repetition of it."""
    if step.__class__ is Many:
        if step.name == _INSERT:
            return [_insert(conn, params) for params in step.params]
        sql, values = _STATEMENTS[step.name]
        return [conn.execute(sql, values(params)).fetchall() for params in step.params]
    sql, values = _STATEMENTS[step.name]
    return conn.execute(sql, values(step.params)).fetchall()


def _insert(conn: sqlite3.Connection, params: Mapping[str, Any]) -> list[Any]:
    """What RETURNING id would answer, which costs as much as the insert itself."""
    values = _in_order(params)
    given = tuple(map(is_not, values, repeat(None)))
    cursor = conn.execute(_insert_of(given), tuple(compress(values, given)))
    return [(cursor.lastrowid,)] if cursor.rowcount == 1 else []


@lru_cache(maxsize=256)
def _insert_of(given: tuple[bool, ...]) -> str:
    """The insert of a row of which so much is given; the rest is NULL."""
    marks = iter(given)
    return re.sub(r"\?", lambda _: "?" if next(marks) else "NULL", _INSERT_ROW)


def _statement(sql: str) -> Statement:
    """*sql* with its parameters by position, which SQLite binds faster than names, and what puts them so."""
    text, names = translate(sql, Style.QMARK)
    if len(names) < 2:
        return text, lambda params: [params[name] for name in names]
    return text, itemgetter(*names)


_INSERT_ROW, _in_order = _statement(QUERIES[_INSERT].removesuffix("RETURNING id"))
_STATEMENTS = {name: _statement(sql) for name, sql in QUERIES.items()}
