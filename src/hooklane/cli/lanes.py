"""`hooklane lanes …`: which keys wait, and for what."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hooklane.cli.client import Caller, calling, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, EndpointFilter, Json, Limit, Server
from hooklane.cli.output import pairs, plain, show, table

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/lanes"

Key = Annotated[str, typer.Argument(help="The key of the lane.")]


@app.command("ls")
def ls(
    state: Annotated[str | None, typer.Option(help="Some of blocked,retrying,active,paused,idle.")] = None,
    endpoint: EndpointFilter = None,
    q: Annotated[str | None, typer.Option("-q", "--search", help="Text in the key.")] = None,
    limit: Limit = 50,
    cursor: Annotated[str | None, typer.Option(help="`next` of the page before.")] = None,
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List lanes, those that need attention first."""
    with calling(server, db) as caller:
        endpoint_id = caller.endpoint_id(endpoint) if endpoint else None
        query = {"state": state, "endpoint": endpoint_id, "q": q, "limit": limit, "cursor": cursor}
        page = caller.page(BASE, query)
    rows = [
        (
            one["key"],
            one["endpoint_name"] or one["endpoint"],
            f"#{one['head']} {one['state']}",
            one["waiting"],
            _reason(one),
        )
        for one in page["items"]
    ]
    show(page, as_json, lambda: table(("KEY", "ENDPOINT", "HEAD", "WAITING", "REASON"), rows))


@app.command("show")
def show_one(
    key: Key, endpoint: EndpointFilter = None, server: Server = None, db: Db = None, as_json: Json = False
) -> None:
    """Show one lane and what stands in line."""
    with calling(server, db) as caller:
        lane = caller.get(_path(caller, key, endpoint))
    rows = [(one["seq"], one["state"], one["attempts"], one["event"], one["reason"]) for one in lane["deliveries"]]
    head = {name: value for name, value in lane.items() if name != "deliveries"}
    show(lane, as_json, lambda: [*pairs(head), "", *table(("SEQ", "STATE", "TRIES", "EVENT", "REASON"), rows)])


@app.command("why")
def why(key: Key, endpoint: EndpointFilter = None, server: Server = None, db: Db = None, as_json: Json = False) -> None:
    """Say in one sentence what a lane waits for."""
    with calling(server, db) as caller:
        told = caller.get(f"{_path(caller, key, endpoint)}/why")
    show(told, as_json, lambda: [plain(told["why"])])


def _path(caller: Caller, key: str, endpoint: str | None) -> str:
    """The lane of *key*: at *endpoint*, or at the only endpoint that has one."""
    if endpoint is not None:
        return f"{BASE}/{segment(caller.endpoint_id(endpoint))}/{segment(key)}"
    found = [one["endpoint"] for one in caller.page(BASE, {"q": key, "limit": 200})["items"] if one["key"] == key]
    if not found:
        raise CallFailed(f"no lane has the key {key!r}", Exit.NOT_FOUND)
    if len(found) > 1:
        raise CallFailed(f"{len(found)} endpoints have this key: name one with --endpoint", Exit.USAGE)
    return f"{BASE}/{segment(found[0])}/{segment(key)}"


def _reason(lane: dict[str, Any]) -> str:
    tries = f" ({lane['attempts']}/{lane['attempts_max']} tries)" if lane["attempts"] and lane["attempts_max"] else ""
    due = f", next {lane['next_at']}" if lane["state"] == "retrying" and lane["next_at"] else ""
    return f"{lane['reason'] or ''}{tries}{due}"
