"""Writes the pages of docs/reference/ that say what the code says: `python -m tools.reference_pages`.

Settings from their table, the HTTP API from its OpenAPI document, the Python API from public names with their
signatures and docstrings, errors from the table of problems. A test compares the pages with the code.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.check_yourself import section
from tools.python_api_page import docstring, python_api
from tools.reference_table import WRITTEN, table

from hooklane import errors
from hooklane.cli.exits import Exit
from hooklane.config import DAY_MS, SETTINGS, Settings
from hooklane.error_numbers import NUMBERS, SAME, number_named
from hooklane.server.api import ROUTES
from hooklane.server.api.documents import described
from hooklane.server.problem import CODES

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
EXITS = {
    Exit.OK: "it went well",
    Exit.FAILED: "it failed; the message says why",
    Exit.USAGE: "the command was not understood: a wrong option, a missing argument",
    Exit.NOT_FOUND: "there is no such event, endpoint, key or row",
    Exit.REFUSED: "refused, or changed since the plan was made: nothing was done",
    Exit.UNREACHABLE: "the server cannot be reached",
    Exit.PARTLY: "some of it went well; the rest is named",
    Exit.UNHEALTHY: "`doctor` or an assertion found something",
    Exit.BROKEN: "a part of a server failed unexpectedly, or its disk did: start it again",
}


def pages() -> dict[str, str]:
    """Each generated page by its file name."""
    made = {"settings": settings(), "http-api": http_api(), "python-api": python_api(), "errors": error_page()}
    return {f"{name}.md": f"{text.rstrip()}\n{section(name)}" for name, text in made.items()}


def main() -> int:
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")
        print(FOLDER / name)
    return 0


# --- settings ---


def settings() -> str:
    defaults = Settings()
    rows = []
    for setting in SETTINGS:
        name = setting.env + (f", `{setting.env}_FILE`" if setting.is_secret else "")
        value = _setting_default(setting.name, getattr(defaults, setting.name))
        rows.append(
            (f"`{setting.name}`", f"`{name}`".replace(", `", "`, `", 1).replace("``", "`"), value, setting.expected)
        )
    return f"""{WRITTEN}# Settings

A flag wins over a `HOOKLANE_…` variable, that over `hooklane.toml` in the working folder (or the file that
`HOOKLANE_CONFIG` names), and that over the default. `hooklane config show --origin` says which value holds and where it
comes from. All wrong values are reported at once.

{table(("setting", "variable", "default", "what is expected"), rows)}

A secret has a second variable that ends in `_FILE`: the file's content is the value.

```toml
# hooklane.toml
db = "postgresql://db/hooklane"
host = "0.0.0.0"
retention = "30d"
egress_allow = ["10.0.0.0/8"]
```
"""


def _setting_default(name: str, value: Any) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if name.startswith("retention"):
        return f"`{value // DAY_MS}d`"
    if name == "disk_free_min":
        return f"`{value // 2**20}MB`"
    return f"`{','.join(value) if isinstance(value, tuple) else value}`"


# --- HTTP API ---


def http_api() -> str:
    document = described(tuple(ROUTES))
    shapes: Mapping[str, Any] = document["components"]["schemas"]
    parts = [
        f"""{WRITTEN}# HTTP API

JSON under `/api/v1`. The same as OpenAPI 3.1: `GET /api/openapi.json`; as a page: `/api/docs`. A key goes into the
header `Authorization: Bearer …`. Lists answer `{{"items": [...], "next": …}}`; pass `next` on as `cursor`. What can be
wrong: [errors](errors.md); the codes of a status are listed there.
"""
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append("\n".join(_operation(method, path, operation)))
    parts.append("## Shapes\n")
    parts += ["\n".join(_shape(name, shape)) for name, shape in sorted(shapes.items())]
    return "\n".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"## `{method.upper()} {path}`\n"
    for text in (operation.get("summary"), operation.get("description")):
        if text:
            yield f"{' '.join(str(text).split())}\n"
    rows = [
        (
            f"`{each['name']}`",
            each["in"],
            _type(each.get("schema", {})),
            " ".join(str(each.get("description", "")).split()),
        )
        for each in operation.get("parameters", ())
    ]
    if rows:
        yield table(("parameter", "in", "type", "what"), rows) + "\n"
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Takes `{media}`: {_type(content.get('schema', {}))}.\n"
    problems = []
    for status, response in sorted(operation.get("responses", {}).items()):
        if "$ref" in response or status[0] in "45d":
            problems.append(status)
            continue
        shape = ", ".join(_type(content.get("schema", {})) for content in response.get("content", {}).values())
        yield f"Answers **{status}**{': ' + shape if shape else ''}.\n"
    yield f"Problems: {', '.join(status for status in problems if status != 'default')}.\n"


def _shape(name: str, shape: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    if text := shape.get("description"):
        yield f"{' '.join(str(text).split())}\n"
    required = shape.get("required", ())
    rows = [
        (f"`{field}`", _type(of), "yes" if field in required else "", " ".join(str(of.get("description", "")).split()))
        for field, of in shape.get("properties", {}).items()
    ]
    yield table(("field", "type", "always", "what"), rows) + "\n" if rows else f"{_type(shape)}\n"


def _type(schema: Mapping[str, Any] | bool) -> str:
    """A schema in a few words."""
    if isinstance(schema, bool):
        return "any"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{re.sub(r'[^a-z0-9_-]', '', name.lower())})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(kind)


# --- errors ---


def error_page() -> str:
    codes = [
        (_numbered(code), f"`{code}`", str(status), title, _remedy(code)) for code, (status, title) in CODES.items()
    ]
    exits = [(str(int(code)), _numbered(code.name) if code else "", EXITS[code], _remedy(code.name)) for code in Exit]
    families = [
        (
            _numbered(name),
            f"`{name}`",
            f"`{value.__bases__[0].__name__}`",
            " ".join(docstring(value).split()),
            _remedy(name),
        )
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == errors.__name__
    ]
    return f"""{WRITTEN}# Errors

Every error has a number. The command line prints it before what it says, `hooklane: HL022 …`. A problem of the HTTP API
has it as `number`; an exception has it on this page. A number keeps its meaning for ever, and is never used for
anything else. What is one error in two places has one number.

## Exit codes of the command line

{table(("exit", "number", "what it means", "what to do"), exits)}

## Problems of the HTTP API

A problem as RFC 9457 has it: `{{"type", "title", "status", "detail", "code", "number", "errors"}}`. `code` is stable
and for programs; `detail` is for people and may change.

{table(("number", "code", "status", "what has happened", "what to do"), codes)}

Repeat what was answered 429, 503 or 507 after `Retry-After`; with an `Idempotency-Key` a publish can be repeated
without a second event.

## Exceptions

All are in `hooklane.errors`. `Retry` and `Reject` are for you to raise in a handler.

{table(("number", "exception", "is a", "what is true", "what to do"), families)}
"""


def _numbered(name: str) -> str:
    """The number of an error; where it is an error's only or first name, also a place to link to."""
    number = number_named(name)
    return f'<a id="{number.lower()}"></a>{number}' if name in NUMBERS else f"[{number}](#{number.lower()})"


def _remedy(name: str) -> str:
    return NUMBERS[SAME.get(name, name)][1] if name != Exit.OK.name else ""


if __name__ == "__main__":
    sys.exit(main())
