"""`hooklane endpoints …`: where deliveries go."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hooklane.cli.asking import asking
from hooklane.cli.client import Caller, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import Filter, keep, parse_filter
from hooklane.cli.options import EndpointId, Yes
from hooklane.cli.output import confirm, pairs, plain, show, table, talk

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/endpoints"
WORDS = ("id", "name", "state", "order", "url")


@asking(app, "add", create=True)
def add(
    caller: Caller,
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
    made = caller.post(BASE, {field: value for field, value in body.items() if value is not None})
    show(made, lambda: [f"{made['id']}  {plain(made['url'])}", *_given_away(made)])


@asking(app, "ls")
def ls(caller: Caller, filter_: Filter = None) -> None:
    """List all endpoints."""
    wanted = keep(parse_filter(filter_, WORDS))
    page = caller.get(BASE)
    page = {**page, "items": [one for one in page["items"] if wanted(one)]}
    rows = [
        (one["id"], one["name"], one["state"], one["order"], ",".join(one["types"]) or "*", one["url"])
        for one in page["items"]
    ]
    show(page, lambda: table(("ID", "NAME", "STATE", "ORDER", "TYPES", "URL"), rows))


@asking(app, "show")
def show_one(caller: Caller, endpoint: EndpointId) -> None:
    """Show one endpoint and its ledger."""
    found = caller.get(f"{BASE}/{segment(caller.endpoint_id(endpoint))}")
    show(found, lambda: pairs(found))


@asking(app, "pause")
def pause(caller: Caller, endpoint: EndpointId) -> None:
    """Send nothing to it; everything is kept."""
    _act(caller, endpoint, "pause")


@asking(app, "resume")
def resume(caller: Caller, endpoint: EndpointId) -> None:
    """Send to it again."""
    _act(caller, endpoint, "resume")


@asking(app, "rotate")
def rotate(
    caller: Caller,
    endpoint: EndpointId,
    overlap_s: Annotated[
        int | None, typer.Option(help="How long the old secret signs too; 24 hours by default.")
    ] = None,
    secret: Annotated[str | None, typer.Option(help="whsec_…; made for you by default.")] = None,
    signature: Annotated[str | None, typer.Option(help="v1 (a shared secret) or v1a (an Ed25519 key pair).")] = None,
) -> None:
    """Sign with a new secret and print it, this once."""
    asked = {"overlap_s": overlap_s, "secret": secret, "signature": signature}
    body = {name: value for name, value in asked.items() if value is not None}
    made = caller.post(f"{BASE}/{segment(caller.endpoint_id(endpoint))}/rotate", body)
    show(made, lambda: _given_away(made))


@asking(app, "test")
def try_out(caller: Caller, endpoint: EndpointId) -> None:
    """Send a test event now and say what came of it."""
    _try(caller, endpoint, "test")


@asking(app, "probe")
def probe(caller: Caller, endpoint: EndpointId) -> None:
    """Send a ping and say whether the endpoint answers."""
    _try(caller, endpoint, "probe")


@asking(app, "rm")
def rm(
    caller: Caller,
    endpoint: EndpointId,
    backlog: Annotated[str, typer.Option(help="drain: deliver what is owed first; cancel: do not.")] = "drain",
    yes: Yes = False,
) -> None:
    """Delete an endpoint."""
    endpoint_id = caller.endpoint_id(endpoint)
    if not yes:
        owed = "give up everything that is owed to it" if backlog == "cancel" else "deliver what is owed to it first"
        confirm(f"Delete {endpoint_id}, and {owed}?")
    caller.ask("DELETE", f"{BASE}/{segment(endpoint_id)}", query={"backlog": backlog})
    done = {"id": endpoint_id, "deleted": True, "backlog": backlog}
    show(done, list)
    talk(f"{endpoint_id} is deleted; what it was owed is {'cancelled' if backlog == 'cancel' else 'delivered first'}")


def _act(caller: Caller, endpoint: str, action: str) -> None:
    done = caller.post(f"{BASE}/{segment(caller.endpoint_id(endpoint))}/{action}")
    show(done, lambda: [f"{done['id']}  {done['state']}"])


def _try(caller: Caller, endpoint: str, action: str) -> None:
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
