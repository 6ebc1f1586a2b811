"""How does a driver write a parameter? `:name` in our statements becomes what it understands, translated once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from hooklane.store.caller.flow import Statement


class Style(StrEnum):
    """The shape of a placeholder."""

    QMARK = "?"
    DOLLAR = "$"
    FORMAT = "%s"
    BINARY = "%b"
    """psycopg's own: values travel as binary, at a third of the CPU."""


# Quoted text, comments and casts are passed over, so that a colon inside them is no parameter.
_TOKEN = re.compile(
    r"""
      (?P<keep> '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ | ::)
    | :(?P<name>[A-Za-z_]\w*)
    | (?P<percent>%)
    """,
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=1024)
def translate(sql: str, style: Style) -> tuple[str, tuple[str, ...]]:
    """*sql* in the driver's words, and the names of its parameters in the order in which the driver wants them."""
    names: list[str] = []
    doubles_percent = style in (Style.FORMAT, Style.BINARY)

    def replace(match: re.Match[str]) -> str:
        if (name := match["name"]) is None:
            return match[0].replace("%", "%%") if doubles_percent else match[0]
        if style is Style.DOLLAR:
            if name not in names:
                names.append(name)
            return f"${names.index(name) + 1}"
        names.append(name)
        return style.value

    return _TOKEN.sub(replace, sql), tuple(names)


def bind(statement: Statement, style: Style) -> tuple[str, tuple[Any, ...]]:
    """The text and the positional values to hand to the driver."""
    sql, names = translate(statement.sql, style)
    params: Mapping[str, Any] = statement.params
    return sql, tuple([params[name] for name in names])
