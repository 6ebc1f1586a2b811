"""`hooklane doctor`: is everything as it should be? Each line is a check; what is wrong ends with code 7."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hooklane.cli import output
from hooklane.cli.client import calling
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, Server
from hooklane.cli.output import aside, plain, say, show, sign
from hooklane.model.size import counted

if TYPE_CHECKING:
    from hooklane.core.doctor import Finding


def doctor(
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out what takes long: the whole file, the ledger, TLS of endpoints.")
    ] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what can be mended safely, and say what was done.")] = False,
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="Check the store of an inbox too: redis://…"),
    ] = None,
    inbox: Annotated[
        str | None, typer.Option("--inbox", metavar="MODULE:INBOX", help="Check your inbox with its sources too.")
    ] = None,
    server: Server = None,
    db: Db = None,
) -> None:
    """Check that everything is as it should be.

    Versions, clock, schema, files, retention, certificates of endpoints, the ledger and the audit log; with --db also
    what only the database's own host can tell. Ends with 7 when a check is wrong.
    """
    found: list[Finding] = []
    fixed: list[str] = []
    for one in _findings(server, db, store, inbox, quick=quick, fix=fix, fixed=fixed):
        found.append(one)
        if not output.as_json:
            _print(one)
    wrong = [one for one in found if one.state == "wrong"]
    value = {"healthy": not wrong, "checks": [asdict(one) for one in found], "fixed": fixed}
    show(value, list)
    for line in fixed:
        aside(f"fixed: {line}")
    if wrong:
        can = sum(bool(one.fix) for one in wrong)
        hint = f"; `hooklane doctor --fix` mends {can} of them" if can and not fix else ""
        raise CallFailed(f"{counted(len(wrong), 'check')} failed{hint}", Exit.UNHEALTHY)


def _print(one: Finding) -> None:
    advice = f"   → {plain(one.advice)}" if one.advice else ""
    say(f"{sign(one.state)} {one.name}: {plain(one.detail)}{advice}")


def _findings(
    server: str | None,
    db: str | None,
    store: str | None,
    inbox: str | None,
    *,
    quick: bool,
    fix: bool,
    fixed: list[str],
) -> Iterator[Finding]:
    from hooklane.cli import doctor_checks as checks
    from hooklane.config import load

    yield checks.versions()
    yield checks.page()
    settings, origins = load({"db": db}, os.environ)
    asks_server = server is not None or (db is None and "HOOKLANE_SERVER" in os.environ)
    is_named = any(one.name == "db" and one.origin != "default" for one in origins)
    if not asks_server and is_named:
        is_open = True
        for one in checks.database(settings, quick=quick):
            if fix and one.fix:
                done, one = checks.MENDS[one.fix](settings)
                fixed.append(done)
            is_open = is_open and not (one.state == "wrong" and one.name in ("schema", "file", "standby"))
            yield one
        if not is_open:
            return  # to open it would change it, or fail
    yield from checks.secret_files()
    with calling(server, db) as caller:
        yield from checks.api(caller, settings, quick=quick)
    if store is not None or inbox is not None:
        yield from checks.inbox(store, inbox)
