"""`hooklane migrate …`: the schema of the database."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, Json
from hooklane.cli.output import show
from hooklane.cli.schema import versions
from hooklane.config import load
from hooklane.errors import StoreRefused, needing
from hooklane.store.sqlite.database import path_of

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
    settings, origins = load({"db": db}, os.environ)
    is_named = any(one.name == "db" and one.origin != "default" for one in origins)
    if not is_named and not Path(path_of(settings.db)).exists():
        raise StoreRefused(f"there is no database {settings.db}: name the one to migrate with --db or HOOKLANE_DB")
    with needing("server"):
        from hooklane.cli.process import open_store
    store = open_store(settings)

    async def migrate() -> None:
        await store.open()
        await store.close()

    asyncio.run(migrate())
    found, wanted = versions(settings.db)
    value = {"found": found, "wanted": wanted, "state": "up to date"}
    show(value, as_json, lambda: [f"schema {found}/{wanted}: up to date"])
