"""`hooklane endpoints …`: where deliveries go."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hooklane.cli.client import calling, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import Filter, keep, parse_filter
from hooklane.cli.options import Db, EndpointId, Server, Yes
from hooklane.cli.output import confirm, pairs, plain, show, table, talk

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/endpoints"
WORDS = ("id", "name", "state", "order", "url")


@app.command("add")
def add(
    url: Annotated[str, typer.Argument(help="Where to POST.")],
    name: Annotated[str | None, typer.Option(help="A name for people.")] = None,
    types: Annotated[
        str | None, typer.Option(help="Patterns such as order.*, with commas; all types by default.")
    ] = None,
    order: Annotated[str | None, typer.Option(help="key, none or global.")] = None,
    on_dead: Annotated[str | None, typer.Option(help="block or skip.")] = None,
    secret: Annotated[str | None, typer.Option(help="whsec_…; made for you by default.")] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="NAME:VALUE", help="A header of every delivery.")] = None,
    signature: Annotated[str | None, typer.Option(help="v1 (a shared secret) or v1a (an Ed25519 key pair).")] = None,
    ca: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A PEM file with the authorities to trust instead.")
    ] = None,
    payload: Annotated[str | None, typer.Option(help="envelope or raw.")] = None,
    rate_limit: Annotated[float | None, typer.Option(help="Deliveries a second.")] = None,
    in_flight_max: Annotated[int | None, typer.Option(help="Deliveries at once.")] = None,
    timeout_ms: Annotated[int | None, typer.Option(help="For one attempt.")] = None,
    attempts_max: Annotated[int | None, typer.Option(help="Then it is a dead letter.")] = None,
    backoff_ms: Annotated[int | None, typer.Option(help="Wait after the first failure; doubles.")] = None,
    backoff_cap_ms: Annotated[int | None, typer.Option(help="The longest wait.")] = None,
    server: Server = None,
    db: Db = None,
) -> None:
    """Create an endpoint and print what its receiver verifies with, this once."""
    body: dict[str, Any] = {
        "url": url,
        "name": name,
        "types": types.split(",") if types else None,
        "order": order,
        "on_dead": on_dead,
        "secret": secret,
        "headers": _headers(header) if header else None,
        "signature": signature,
        "ca_pem": ca.read_text("ascii", "replace") if ca else None,
        "payload": payload,
        "rate_limit": rate_limit,
        "in_flight_max": in_flight_max,
        "timeout_ms": timeout_ms,
        "attempts_max": attempts_max,
        "backoff_ms": backoff_ms,
        "backoff_cap_ms": backoff_cap_ms,
    }
    with calling(server, db, create=True) as caller:
        made = caller.post(BASE, {field: value for field, value in body.items() if value is not None})
    show(made, lambda: [f"{made['id']}  {plain(made['url'])}", *_given_away(made)])


@app.command("ls")
def ls(filter_: Filter = None, server: Server = None, db: Db = None) -> None:
    """List all endpoints."""
    wanted = keep(parse_filter(filter_, WORDS))
    with calling(server, db) as caller:
        page = caller.get(BASE)
    page = {**page, "items": [one for one in page["items"] if wanted(one)]}
    rows = [
        (one["id"], one["name"], one["state"], one["order"], ",".join(one["types"]) or "*", one["url"])
        for one in page["items"]
    ]
    show(page, lambda: table(("ID", "NAME", "STATE", "ORDER", "TYPES", "URL"), rows))


@app.command("show")
def show_one(endpoint: EndpointId, server: Server = None, db: Db = None) -> None:
    """Show one endpoint and its ledger."""
    with calling(server, db) as caller:
        found = caller.get(f"{BASE}/{segment(caller.endpoint_id(endpoint))}")
    show(found, lambda: pairs(found))


@app.command("pause")
def pause(endpoint: EndpointId, server: Server = None, db: Db = None) -> None:
    """Send nothing to it; everything is kept."""
    _act(endpoint, "pause", server, db)


@app.command("resume")
def resume(endpoint: EndpointId, server: Server = None, db: Db = None) -> None:
    """Send to it again."""
    _act(endpoint, "resume", server, db)


@app.command("rotate")
def rotate(
    endpoint: EndpointId,
    overlap_s: Annotated[
        int | None, typer.Option(help="How long the old secret signs too; 24 hours by default.")
    ] = None,
    secret: Annotated[str | None, typer.Option(help="whsec_…; made for you by default.")] = None,
    signature: Annotated[str | None, typer.Option(help="v1 (a shared secret) or v1a (an Ed25519 key pair).")] = None,
    server: Server = None,
    db: Db = None,
) -> None:
    """Sign with a new secret and print it, this once."""
    asked = {"overlap_s": overlap_s, "secret": secret, "signature": signature}
    body = {name: value for name, value in asked.items() if value is not None}
    with calling(server, db) as caller:
        made = caller.post(f"{BASE}/{segment(caller.endpoint_id(endpoint))}/rotate", body)
    show(made, lambda: _given_away(made))


@app.command("test")
def try_out(endpoint: EndpointId, server: Server = None, db: Db = None) -> None:
    """Send a test event now and say what came of it."""
    _try(endpoint, "test", server, db)


@app.command("probe")
def probe(endpoint: EndpointId, server: Server = None, db: Db = None) -> None:
    """Send a ping and say whether the endpoint answers."""
    _try(endpoint, "probe", server, db)


@app.command("rm")
def rm(
    endpoint: EndpointId,
    backlog: Annotated[str, typer.Option(help="drain: deliver what is owed first; cancel: do not.")] = "drain",
    yes: Yes = False,
    server: Server = None,
    db: Db = None,
) -> None:
    """Delete an endpoint."""
    with calling(server, db) as caller:
        endpoint_id = caller.endpoint_id(endpoint)
        if not yes:
            owed = (
                "give up everything that is owed to it" if backlog == "cancel" else "deliver what is owed to it first"
            )
            confirm(f"Delete {endpoint_id}, and {owed}?")
        caller.ask("DELETE", f"{BASE}/{segment(endpoint_id)}", query={"backlog": backlog})
    done = {"id": endpoint_id, "deleted": True, "backlog": backlog}
    show(done, list)
    talk(f"{endpoint_id} is deleted; what it was owed is {'cancelled' if backlog == 'cancel' else 'delivered first'}")


def _act(endpoint: str, action: str, server: str | None, db: str | None) -> None:
    with calling(server, db) as caller:
        done = caller.post(f"{BASE}/{segment(caller.endpoint_id(endpoint))}/{action}")
    show(done, lambda: [f"{done['id']}  {done['state']}"])


def _try(endpoint: str, action: str, server: str | None, db: str | None) -> None:
    with calling(server, db) as caller:
        done = caller.post(f"{BASE}/{segment(caller.endpoint_id(endpoint))}/{action}")
    result = done["status"] or done["failure"]
    show(done, lambda: [f"{'ok' if done['ok'] else 'failed'}  {result}  {done['took_ms']:.0f} ms"])
    if not done["ok"]:
        raise CallFailed(f"the endpoint did not answer 2xx: {result}")


def _headers(lines: list[str]) -> dict[str, str]:
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise CallFailed(f"--header is NAME:VALUE, got {line!r}", Exit.USAGE)
        headers[name.strip()] = value.strip()
    return headers


def _given_away(made: Mapping[str, Any]) -> list[str]:
    return [f"{name}  {made[name]}" for name in ("secret", "public_key") if made.get(name)]
