"""`hooklane tenants …`: whose data a server keeps, what each may use, and what becomes of one that leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hooklane.cli.asking import asking
from hooklane.cli.client import Caller, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Limit, Yes
from hooklane.cli.output import confirm, pairs, show, table
from hooklane.model.size import counted

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/tenants"
NO_BOUND = "none"

TenantId = Annotated[str, typer.Argument(metavar="TENANT", help="Id of a tenant.")]
Rate = Annotated[
    str | None, typer.Option("--events-per-s", metavar="N", help="Publishes a second over HTTP; none for no bound.")
]
Endpoints = Annotated[str | None, typer.Option("--endpoints", metavar="N", help="Endpoints; none for no bound.")]
Bytes = Annotated[
    str | None, typer.Option("--bytes", metavar="N", help="Bytes of events that are kept; none for no bound.")
]


@asking(app, "ls")
def ls(
    caller: Caller,
    limit: Limit = 50,
    cursor: Annotated[str | None, typer.Option(help="`next` of the page before.")] = None,
) -> None:
    """List tenants, by id."""
    page = caller.get(BASE, {"limit": limit, "cursor": cursor})
    rows = [[one["id"], one["state"], one["name"], *_quota_cells(one["quota"])] for one in page["items"]]
    show(page, lambda: table(("TENANT", "STATE", "NAME", "EVENTS/S", "ENDPOINTS", "BYTES"), rows))


@asking(app, "add", create=True)
def add(
    caller: Caller,
    tenant: TenantId,
    name: Annotated[str | None, typer.Option("--name", help="What people call it.")] = None,
    events_per_s: Rate = None,
    endpoints: Endpoints = None,
    stored: Bytes = None,
) -> None:
    """Create a tenant. An id is never given twice."""
    body: dict[str, Any] = {"id": tenant, "quota": _quota(events_per_s, endpoints, stored)}
    if name is not None:
        body["name"] = name
    made = caller.post(BASE, body)
    show(made, lambda: [f"created tenant {made['id']}"])


@asking(app, "show")
def show_one(caller: Caller, tenant: TenantId) -> None:
    """Show a tenant, its quotas, and how much it uses."""
    found = caller.get(_path(tenant))
    show(found, lambda: pairs(found))


@asking(app, "quota")
def quota(
    caller: Caller,
    tenant: TenantId,
    events_per_s: Rate = None,
    endpoints: Endpoints = None,
    stored: Bytes = None,
) -> None:
    """Set quotas; what is not given stays as it is, and without any option they are only shown."""
    wanted = _quota(events_per_s, endpoints, stored)
    found = caller.ask("PATCH", _path(tenant), body={"quota": wanted}) if wanted else caller.get(_path(tenant))
    show(found["quota"], lambda: pairs({name: _cell(value) for name, value in found["quota"].items()}))


@asking(app, "suspend")
def suspend(caller: Caller, tenant: TenantId) -> None:
    """Take nothing over HTTP and send nothing for a tenant; all is kept."""
    _tell(caller, tenant, "suspend")


@asking(app, "resume")
def resume(caller: Caller, tenant: TenantId) -> None:
    """Let a suspended tenant go on where it was."""
    _tell(caller, tenant, "resume")


@asking(app, "rm")
def rm(
    caller: Caller,
    tenant: TenantId,
    backlog: Annotated[str, typer.Option("--backlog", help="What is owed: drain (deliver it) or cancel.")] = "drain",
    yes: Yes = False,
) -> None:
    """Delete a tenant with its endpoints; what is owed is delivered first, or cancelled."""
    found = caller.get(_path(tenant))
    if not yes:
        confirm(f"Delete tenant {tenant} with {counted(found['endpoints'], 'endpoint')} ({backlog} what is owed)?")
    caller.ask("DELETE", _path(tenant), query={"backlog": backlog})
    state, owed = ("cancelling", "cancelled") if backlog == "cancel" else ("draining", "delivered")
    done = f"{tenant} is being deleted, and what it is owed is {owed}"
    show({"id": tenant, "state": state}, lambda: [done])


def _tell(caller: Caller, tenant: str, verb: str) -> None:
    found = caller.post(f"{_path(tenant)}/{verb}")
    show(found, lambda: [f"{found['id']} is {found['state']}"])


def _path(tenant: str) -> str:
    return f"{BASE}/{segment(tenant)}"


def _quota(events_per_s: str | None, endpoints: str | None, stored: str | None) -> dict[str, float | int | None]:
    given = {"events_per_s": (events_per_s, float), "endpoints": (endpoints, int), "bytes": (stored, int)}
    return {name: _number(name, text, kind) for name, (text, kind) in given.items() if text is not None}


def _number(name: str, text: str, kind: type[float] | type[int]) -> float | int | None:
    if text == NO_BOUND:
        return None
    try:
        return kind(text)
    except ValueError:
        what = "a number" if kind is float else "a whole number"
        raise CallFailed(f"{name} must be {what} or none, got {text[:40]!r}", Exit.USAGE) from None


def _quota_cells(found: Mapping[str, Any]) -> list[object]:
    return [_cell(found[name]) for name in ("events_per_s", "endpoints", "bytes")]


def _cell(value: object) -> object:
    return NO_BOUND if value is None else value
