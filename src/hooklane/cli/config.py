"""`hooklane config show`: which settings hold, and where each comes from."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from hooklane.cli.output import show, table
from hooklane.config import Origin, load
from hooklane.model.database_url import shown

app = typer.Typer(no_args_is_help=True)


@app.command("show")
def show_settings(
    origin: Annotated[bool, typer.Option("--origin", help="Say where each setting comes from.")] = False,
) -> None:
    """Print the settings that hold here. Secrets are not shown."""
    _, origins = load({}, os.environ)
    value: dict[str, Any] = {}
    rows = []
    for one in origins:
        told = _told(one)
        text = ",".join(told) if isinstance(told, tuple) else str(told).lower() if isinstance(told, bool) else told
        value[one.name] = {"value": told, "origin": one.origin} if origin else told
        rows.append((one.name, text, one.origin) if origin else (one.name, text))
    head = ("SETTING", "VALUE", "ORIGIN") if origin else ("SETTING", "VALUE")
    show(value, lambda: table(head, rows))


def _told(one: Origin) -> Any:
    """The setting's value as it may be printed: no secret, no password."""
    if one.is_secret:
        return "***" if one.value else None
    return shown(one.value) if isinstance(one.value, str) else one.value
