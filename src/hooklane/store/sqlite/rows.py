"""How do many rows go in by few statements?

sqlite3 lets other threads run at each step of a statement, and a statement for each row, or a row of an answer, is a
step: the writer then waits for its turn with the interpreter as often, and the event loop with it. One statement for
many rows does all its work beside the loop.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from hooklane.store.caller.flow import Rows, Statement

T = TypeVar("T")
Row = tuple[Any, ...]

_SIZES = (1, 2, 4, 8, *range(16, 257, 16))
"""Rows of one statement: few sizes, so that each is prepared once, and near enough to each other that little is filled
up; 256 stays far below SQLite's count of parameters."""

blob = bytearray
"""The form in which bytes are bound without a search for an adapter."""


def _chunks(rows: Sequence[Row]) -> Iterator[tuple[int, int, list[Any]]]:
    """*rows* in as few chunks as can be: a size, how many rows are real, and the parameters in one line.

    What is left of a size is filled with zeros, which the statements pass over. (Not with NULLs: for each of those, and
    for each `bytes`, sqlite3 looks for an adapter, which takes seven times as long as to bind it.)
    """
    for at in range(0, len(rows), _SIZES[-1]):
        chunk = rows[at : at + _SIZES[-1]]
        size = next(size for size in _SIZES if size >= len(chunk))
        values = list(chain.from_iterable(chunk))
        if size > len(chunk):
            values += [0] * ((size - len(chunk)) * len(rows[0]))
        yield size, len(chunk), values


_INSERT = re.compile(r"(INSERT INTO \w+\s+\(([^)]*)\))\s+VALUES \([^)]*\)(.*?)(?:\s+RETURNING .*)?", re.DOTALL)


class Insert:
    """An INSERT of one row, as `.sql` files have it, for as many rows as there are. The first column is never 0."""

    def __init__(self, single: str) -> None:
        self.single = single
        """For one row with named parameters, for a caller's own connection."""
        found = _INSERT.fullmatch(single)
        assert found is not None, f"not an INSERT of one row: {single}"
        head, columns, then = found.groups()
        self.columns = tuple(column.strip() for column in columns.split(","))
        marks = f"({', '.join('?' for _ in self.columns)})"
        # A row alone needs no query that passes over what fills it up.
        self._sql = {1: f"{head} VALUES {marks} {then}"} | {
            size: f"{head} SELECT * FROM (VALUES {', '.join([marks] * size)}) WHERE column1 <> 0 {then}"
            for size in _SIZES[1:]
        }

    def run(self, conn: sqlite3.Connection, rows: Sequence[Row]) -> Sequence[Row]:
        for size, _, values in _chunks(rows):
            conn.execute(self._sql[size], values)
        return ()


class Quiet(Insert):
    """An INSERT that passes over rows that are there already, and tells as many times as it did not.

    Row by row, since these rows are spread over all of their table: of each page that a statement of many rows touches,
    SQLite keeps a copy until the statement has come to its end.
    """

    def run(self, conn: sqlite3.Connection, rows: Sequence[Row]) -> Sequence[Row]:
        return [(1,)] * conn.executemany(self._sql[1], rows).rowcount if rows else ()


_PARAMETER = re.compile(r":(\w+)")


class Update:
    """An UPDATE of one row, as `.sql` files have it, for as many rows as there are. It tells as often as it found one.

    Row by row: where most columns stay as they are, one statement for all rows takes nearly three times as long.
    """

    def __init__(self, single: str) -> None:
        self.single = single
        self.columns: tuple[str, ...] = tuple(dict.fromkeys(_PARAMETER.findall(single)))
        self._sql = _PARAMETER.sub(lambda found: f"?{self.columns.index(found[1]) + 1}", single)

    def run(self, conn: sqlite3.Connection, rows: Sequence[Row]) -> Sequence[Row]:
        return [(1,)] * conn.executemany(self._sql, rows).rowcount if rows else ()


@dataclass(frozen=True, slots=True)
class Many:
    """Rows that go in together; what comes back, if anything, is a row for each."""

    insert: Insert | Update
    rows: Sequence[Row]


PublishFlow = Generator[Statement | Many, Rows, T]
"""A flow that may also ask for many rows at once."""
