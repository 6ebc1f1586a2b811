"""`hooklane migrate …`: the schema of the database."""

from __future__ import annotations

import asyncio
import os

import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, Json
from hooklane.cli.output import show
from hooklane.cli.schema import versions
from hooklane.config import load

app = typer.Typer(no_args_is_help=True)


@app.command("status")
def status(db: Db = None, as_json: Json = False) -> None:
    """Say which schema the database has, and which this hooklane wants. Changes nothing."""
    settings, _ = load({"db": db}, os.environ)
    found, wanted = versions(settings.db)
    state = "up to date" if found == wanted else "newer than this hooklane" if found > wanted else "behind"
    show({"found": found, "wanted": wanted, "state": state}, as_json, lambda: [f"schema {found}/{wanted}: {state}"])
    if found != wanted:
        raise CallFailed(f"the schema is {state}", Exit.UNHEALTHY)


@app.command("up")
def up(db: Db = None, as_json: Json = False) -> None:
    """Bring the schema up to date. `serve` does this by itself."""
    from hooklane.cli.process import open_store

    settings, _ = load({"db": db}, os.environ)
    store = open_store(settings)

    async def migrate() -> None:
        await store.open()
        await store.close()

    asyncio.run(migrate())
    found, wanted = versions(settings.db)
    value = {"found": found, "wanted": wanted, "state": "up to date"}
    show(value, as_json, lambda: [f"schema {found}/{wanted}: up to date"])
