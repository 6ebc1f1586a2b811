"""`hooklane types …`: which events there are, and what their data must look like."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from hooklane.cli.asking import asking
from hooklane.cli.client import Caller, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Yes
from hooklane.cli.output import confirm, show, table

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/types"
TypeName = Annotated[str, typer.Argument(metavar="TYPE", help="Such as order.created.")]


@asking(app, "ls")
def ls(caller: Caller) -> None:
    """List event types."""
    page = caller.get(BASE)
    rows = [[one["type"], _word(one), one["description"]] for one in page["items"]]
    show(page, lambda: table(("TYPE", "SCHEMA", "DESCRIPTION"), rows))


@asking(app, "set", create=True)
def set_type(
    caller: Caller,
    type_: TypeName,
    description: Annotated[str | None, typer.Option(help="What it means, for people.")] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="JSON Schema 2020-12 of its data.", exists=True)
    ] = None,
    enforce: Annotated[
        bool | None, typer.Option("--enforce/--no-enforce", help="Refuse a publish that breaks the schema.")
    ] = None,
) -> None:
    """Describe an event type; what is not given stays as it is."""
    path = f"{BASE}/{segment(type_)}"
    known: dict[str, Any] = next((one for one in caller.get(BASE)["items"] if one["type"] == type_), {})
    body: dict[str, Any] = {field: known[field] for field in ("description", "schema", "enforce") if field in known}
    given = {"description": description, "schema": _read(schema), "enforce": enforce}
    body |= {field: value for field, value in given.items() if value is not None}
    made = caller.ask("PUT", path, body=body)
    show(made, lambda: [f"{type_} is set; schema: {_word(made)}"])


@asking(app, "rm")
def rm(caller: Caller, type_: TypeName, yes: Yes = False) -> None:
    """Forget an event type; its events stay, and nothing is checked any more."""
    if not yes:
        confirm(f"Forget the event type {type_}?")
    caller.ask("DELETE", f"{BASE}/{segment(type_)}")
    show({"type": type_, "removed": True}, lambda: [f"{type_} is removed"])


def _word(one: dict[str, Any]) -> str:
    return "enforced" if one["enforce"] else "not enforced" if one["schema"] is not None else "none"


def _read(file: Path | None) -> Any:
    if file is None:
        return None
    try:
        return msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise CallFailed(f"{file} cannot be read as JSON: {error}", Exit.USAGE) from None
