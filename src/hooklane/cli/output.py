"""Data goes to stdout, talk to stderr. Nothing that others wrote can move the cursor or change the colours."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TextIO

import typer

from hooklane.cli.exits import CallFailed, Exit

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Level(IntEnum):
    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


level = Level.NORMAL
"""How much a command says besides its data: `-q` and `-v` set it, for the one command that a process runs."""
as_json = False
"""Whether data is printed as JSON: `--json` sets it, likewise."""


class Unwritten(OSError):
    """What stdout or stderr leads to takes nothing: a full disk, a pipe that does not wait, a file open for reading."""


def open_what_is_closed() -> None:
    """A parent may have closed stdin, stdout or stderr (`>&-`): nothing is read, and what is written is dropped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def close_stdout() -> None:
    """Nothing more may be written, not even at exit."""
    _close(sys.stdout)


def end_with(error: Exception) -> None:
    """Why a command ends that shows what comes until it is told to end. That its reader left (`head`) tells it so."""
    close_stdout()
    if not isinstance(error, BrokenPipeError):
        raise error


def _close(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def plain(value: object) -> str:
    """*value* as text that a terminal only prints: control characters are spelled out."""
    text = "-" if value is None or value == "" else str(value)
    return _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)


def one_line(text: str | None) -> str:
    """Text of another program, as an excerpt on one line."""
    return plain(" ".join(text.split())[:60]) if text else ""


def talk(message: str) -> None:
    """A line for a person, on stderr; `-q` leaves it out."""
    if level > Level.QUIET:
        complain(message)


def detail(message: str) -> None:
    """A line that only `-v` shows."""
    if level is Level.VERBOSE:
        complain(message)


def complain(message: str) -> None:
    """What went wrong, on stderr, whatever the command was told about talking."""
    _tell(f"hooklane: {plain(message)}")


def aside(line: str = "") -> None:
    """A line beside the data, such as a plan before it is confirmed: on stderr, as it is; `-q` leaves it out."""
    if level > Level.QUIET:
        _tell(line)


def _tell(line: str) -> None:
    """A line on stderr. Where nobody can read it (its reader left, its disk is full), a command goes on as it would:
    what it does is not undone by that, and its exit code says what became of it."""
    try:
        _write(sys.stderr, line)
    except OSError:
        _close(sys.stderr)  # or what could not be written would be tried again at exit, and change its code


def say(line: str = "") -> None:
    """A line of data, on stdout."""
    _write(sys.stdout, line)


def _write(stream: TextIO, line: str) -> None:
    encoding = stream.encoding or "utf-8"
    _put(stream, line.encode(encoding, "replace").decode(encoding) + "\n")


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise  # its reader went away
    except OSError as error:
        raise Unwritten(error.errno, error.strerror) from None


def show(value: Mapping[str, Any], lines: Callable[[], Sequence[str]]) -> None:
    """One object as JSON, or the *lines* that a person reads."""
    if as_json:
        say_json(value)
    else:
        for line in lines():
            say(line)


def say_json(value: Mapping[str, Any]) -> None:
    """One line of JSON with the version of its shape: the only one, or one of a stream."""
    encoding = sys.stdout.encoding or "utf-8"
    _put(sys.stdout, json_line({"v": 1, **value}).encode(encoding, _ESCAPED).decode(encoding))


def _escape(error: UnicodeError) -> tuple[str, int]:
    """A letter that the terminal's encoding lacks, as JSON spells it: by its two or four bytes of UTF-16."""
    assert isinstance(error, UnicodeEncodeError)
    pairs = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4)), error.end


_ESCAPED = "hooklane.json"
codecs.register_error(_ESCAPED, _escape)


def json_line(value: Mapping[str, Any]) -> str:
    import msgspec

    return msgspec.json.encode(value).decode() + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()) -> list[str]:
    """Columns side by side, those named in *right* flush right; nothing is cut off: what is copied is whole."""
    texts = [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in [list(head), *texts]) for at in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        placed = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(cells, widths, head, strict=True)
        ]
        return "  ".join(placed).rstrip()

    return [painted(line(list(head)), "bold"), *(line(row) for row in texts)]


def pairs(value: Mapping[str, Any]) -> list[str]:
    """One line per field."""
    width = max((len(name) for name in value), default=0)
    return [f"{name.ljust(width)}  {_flat(field)}" for name, field in value.items()]


def pairs_with_tracebacks(value: Mapping[str, Any]) -> list[str]:
    """The same for a row of an inbox: the traceback of each handler comes last, line by line as Python prints it."""
    handlers: list[dict[str, Any]] = list(value.get("handlers") or ())
    rest = [{name: field for name, field in one.items() if name != "traceback"} for one in handlers]
    told = pairs({**value, "handlers": rest} if handlers else value)
    for one in handlers:
        if one["traceback"]:
            lines = one["traceback"].rstrip().split("\n")
            told += ["", f"{plain(one['handler'])}, attempt {one['attempts']}:", *map(_printed, lines)]
    return told


def _printed(line: str) -> str:
    return plain(line) if line else ""


def _flat(field: object) -> str:
    import msgspec

    if isinstance(field, dict | list | msgspec.Raw):
        return plain(msgspec.json.encode(field).decode())
    return plain(field)


_COLOURS = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}


def painted(text: str, colour: str, stream: TextIO | None = None) -> str:
    """*text* in a colour, where *stream* (stdout) is a terminal that shows colours."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if is_coloured(stream) else text


def is_coloured(stream: TextIO | None = None) -> bool:
    return (stream or sys.stdout).isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_SIGNS = {
    "delivered": ("✓", "green"),
    "retry": ("↻", "yellow"),
    "dead": ("✕", "red"),
    "waits": ("▨", "dim"),
    "unknown": ("?", "yellow"),
    "ok": ("✓", "green"),
    "look": ("!", "yellow"),
    "wrong": ("✕", "red"),
    "failed": ("✕", "red"),
}


def sign(word: str, stream: TextIO | None = None) -> str:
    """The sign that stands for *word*; the word itself where the terminal's alphabet has no such signs."""
    is_utf = ((stream or sys.stdout).encoding or "").lower().startswith("utf")
    symbol, colour = _SIGNS[word]
    return painted(symbol if is_utf else word, colour, stream)


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
