"""`hooklane dlq …`: dead letters."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from hooklane.cli.client import Caller, calling, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, EndpointFilter, Json, Limit, Server, Yes
from hooklane.cli.output import is_interactive, json_line, pairs, plain, say, show, table, talk

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
        page = caller.get(BASE, {"endpoint": endpoint_id, "limit": limit, "cursor": cursor})
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
    all_: Annotated[bool, typer.Option("--all", help="All of them (of --endpoint).")] = False,
    endpoint: EndpointFilter = None,
    yes: Yes = False,
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Send dead letters again, under the same id and seq."""
    with calling(server, db) as caller:
        chosen = _chosen(caller, letters, all_, endpoint)
        if all_ and not yes:
            _confirm(f"Replay {len(chosen)} dead letters?")
        _each(caller, chosen, "replay", None, as_json)


@app.command("skip")
def skip(
    letters: Ids = None,
    note: Annotated[str | None, typer.Option("--note", help="Why; it goes on record.")] = None,
    yes: Yes = False,
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Give dead letters up for good, and release what waits behind them."""
    with calling(server, db) as caller:
        chosen = _chosen(caller, letters, False, None)
        for letter in chosen:
            found = caller.get(f"{BASE}/{segment(letter)}")
            talk(
                f"{letter}: #{found['seq']} {found['type']} of {found['key']} will never be delivered;"
                f" {found['waiting']} events behind it are sent at once"
            )
        if note is None:
            if not is_interactive():
                raise CallFailed("say why with --note", Exit.USAGE)
            note = typer.prompt("Note", err=True)
        if not yes:
            _confirm(f"Skip {len(chosen)} for good?")
        _each(caller, chosen, "skip", {"note": note}, as_json)


@app.command("export")
def export(endpoint: EndpointFilter = None, server: Server = None, db: Db = None) -> None:
    """Print all dead letters as NDJSON."""
    with calling(server, db) as caller:
        endpoint_id = caller.endpoint_id(endpoint) if endpoint else None
        reply = caller.raw("GET", BASE, query={"endpoint": endpoint_id}, headers={"accept": "application/x-ndjson"})
    sys.stdout.write(reply.body.decode())
    sys.stdout.flush()


def _chosen(caller: Caller, letters: list[str] | None, all_: bool, endpoint: str | None) -> list[str]:
    if bool(letters) == all_:
        raise CallFailed("name dead letters by id, or use --all", Exit.USAGE)
    if letters:
        return letters
    found: list[str] = []
    endpoint_id = caller.endpoint_id(endpoint) if endpoint else None
    cursor = None
    while True:
        page = caller.get(BASE, {"endpoint": endpoint_id, "limit": 200, "cursor": cursor})
        found += [one["id"] for one in page["items"]]
        cursor = page["next"]
        if cursor is None:
            return found


def _confirm(question: str) -> None:
    if not is_interactive():
        raise CallFailed("nobody can be asked here: confirm with --yes", Exit.USAGE)
    typer.confirm(question, abort=True, err=True)


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
            say(f"{action}  {done['id']}  {plain(done['key'])} #{done['seq']}  releases {done['released']}")
    if failures:
        exit_ = failures[0].exit if len(failures) == len(letters) else Exit.PARTLY
        raise CallFailed(f"{len(failures)} of {len(letters)} were not done", exit_)
