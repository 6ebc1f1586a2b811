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
from operator import itemgetter
from typing import Any, Final, TypeVar

import msgspec

from hooklane.store.caller.flow import Rows, Statement

T = TypeVar("T")
Row = tuple[Any, ...]

_SIZES: Final = (1, 2, 4, 8, *range(16, 257, 16))
"""Rows of one statement: few sizes, so that each is prepared once, and near enough to each other that little is filled
up; 256 stays far below SQLite's count of parameters."""
_decode = msgspec.json.Decoder(list[Any]).decode

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


_INSERT = re.compile(r"(INSERT INTO (\w+)\s+\(([^)]*)\))\s+VALUES \([^)]*\)(.*?)(?:\s+RETURNING (.*))?", re.DOTALL)
_CONFLICT = re.compile(r"ON CONFLICT \((\w+), (\w+)\)")


class Insert:
    """An INSERT of one row, as `.sql` files have it, for as many rows as there are. The first column is never 0."""

    def __init__(self, single: str) -> None:
        self.single = single
        """For one row with named parameters, for a caller's own connection."""
        found = _INSERT.fullmatch(single)
        assert found is not None, f"not an INSERT of one row: {single}"
        head, self._table, columns, self._then, self._returning = found.groups()
        self.columns = tuple(column.strip() for column in columns.split(","))
        marks = f"({', '.join('?' for _ in self.columns)})"
        self._sql = {
            size: f"{head} SELECT * FROM (VALUES {', '.join([marks] * size)}) WHERE column1 <> 0 {self._then}"
            for size in _SIZES
        }

    def run(self, conn: sqlite3.Connection, rows: Sequence[Row]) -> Sequence[Row]:
        for size, _, values in _chunks(rows):
            conn.execute(self._sql[size], values)
        return ()


class Quiet(Insert):
    """An INSERT that passes over rows that are there already, and tells as many times as it did not."""

    def run(self, conn: sqlite3.Connection, rows: Sequence[Row]) -> Sequence[Row]:
        return [(1,)] * sum(conn.execute(self._sql[size], values).rowcount for size, _, values in _chunks(rows))


class Upsert(Insert):
    """An INSERT that tells of each row, which is known by two columns, what stands in two others now."""

    def __init__(self, single: str) -> None:
        super().__init__(single)
        conflict = _CONFLICT.search(single)
        assert conflict is not None
        keys = conflict.groups()
        first, second = self._returning.split(", ")
        self._keys_of = itemgetter(*(self.columns.index(key) for key in keys))
        # The place in the question comes back with the answer: an aggregate promises no order.
        self._ask = {
            size: f"SELECT json_group_array(v.column1), json_group_array(t.{first}), json_group_array(t.{second})"
            f" FROM (VALUES {', '.join(f'({place}, ?, ?)' for place in range(size))}) v"
            f" CROSS JOIN {self._table} t ON t.{keys[0]} = v.column2 AND t.{keys[1]} = v.column3"
            for size in _SIZES
        }

    def run(self, conn: sqlite3.Connection, rows: Sequence[Row]) -> Sequence[Row]:
        super().run(conn, rows)
        found: list[Row] = []
        for size, many, keys in _chunks([self._keys_of(row) for row in rows]):
            ((places, first, second),) = conn.execute(self._ask[size], keys).fetchall()
            answers = sorted(zip(_decode(places), _decode(first), _decode(second), strict=True))
            assert len(answers) == many
            found.extend(answer[1:] for answer in answers)
        return found


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
