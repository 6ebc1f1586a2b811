"""`hooklane dlq …`: dead letters."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from hooklane.cli import plans
from hooklane.cli.client import Caller, calling, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, EndpointFilter, Json, Limit, Server, Yes
from hooklane.cli.output import counted, json_line, pairs, plain, say, show, table, talk
from hooklane.cli.plans import Filter, PlanOnly, Rate

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/dead-letters"

Id = Annotated[str, typer.Argument(metavar="ID", help="dlv_…")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID…", help="dlv_…, one or more.")]


@app.command("ls")
def ls(
    endpoint: EndpointFilter = None,
    limit: Limit = 50,
    cursor: Annotated[str | None, typer.Option(help="`next` of the page before.")] = None,
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List dead letters."""
    with calling(server, db) as caller:
        endpoint_id = caller.endpoint_id(endpoint) if endpoint else None
        page = caller.page(BASE, {"endpoint": endpoint_id, "limit": limit, "cursor": cursor})
    rows = [
        (one["id"], one["key"], one["seq"], one["type"], one["attempts"], one["waiting"], one["died_at"], one["reason"])
        for one in page["items"]
    ]
    show(page, as_json, lambda: table(("ID", "KEY", "SEQ", "TYPE", "TRIES", "WAITING", "DIED", "REASON"), rows))


@app.command("show")
def show_one(letter: Id, server: Server = None, db: Db = None, as_json: Json = False) -> None:
    """Show one dead letter with its data."""
    with calling(server, db) as caller:
        found = caller.get(f"{BASE}/{segment(letter)}")
    show(found, as_json, lambda: pairs(found))


@app.command("note")
def note(
    letter: Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember.")],
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Write a note on a dead letter."""
    with calling(server, db) as caller:
        done = caller.ask("PATCH", f"{BASE}/{segment(letter)}", body={"note": text})
    show(done, as_json, lambda: [f"{done['id']}  {plain(done['note'])}"])


@app.command("replay")
def replay(
    letters: Ids = None,
    filter_: Filter = None,
    all_: Annotated[bool, typer.Option("--all", help="All dead letters (of --endpoint).")] = False,
    endpoint: EndpointFilter = None,
    rate: Rate = None,
    plan: PlanOnly = False,
    yes: Yes = False,
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Send dead letters again, under the same id and seq; many at once by a plan, in order inside each key."""
    with calling(server, db) as caller:
        if letters and not (filter_ or all_ or plan or rate):
            _each(caller, letters, "replay", None, as_json)
            return
        asked = plans.asked(caller, letters, filter_, all_, endpoint)
        plans.plan_and_run(caller, "replay", asked, note="", rate=rate, plan_only=plan, yes=yes, as_json=as_json)


@app.command("skip")
def skip(
    letters: Ids = None,
    filter_: Filter = None,
    note: Annotated[str | None, typer.Option("--note", help="Why; it goes on record.")] = None,
    endpoint: EndpointFilter = None,
    plan: PlanOnly = False,
    yes: Yes = False,
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Give dead letters up for good, and release what waits behind them; shown first, done when confirmed."""
    with calling(server, db) as caller:
        asked = plans.asked(caller, letters, filter_, False, endpoint)
        plans.plan_and_run(caller, "skip", asked, note=note, rate=None, plan_only=plan, yes=yes, as_json=as_json)


@app.command("export")
def export(endpoint: EndpointFilter = None, server: Server = None, db: Db = None) -> None:
    """Print all dead letters as NDJSON."""
    with calling(server, db) as caller:
        endpoint_id = caller.endpoint_id(endpoint) if endpoint else None
        reply = caller.raw("GET", BASE, query={"endpoint": endpoint_id}, headers={"accept": "application/x-ndjson"})
    sys.stdout.write(reply.body.decode())
    sys.stdout.flush()


def _each(caller: Caller, letters: list[str], action: str, body: dict[str, Any] | None, as_json: bool) -> None:
    """Act on each; what failed is told on stderr, and the exit code says whether all, some or none went well."""
    failures: list[CallFailed] = []
    for letter in letters:
        try:
            done = caller.post(f"{BASE}/{segment(letter)}/{action}", body)
        except CallFailed as failure:
            if failure.exit is Exit.UNREACHABLE:
                raise
            talk(f"{letter}: {failure}")
            failures.append(failure)
            continue
        if as_json:
            sys.stdout.write(json_line({"v": 1, "action": action, **done}))
        else:
            place = "no order" if done["seq"] is None else f"{plain(done['key'])} #{done['seq']}"
            behind = counted(done["released"] or 0, "event")
            say(f"replayed  {done['id']}  {place}  {behind} behind it")
    if failures:
        exit_ = failures[0].exit if len(failures) == len(letters) else Exit.PARTLY
        raise CallFailed(f"{len(failures)} of {counted(len(letters), 'dead letter')} could not be replayed", exit_)
