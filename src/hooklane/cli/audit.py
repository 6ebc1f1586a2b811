"""`hooklane audit …`: who did what, and whether that record is whole."""

from __future__ import annotations

from typing import Annotated

import typer

from hooklane.cli.asking import asking
from hooklane.cli.client import Caller
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import Filter, keep, parse_filter
from hooklane.cli.options import Cursor, Limit
from hooklane.cli.output import show, table
from hooklane.model.size import counted

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/audit"
WORDS = ("actor", "action", "subject", "note", "after", "before")


@asking(app, "ls")
def ls(caller: Caller, filter_: Filter = None, limit: Limit = 50, cursor: Cursor = None) -> None:
    """List acts, newest first."""
    wanted = parse_filter(filter_, WORDS)
    page = caller.page(BASE, {"limit": limit, "cursor": cursor}, keep(wanted, at="at"))
    fields = ("n", "at", "actor", "action", "subject", "note")
    rows = [[one[name] for name in fields] for one in page["items"]]
    show(page, lambda: table(("N", "AT", "WHO", "WHAT", "SUBJECT", "NOTE"), rows))


@asking(app, "verify")
def verify(
    caller: Caller,
    expect: Annotated[
        str | None, typer.Option(metavar="N:SEAL", help="`last` of an earlier check, kept elsewhere.")
    ] = None,
) -> None:
    """Check that no line was edited or removed; names the first that was. Ends with 7 when the log is broken."""
    found = caller.get(f"{BASE}/verify", {"expect": expect})
    last = found["last"] or "nothing is on record yet"
    pruned = f", {counted(found['pruned_to'], 'older one')} removed by retention" if found["pruned_to"] else ""
    show(
        found,
        lambda: (
            [f"the audit log is whole: {counted(found['lines'], 'line')}{pruned}", f"last  {last}"]
            if found["whole"]
            else []
        ),
    )
    if not found["whole"]:
        raise CallFailed(f"the audit log is broken: {found['broken']['why']}", Exit.UNHEALTHY)
