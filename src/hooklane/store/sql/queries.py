"""Where is the text of a named statement?

Statements live in `.sql` files, each after a line `-- name: …` and a line that says why it is there, with parameters
written `:name`. What several statements share is a `-- fragment: …`, written `{fragment}` where it belongs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from hooklane.model.value import value

_NAME = re.compile(r"^-- (name|fragment): (\w+)$", re.MULTILINE)
_FRAGMENT = re.compile(r"\{(\w+)\}")


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


def queries_of(*packages: str, spelled: Callable[[str], str] = str, **constants: object) -> dict[str, str]:
    """The statements of the `.sql` files in *packages*, by name, without their comments, each as it is *spelled*.

    *constants* are fragments that Python knows. A statement without text is nothing that this back-end has to do.
    """
    files = [entry for package in packages for entry in resources.files(package).iterdir()]
    statements: dict[str, str] = {}
    fragments = {name: str(constant) for name, constant in constants.items()}
    for entry in (entry for entry in files if entry.name.endswith(".sql")):
        for kind, name, text in _split(entry.read_text("utf-8")):
            known = statements if kind == "name" else fragments
            assert name not in known, f"{packages}: {kind} {name} is there twice"
            known[name] = text
    return {name: spelled(_filled(text, fragments)) for name, text in statements.items()}


def _filled(text: str, fragments: Mapping[str, str]) -> str:
    while _FRAGMENT.search(text):
        text = _FRAGMENT.sub(lambda match: fragments[match[1]], text)
    return text


def _split(text: str) -> Iterator[tuple[str, str, str]]:
    starts = list(_NAME.finditer(text))
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        body = text[start.end() : end.start() if end else None]
        lines = [line for line in body.splitlines() if line.strip() and not line.lstrip().startswith("--")]
        yield start[1], start[2], "\n".join(lines).strip().rstrip(";")
