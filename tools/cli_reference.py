"""The page about the command line, made from the commands themselves: `python -m tools.cli_reference` writes it.

A test fails when docs/reference/cli.md is not what this makes.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.check_yourself import section

from hooklane.cli.exits import Exit
from hooklane.cli.filters import parse_filter
from hooklane.cli.lazy import load
from hooklane.cli.main import COMMANDS

FILE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"
EVERYWHERE = {"--json", "--quiet", "--verbose", "--server", "--db", "--yes"}
MEANINGS = {
    Exit.OK: "done",
    Exit.FAILED: "failed, or a setting is wrong",
    Exit.USAGE: "the command is not one: an unknown option, a value that cannot be, a missing `--yes` or `--note`",
    Exit.NOT_FOUND: "there is no such id, name or key",
    Exit.REFUSED: "refused: no key or the wrong one, or something changed since the plan was shown",
    Exit.UNREACHABLE: "the server, or the database, cannot be reached",
    Exit.PARTLY: "partly done: some went well, some did not",
    Exit.UNHEALTHY: (
        "unhealthy: a check of `doctor`, `verify`, `audit verify` or `migrate status` failed, or `reconcile` found"
        " something in between"
    ),
    Exit.BROKEN: "a part of a server failed unexpectedly; it says which",
}
_INTRODUCTION = """# The command line

<!-- Made by `python -m tools.cli_reference` from the commands; change those. -->

`hooklane COMMAND --help` says the same in the terminal.

**Every command** prints data on stdout and everything else on stderr. Without a terminal there is no colour, no bar
and no question; `NO_COLOR` is respected. `--json` prints one object with `"v": 1`, and commands that go on print one a
line. `-q` leaves out what is not data or an error, `-v` tells the calls that are made. What could do harm asks first;
without a terminal it fails and names the flag (`--yes`).

**Which server.** `--server URL`, else `HOOKLANE_SERVER`, else the server on this machine (127.0.0.1:8787), with
`HOOKLANE_API_KEY` (or `_FILE`). With `--db URL` or `HOOKLANE_DB` a command opens the database itself, and no server has
to run.

**Settings** come from flag, then `HOOKLANE_*`, then `hooklane.toml`, then default: `hooklane config show --origin` says
which.

**Completion** of commands, ids, keys and endpoints: `eval "$(hooklane completion bash)"`, or zsh, fish.

"""


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, _exits(), _filters()]
    for name, about in COMMANDS.items():
        command = load(name, about)
        parts.append(f"## {name}\n\n")
        if hasattr(command, "commands"):
            parts.append(f"{about}\n\n")
            parts += [
                text for leaf in command.commands.values() for text in _command(f"{name} {leaf.name}", leaf, "###")
            ]
        else:
            parts += _command(name, command, "")
    return "".join(parts).rstrip() + "\n" + section("cli")


def _exits() -> str:
    rows = "".join(f"| {int(code)} | {meaning} |\n" for code, meaning in MEANINGS.items())
    return f"**Exit codes**, the same for the same failure in every command:\n\n| | |\n|---|---|\n{rows}\n"


def _filters() -> str:
    module = inspect.getmodule(parse_filter)
    assert module is not None
    assert module.__doc__ is not None
    first, _, rest = module.__doc__.strip().partition("\n\n")
    return f"**Filters.** {first} {' '.join(rest.split())}\n\n"


def _command(words: str, command: Any, heading: str) -> Iterator[str]:
    if heading:
        yield f"{heading} {words}\n\n"
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    usage = " ".join(_metavar(param) for param in arguments)
    yield f"```text\nhooklane {words}{' ' if usage else ''}{usage}\n```\n\n{inspect.cleandoc(command.help or '')}\n\n"
    rows = [
        f"| `{_names(param)}` | {_about(param)} |\n"
        for param in command.params
        if not set(param.opts) & EVERYWHERE and not getattr(param, "hidden", False)
    ]
    if rows:
        yield f"| | |\n|---|---|\n{''.join(rows)}\n"
    also = [name for name in ("--server", "--db", "--yes") if any(name in param.opts for param in command.params)]
    if also:
        yield f"Also {', '.join(f'`{name}`' for name in also)}.\n\n"


def _metavar(param: Any) -> str:
    name = (param.metavar or param.name.strip("_").upper()).replace("|", "\\|")
    return str(name) if param.required or name.startswith("[") else f"[{name}]"


def _names(param: Any) -> str:
    if param.param_type_name == "argument":
        return _metavar(param).strip("[]")
    names = ", ".join(sorted(param.opts, key=len, reverse=True))
    is_flag = getattr(param, "is_flag", False)
    value = "" if is_flag else f" {param.metavar or param.name.strip('_').upper()}"
    return (names + value).replace("|", "\\|")


def _about(param: Any) -> str:
    default = param.default if isinstance(param.default, str | int | float) else None
    shown = f" Default: `{default}`." if default not in (None, "", False, True) else ""
    return f"{(param.help or '').replace('|', chr(92) + '|')}{shown}"


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
