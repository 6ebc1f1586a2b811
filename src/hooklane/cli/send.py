"""`hooklane send`: publish one event, and wait for it if asked."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from hooklane.cli.client import Caller, calling, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, Json, Server
from hooklane.cli.output import plain, say, show

POLL_S = 0.05
_SETTLED = ("delivered", "dead", "skipped", "cancelled")


def add_to(app: typer.Typer) -> None:
    app.command()(send)


def send(
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="Such as order.created.")],
    data: Annotated[str, typer.Argument(metavar="[DATA|@FILE|-]", help="JSON, a file of it, or - for stdin.")] = "{}",
    key: Annotated[str | None, typer.Option(help="Events of one key arrive in order.")] = None,
    to: Annotated[list[str] | None, typer.Option(metavar="ENDPOINT", help="Only to this endpoint.")] = None,
    event_id: Annotated[str | None, typer.Option("--id", help="An id of your own.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="Repeating it makes no second event.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is delivered or dead.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", help="How long to wait.")] = 30.0,
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Publish an event."""
    body: dict[str, Any] = {"type": type_, "data": msgspec.Raw(_data(data))}
    with calling(server, db) as caller:
        if to:
            body["endpoints"] = [caller.endpoint_id(one) for one in to]
        if key is not None:
            body["key"] = key
        if event_id is not None:
            body["id"] = event_id
        headers = {"idempotency-key": idempotency_key} if idempotency_key is not None else None
        made = caller.post("/api/v1/events", body, headers=headers)
        if not wait:
            show(made, as_json, lambda: [_line(made)])
            return
        event = _settled(caller, made["id"], timeout_s)
    if as_json:
        show(event, True, list)
    else:
        for one in event["deliveries"]:
            place = f"{plain(one['key'])} #{one['seq']}" if one["seq"] is not None else "no order"
            say(f"{event['id']}  {place}  {one['endpoint']}  {one['state']}  {plain(one['reason'])}")
        if not event["deliveries"]:
            say(_line(made) + "  no endpoint matches")
    states = [one["state"] for one in event["deliveries"]]
    undone = [state for state in states if state != "delivered"]
    if undone:
        raise CallFailed(
            f"{len(undone)} of {len(states)} deliveries are {', '.join(sorted(set(undone)))}",
            Exit.FAILED if len(undone) == len(states) else Exit.PARTLY,
        )


def _settled(caller: Caller, event_id: str, timeout_s: float) -> dict[str, Any]:
    """The event when all of its deliveries have ended, or as it stands when the time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        event: dict[str, Any] = caller.get(f"/api/v1/events/{segment(event_id)}")
        if all(one["state"] in _SETTLED for one in event["deliveries"]) or time.monotonic() > deadline:
            return event
        time.sleep(POLL_S)


def _data(text: str) -> bytes:
    if text == "-":
        return sys.stdin.buffer.read()
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_bytes()
        except OSError as error:
            raise CallFailed(f"cannot read {text[1:]}: {error.strerror}", Exit.USAGE) from None
    return text.encode("utf-8", "surrogateescape")


def _line(made: dict[str, Any]) -> str:
    places = ", ".join(f"#{lane['seq']}" if lane["seq"] is not None else "no order" for lane in made["lanes"])
    return f"{made['id']}  {plain(made['key'])}  {places or 'no endpoint matches'}"
