"""How do many rows go in by few statements?

sqlite3 lets other threads run at each step of a statement, and a statement for each row, or a row of an answer, is a
step: the writer then waits for its turn with the interpreter as often, and the event loop with it. One statement for
many rows does all its work beside the loop.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec

Row = tuple[Any, ...]

_SIZES = (64, 32, 16, 8, 4, 2, 1)
"""Rows of one statement: few sizes, so that each is prepared once; 64 stays far below SQLite's count of parameters."""
_decode = msgspec.json.Decoder(list[Any]).decode


def _chunks(rows: Sequence[Row]) -> Iterator[tuple[int, list[Any]]]:
    """*rows* cut into those sizes, each chunk with its parameters in one line."""
    at, left = 0, len(rows)
    for size in _SIZES:
        while left >= size:
            yield size, list(chain.from_iterable(rows[at : at + size]))
            at, left = at + size, left - size


class Insert:
    """One INSERT for as many rows as there are; *then* is what follows the values."""

    def __init__(self, table: str, columns: Sequence[str], then: str = "") -> None:
        self.columns = columns
        head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES"
        marks = f"({', '.join('?' for _ in columns)})"
        self._sql = {size: f"{head} {', '.join([marks] * size)} {then}" for size in _SIZES}
        self.single = f"{head} ({', '.join(':' + column for column in columns)}) {then}"
        """The same for one row with named parameters, for a caller's own connection."""

    def run(self, conn: sqlite3.Connection, rows: Sequence[Row]) -> Sequence[Row]:
        for size, values in _chunks(rows):
            conn.execute(self._sql[size], values)
        return ()


class Upsert(Insert):
    """An INSERT that tells of each row, which is known by its two *keys*, what stands in two other columns now."""

    def __init__(
        self, table: str, columns: Sequence[str], then: str, *, keys: tuple[str, str], returning: tuple[str, str]
    ) -> None:
        super().__init__(table, columns, then)
        self.single += f" RETURNING {', '.join(returning)}"
        self._keys_of = itemgetter(*(columns.index(key) for key in keys))
        # The place in the question comes back with the answer: the order inside an aggregate is nobody's promise.
        self._ask = {
            size: f"SELECT json_group_array(v.column1), json_group_array(t.{returning[0]}),"
            f" json_group_array(t.{returning[1]})"
            f" FROM (VALUES {', '.join(f'({place}, ?, ?)' for place in range(size))}) v"
            f" CROSS JOIN {table} t ON t.{keys[0]} = v.column2 AND t.{keys[1]} = v.column3"
            for size in _SIZES
        }

    def run(self, conn: sqlite3.Connection, rows: Sequence[Row]) -> Sequence[Row]:
        super().run(conn, rows)
        found: list[Row] = []
        for size, keys in _chunks([self._keys_of(row) for row in rows]):
            ((places, first, second),) = conn.execute(self._ask[size], keys).fetchall()
            answers = sorted(zip(_decode(places), _decode(first), _decode(second), strict=True))
            assert len(answers) == size
            found.extend(answer[1:] for answer in answers)
        return found
