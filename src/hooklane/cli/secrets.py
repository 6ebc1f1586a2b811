"""`hooklane secrets …`: how secrets of endpoints are kept in the database."""

from __future__ import annotations

from typing import Annotated

import typer

from hooklane.cli.asking import asking
from hooklane.cli.client import Caller
from hooklane.cli.output import is_interactive, show, talk
from hooklane.model.size import counted

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/secrets"


@asking(app, "show")
def show_seals(caller: Caller) -> None:
    """Say with which keys the secrets of how many endpoints are sealed."""
    found = caller.get(BASE)
    lines = [f"seals with  {found['key'] or 'no key: secrets are kept as plain text'}"]
    lines += [f"{id}  {counted(many, 'endpoint')}" for id, many in found["endpoints"].items()]
    lines += [f"plain text  {counted(found['plain'], 'endpoint')}"] if found["plain"] else []
    show(found, lambda: lines)


@asking(app, "rotate")
def rotate(
    caller: Caller,
    scrub: Annotated[
        bool,
        typer.Option("--scrub", help="With --db on SQLite: rewrite the file, so that no old page holds a secret."),
    ] = False,
) -> None:
    """Seal every secret with the first key of HOOKLANE_SEAL_KEY. Ended half way, it goes on where it was."""
    sealed = 0
    while True:
        step = caller.post(f"{BASE}/rotate")
        sealed += step["sealed"]
        if not step["sealed"]:
            break
        if is_interactive() and step["left"]:
            talk(f"{counted(sealed, 'endpoint')} sealed, {step['left']:,} left")
    if scrub:
        caller.scrub()
    result = {"key": step["key"], "sealed": sealed, "left": step["left"], "scrubbed": scrub}
    show(result, lambda: [f"{counted(sealed, 'endpoint')} sealed with {step['key']}, {step['left']} left"])
