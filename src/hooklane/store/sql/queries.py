"""Where is the text of a named statement?

Statements live in `queries.sql` files, each after a line `-- name: …`, with parameters written `:name`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from hooklane.model.value import value

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@value(frozen=True, slots=True)
class Sql:
    """A step: perform the statement *name*; answers its rows as tuples."""

    name: str
    params: Mapping[str, Any]


@value(frozen=True, slots=True)
class Many:
    """A step: perform the statement *name* once for each of *params*; answers the rows of each."""

    name: str
    params: Sequence[Mapping[str, Any]]


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
