"""`hooklane events …`: what was published, and why it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from hooklane.cli import plans
from hooklane.cli.client import calling, segment
from hooklane.cli.options import Db, EndpointFilter, Json, Limit, Server, Yes
from hooklane.cli.output import pairs, plain, show, table
from hooklane.cli.plans import Filter, PlanOnly, Rate

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/events"

EventId = Annotated[str, typer.Argument(metavar="EVENT", help="Id of an event.")]


@app.command("ls")
def ls(
    type_: Annotated[str | None, typer.Option("--type", help="Exact type.")] = None,
    key: Annotated[str | None, typer.Option(help="Exact key.")] = None,
    endpoint: EndpointFilter = None,
    state: Annotated[str | None, typer.Option(help="queued, retrying, delivered, dead, skipped or cancelled.")] = None,
    after: Annotated[str | None, typer.Option(help="Published at or after this time.")] = None,
    before: Annotated[str | None, typer.Option(help="Published before this time.")] = None,
    limit: Limit = 50,
    cursor: Annotated[str | None, typer.Option(help="`next` of the page before.")] = None,
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List events, newest first."""
    with calling(server, db) as caller:
        query = {
            "type": type_,
            "key": key,
            "endpoint": caller.endpoint_id(endpoint) if endpoint else None,
            "state": state,
            "after": after,
            "before": before,
            "limit": limit,
            "cursor": cursor,
        }
        page = caller.page(BASE, query)
    rows = [
        (one["id"], one["type"], one["key"], ",".join(each["state"] for each in one["deliveries"]), one["created_at"])
        for one in page["items"]
    ]
    show(page, as_json, lambda: table(("ID", "TYPE", "KEY", "STATE", "PUBLISHED"), rows))


@app.command("show")
def show_one(event: EventId, server: Server = None, db: Db = None, as_json: Json = False) -> None:
    """Show one event, its deliveries and every try."""
    with calling(server, db) as caller:
        found = caller.get(f"{BASE}/{segment(event)}")
        tries = caller.get(f"{BASE}/{segment(event)}/attempts")["items"]
    head = {name: value for name, value in found.items() if name != "deliveries"}
    fields = ("endpoint", "seq", "state", "attempts", "reason")
    deliveries = [[one[name] for name in fields] for one in found["deliveries"]]
    rows = [
        (
            one["started_at"],
            one["endpoint"],
            one["attempt"],
            one["status"] or one["failure"],
            f"{one['took_ms']:.0f} ms",
            one["outcome"],
            _phases(one["detail"].get("timings") or {}),
        )
        for one in tries
    ]
    show(
        {**found, "attempts": tries},
        as_json,
        lambda: [
            *pairs(head),
            "",
            *table(("ENDPOINT", "SEQ", "STATE", "TRIES", "REASON"), deliveries),
            "",
            *table(("STARTED", "ENDPOINT", "TRY", "RESULT", "TOOK", "OUTCOME", "PHASES"), rows),
        ],
    )


def _phases(timings: Mapping[str, float | None]) -> str:
    """When each phase of a failed try was over, as far as it came."""
    names = {"dns_ms": "dns", "connect_ms": "connect", "tls_ms": "tls", "first_byte_ms": "first byte"}
    return ", ".join(f"{name} {at:.0f}" for field, name in names.items() if (at := timings.get(field)) is not None)


@app.command("why")
def why(event: EventId, server: Server = None, db: Db = None, as_json: Json = False) -> None:
    """Say in one sentence why an event waits."""
    with calling(server, db) as caller:
        told = caller.get(f"{BASE}/{segment(event)}/why")
    show(told, as_json, lambda: [plain(told["why"])])


@app.command("replay")
def replay(
    events: Annotated[list[str] | None, typer.Argument(metavar="EVENT…", help="Ids of events, one or more.")] = None,
    filter_: Filter = None,
    endpoint: EndpointFilter = None,
    rate: Rate = None,
    plan: PlanOnly = False,
    yes: Yes = False,
    server: Server = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Send events again that were delivered before: same id, seq and bytes, in order inside each key."""
    with calling(server, db) as caller:
        asked = plans.asked(caller, events, filter_, False, endpoint, state="delivered")
        plans.plan_and_run(caller, "replay", asked, note="", rate=rate, plan_only=plan, yes=yes, as_json=as_json)
