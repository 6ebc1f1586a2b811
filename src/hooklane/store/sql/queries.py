"""How does a named statement become the text that a driver takes?

Statements live in `queries.sql` files, each after a line `-- name: …`, with parameters written `:name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b")


@dataclass(frozen=True, slots=True)
class Sql:
    """A step: perform the statement *name*; answers its rows as tuples."""

    name: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Many:
    """A step: perform the statement *name* once for each of *params*; answers the rows of each."""

    name: str
    params: list[Mapping[str, Any]]


Step = Sql | Many


def queries_of(package: str) -> dict[str, str]:
    """The statements of the `queries.sql` in *package*, by name, without their comments."""
    text = resources.files(package).joinpath("queries.sql").read_text("utf-8")
    return dict(_split(text))


def _split(text: str) -> Iterator[tuple[str, str]]:
    starts = list(_NAME.finditer(text))
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        body = text[start.end() : end.start() if end else None]
        lines = [line for line in body.splitlines() if line.strip() and not line.lstrip().startswith("--")]
        yield start[1], "\n".join(lines).strip().rstrip(";")


def numbered(statement: str) -> tuple[str, tuple[str, ...]]:
    """*statement* with `$1, $2 …` and the names in that order, as asyncpg takes it."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    return _PARAMETER.sub(number, statement), tuple(names)


def percent(statement: str) -> str:
    """*statement* with `%(name)s`, as psycopg takes it."""
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))
