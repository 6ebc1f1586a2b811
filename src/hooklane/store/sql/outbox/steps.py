"""What does a flow of the sender's store ask for? Named statements, which each back-end has in its `queries.sql`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hooklane.store.caller.flow import Rows, Statement
from hooklane.store.sql.queries import Sql

T = TypeVar("T")
N_MAX = 2**63 - 1
"""Larger than any number of a row."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A step: perform the statement *name* for all *rows*, each with what they have in *common*.

    Answers what it returns for all of them together. PostgreSQL gets the rows as arrays, one for each column, in one
    statement; SQLite runs the statement row by row.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]
    common: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parameter: a text with `*` for any run of characters and, with *one*, `?` for any one; nothing else is special.

    SQLite gets it for GLOB, PostgreSQL for LIKE.
    """

    text: str
    one: bool = False

    @property
    def glob(self) -> str:
        text = self.text.replace("[", "[[]")
        return text if self.one else text.replace("?", "[?]")

    @property
    def like(self) -> str:
        text = self.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%")
        return text.replace("?", "_") if self.one else text


def pattern(text: str | None, *, one: bool = False) -> Pattern | None:
    return None if text is None else Pattern(text, one)


def sql(name: str, /, **params: Any) -> Sql:
    """The statement *name*. A parameter may be a list of numbers or texts."""
    return Sql(name, params)


Flow = Generator[Sql | Batch | Statement, Rows, T]
"""A generator that yields steps, receives their rows and returns a value. It never touches a connection."""
