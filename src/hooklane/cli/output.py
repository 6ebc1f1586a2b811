"""Data goes to stdout, talk to stderr. Nothing that others wrote can move the cursor or change the colours."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import typer

from hooklane.cli.exits import CallFailed, Exit

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain(value: object) -> str:
    """*value* as text that a terminal only prints: control characters are spelled out."""
    text = "-" if value is None or value == "" else str(value)
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def counted(many: int, one: str, more: str | None = None) -> str:
    """*many* with its noun: `1 event`, `2 events`."""
    return f"{many:,} {one if many == 1 else more or f'{one}s'}"


def talk(message: str) -> None:
    """A line for a person, on stderr."""
    sys.stderr.write(f"hooklane: {plain(message)}\n")
    sys.stderr.flush()


def say(line: str = "") -> None:
    """A line of data, on stdout."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(line.encode(encoding, "replace").decode(encoding) + "\n")
    sys.stdout.flush()


def show(value: Mapping[str, Any], as_json: bool, lines: Callable[[], Sequence[str]]) -> None:
    """One object as JSON, or the *lines* that a person reads."""
    if as_json:
        sys.stdout.write(json_line({"v": 1, **value}))
        sys.stdout.flush()
    else:
        for line in lines():
            say(line)


def json_line(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode() + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Columns side by side; nothing is cut off, so that what is copied is whole."""
    texts = [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(head), *texts]) for at in range(len(head))]
    styled = is_coloured()
    first = "  ".join(name.ljust(width) for name, width in zip(head, widths, strict=True)).rstrip()
    return [
        f"\x1b[1m{first}\x1b[0m" if styled else first,
        *("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in texts),
    ]


def pairs(value: Mapping[str, Any]) -> list[str]:
    """One line per field."""
    width = max((len(name) for name in value), default=0)
    return [f"{name.ljust(width)}  {_flat(field)}" for name, field in value.items()]


def _flat(field: object) -> str:
    if isinstance(field, dict | list | msgspec.Raw):
        return plain(msgspec.json.encode(field).decode())
    return plain(field)


def is_coloured() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def confirm(question: str) -> None:
    """Ask a person; without one nothing is done."""
    must_be_interactive()
    typer.confirm(question, abort=True, err=True)


def must_be_interactive() -> None:
    """CallFailed where there is no terminal at which a person could confirm."""
    if not is_interactive():
        raise CallFailed("this has to be confirmed, and there is no terminal to ask at: add --yes", Exit.USAGE)


def is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()
