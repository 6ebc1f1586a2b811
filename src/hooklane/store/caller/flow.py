"""How is one decision run on a blocking and on an async connection alike?

A *flow* is a generator: it yields statements, receives their rows and returns a value. It never touches a connection,
so it is written once; the two small drivers below run it, on whatever executes a statement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S")


class Dialect(StrEnum):
    """Which SQL a connection speaks."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement with `:name` parameters; what it returns comes back as rows (use RETURNING to count)."""

    sql: str
    params: Mapping[str, Any] = field(default_factory=dict, repr=False)


Rows = Sequence[Sequence[Any]]
"""The rows of a statement, in order; empty when it returns none."""

Flow = Generator[Statement, Rows, T]


def drive(flow: Generator[S, Rows, T], execute: Callable[[S], Rows]) -> T:
    """Run *flow* to its end; what *execute* raises is thrown into it, so that it may clean up."""
    try:
        statement = next(flow)
        while True:
            try:
                rows = execute(statement)
            except BaseException as error:
                statement = flow.throw(error)
            else:
                statement = flow.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def drive_async(flow: Generator[S, Rows, T], execute: Callable[[S], Awaitable[Rows]]) -> T:
    """Run *flow* to its end as `drive` does, awaiting each statement."""
    try:
        statement = next(flow)
        while True:
            try:
                rows = await execute(statement)
            except BaseException as error:
                statement = flow.throw(error)
            else:
                statement = flow.send(rows)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
