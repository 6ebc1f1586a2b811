"""`hooklane config show`: which settings hold, and where each comes from."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from hooklane.cli.options import Json
from hooklane.cli.output import show, table
from hooklane.config import load

app = typer.Typer(no_args_is_help=True)


@app.command("show")
def show_settings(
    origin: Annotated[bool, typer.Option("--origin", help="Say where each setting comes from.")] = False,
    as_json: Json = False,
) -> None:
    """Print the settings that hold here. Secrets are not shown."""
    _, origins = load({}, os.environ)
    value: dict[str, Any] = {}
    rows = []
    for one in origins:
        shown = ("***" if one.value else None) if one.is_secret else one.value
        text = ",".join(shown) if isinstance(shown, tuple) else str(shown).lower() if isinstance(shown, bool) else shown
        value[one.name] = {"value": shown, "origin": one.origin} if origin else shown
        rows.append((one.name, text, one.origin) if origin else (one.name, text))
    head = ("SETTING", "VALUE", "ORIGIN") if origin else ("SETTING", "VALUE")
    show(value, as_json, lambda: table(head, rows))


@app.callback()
def root() -> None:
    pass
