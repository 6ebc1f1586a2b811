"""`hooklane keys …`: who may call the API, and for what."""

from __future__ import annotations

from typing import Annotated

import typer

from hooklane.cli.asking import asking
from hooklane.cli.client import Caller, segment
from hooklane.cli.options import Yes
from hooklane.cli.output import confirm, show, table

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/keys"


@asking(app, "ls")
def ls(caller: Caller) -> None:
    """List API keys, oldest first. A key itself is shown only when it is made."""
    page = caller.get(BASE)
    rows = [
        [
            one["id"],
            one["name"],
            ",".join(one["scopes"]),
            one["tenant"] or "(all)",
            one["expires_at"] or "never",
            one["last_used_at"],
        ]
        for one in page["items"]
    ]
    show(page, lambda: table(("ID", "NAME", "SCOPES", "TENANT", "EXPIRES", "LAST USED"), rows))


@asking(app, "add", create=True)
def add(
    caller: Caller,
    name: Annotated[str, typer.Argument(help="What the key is for: it stands in the audit log.")],
    scope: Annotated[
        list[str], typer.Option("--scope", help="publish, read, operate or admin (all of them); may be repeated.")
    ],
    of_tenant: Annotated[
        str | None, typer.Option("--for-tenant", metavar="TENANT", help="Only this tenant's data; all unless given.")
    ] = None,
    expires_at: Annotated[
        str | None, typer.Option("--expires-at", metavar="TIME", help="Such as 2030-03-01T12:00:00Z.")
    ] = None,
) -> None:
    """Make an API key. It is printed this once."""
    body = {"name": name, "scopes": [word for text in scope for word in text.split(",")], "tenant": of_tenant}
    made = caller.post(BASE, body if expires_at is None else {**body, "expires_at": expires_at})
    show(made, lambda: [f"{made['id']}  {made['name']}: {', '.join(made['scopes'])}", made["key"]])


@asking(app, "rm")
def rm(
    caller: Caller,
    key_id: Annotated[str, typer.Argument(metavar="KEY", help="Id of a key (key_…).")],
    yes: Yes = False,
) -> None:
    """Revoke an API key, at once, with all sessions that it opened."""
    if not yes:
        confirm(f"Revoke {key_id}? Calls with it will be refused.")
    caller.ask("DELETE", f"{BASE}/{segment(key_id)}")
    show({"id": key_id, "revoked": True}, lambda: [f"{key_id} is revoked"])
