"""`hooklane migrate …`: the schema of the database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db
from hooklane.cli.output import show
from hooklane.config import load
from hooklane.errors import StoreRefused
from hooklane.model.database_url import shown
from hooklane.model.size import counted

app = typer.Typer(no_args_is_help=True)


@app.command("status")
def status(db: Db = None) -> None:
    """Say which schema the database has, and which this hooklane wants. Changes nothing."""
    from hooklane.cli.schema import versions

    settings, _ = load({"db": db}, os.environ)
    found, wanted = versions(settings.db)
    _show(found, wanted)
    if found != wanted:
        raise CallFailed(f"the schema is {state_of(found, wanted)}", Exit.UNHEALTHY)


def _show(found: int, wanted: int) -> None:
    state = state_of(found, wanted)
    show({"found": found, "wanted": wanted, "state": state}, lambda: [f"schema {found}/{wanted}: {state}"])


def state_of(found: int, wanted: int) -> str:
    return "up to date" if found == wanted else "newer than this hooklane" if found > wanted else "behind"


@app.command("copy")
def copy(
    source: Annotated[str, typer.Option("--from", metavar="URL", help="sqlite:///path, whose server is stopped.")],
    target: Annotated[str, typer.Option("--to", metavar="URL", help="postgresql://…, not used by a sender yet.")],
) -> None:
    """Copy a sender from SQLite to PostgreSQL: every key goes on with its next seq. The file stays as it is."""
    from hooklane.cli import move
    from hooklane.cli.output import aside

    def progress(table: str, copied: int, total: int) -> None:
        aside(f"{table}: {copied}/{total}")

    done = move.copy(source, target, progress)
    rows = {table: many for table, many in done.rows.items() if many}
    show(
        {"from": shown(source), "to": shown(target), "rows": rows},
        lambda: [
            f"copied {counted(sum(rows.values()), 'row')}: "
            + ", ".join(f"{table} {many}" for table, many in sorted(rows.items())),
            f"Start everything with --db {shown(target)} from now on. What is published to the old file stays there.",
        ],
    )


@app.command("up")
def up(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which migrations would be run.")] = False,
    db: Db = None,
) -> None:
    """Bring the schema up to date. `serve` does this by itself."""
    from hooklane.cli.schema import bring_up_to_date, pending, versions
    from hooklane.store.sqlite.database import path_of

    settings, origins = load({"db": db}, os.environ)
    is_named = any(one.name == "db" and one.origin != "default" for one in origins)
    if not is_named and not Path(path_of(settings.db)).exists():
        raise StoreRefused(f"there is no database {settings.db}: name the one to migrate with --db or HOOKLANE_DB")
    if dry_run:
        found, wanted = versions(settings.db)
        steps = [] if found > wanted else pending(settings.db, found)
        value: dict[str, Any] = {"found": found, "wanted": wanted, "state": state_of(found, wanted), "pending": steps}
        told = [f"would run {one['name']}: {one['about'] or counted(one['statements'], 'statement')}" for one in steps]
        show(value, lambda: [f"schema {found}/{wanted}: {value['state']}", *told])
        if found > wanted:
            raise CallFailed("the schema is newer than this hooklane", Exit.UNHEALTHY)
        return
    bring_up_to_date(settings)
    found, wanted = versions(settings.db)
    _show(found, wanted)
