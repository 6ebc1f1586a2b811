"""`hooklane lanes …`: which keys wait, and for what."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hooklane.cli.asking import asking
from hooklane.cli.client import Caller, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import Filter, asked_for
from hooklane.cli.options import Cursor, EndpointFilter, Key, Limit
from hooklane.cli.output import one_line, pairs, plain, show, table
from hooklane.cli.times import clock_of, since

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/lanes"
WORDS = ("state", "endpoint", "key")


@asking(app, "ls")
def ls(
    caller: Caller,
    filter_: Filter = None,
    state: Annotated[str | None, typer.Option("--state", help="Some of blocked,retrying,active,paused,idle.")] = None,
    endpoint: EndpointFilter = None,
    search: Annotated[str | None, typer.Option("--search", metavar="TEXT", help="Text in the key.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List lanes, those that need attention first."""
    wanted = asked_for(filter_, WORDS, state=state, endpoint=endpoint, key=search)
    query = {
        "state": wanted["state"],
        "endpoint": caller.endpoint_id(wanted["endpoint"]) if wanted["endpoint"] else None,
        "q": wanted["key"],
        "limit": limit,
        "cursor": cursor,
    }
    page = caller.page(BASE, query)
    rows = [_row(one) for one in page["items"]]
    head = ("KEY", "ENDPOINT", "HEAD", "WAITING", "FOR", "REASON")
    show(page, lambda: table(head, rows, right=("WAITING", "FOR")))


def _row(lane: dict[str, Any]) -> tuple[object, ...]:
    is_dead = lane["state"] == "blocked"
    return (
        lane["key"],
        lane["endpoint_name"] or lane["endpoint"],
        f"#{lane['head']} {'dead' if is_dead else lane['state']}",
        lane["waiting"],
        since(lane["since"]) if lane["state"] != "idle" else "",
        _reason(lane),
    )


@asking(app, "show")
def show_one(caller: Caller, key: Key, endpoint: EndpointFilter = None) -> None:
    """Show one lane and what stands in line."""
    lane = caller.get(_path(caller, key, endpoint))
    rows = [(one["seq"], one["state"], one["attempts"], one["event"], one["reason"]) for one in lane["deliveries"]]
    head = {name: value for name, value in lane.items() if name != "deliveries"}
    show(lane, lambda: [*pairs(head), "", *table(("SEQ", "STATE", "TRIES", "EVENT", "REASON"), rows)])


@asking(app, "why")
def why(caller: Caller, key: Key, endpoint: EndpointFilter = None) -> None:
    """Say in one sentence what a lane waits for."""
    told = caller.get(f"{_path(caller, key, endpoint)}/why")
    show(told, lambda: [plain(told["why"])])


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
    parts = [" ".join(part for part in (lane["reason"], one_line(lane["head_said"])) if part)]
    if lane["breaker"] not in (None, "closed"):
        parts.append(f"breaker {lane['breaker']}")
    if lane["state"] == "retrying" and lane["next_at"]:
        parts.append(f"next {clock_of(lane['next_at'])}")
    text = ", ".join(part for part in parts if part)
    tries = f" ({lane['attempts']}/{lane['attempts_max']} tries)" if lane["attempts"] and lane["attempts_max"] else ""
    return f"{text}{tries}"
