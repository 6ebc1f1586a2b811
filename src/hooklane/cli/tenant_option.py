"""`--tenant` / `HOOKLANE_TENANT`: for which tenant a command acts, wherever it asks a server or a database."""

from __future__ import annotations

import os
from functools import cache
from typing import Annotated, Any

import typer

from hooklane.cli.exits import CallFailed, Exit

_chosen: list[str] = []
"""What `--tenant` said last, in this process."""


def tenant_headers() -> dict[str, str]:
    """The header that names the tenant; none for what the key means by itself."""
    tenant = _chosen[-1] if _chosen else os.environ.get("HOOKLANE_TENANT")
    if not tenant:
        return {}
    from hooklane.core.tenant import ID_RULE, is_tenant_id

    if not is_tenant_id(tenant):
        raise CallFailed(f"no tenant can have the id {tenant[:80]!r}: {ID_RULE}", Exit.USAGE)
    return {"hooklane-tenant": tenant}


def add_tenant_option(command: Any) -> None:
    """Give `--tenant` to *command*, or to all commands of a group, where it asks a server or a database."""
    for inner in getattr(command, "commands", {}).values():
        add_tenant_option(inner)
    names = {name for param in command.params for name in param.opts}
    if names & {"--server", "--sender"} and "--tenant" not in names:
        command.params.append(_option())


@cache
def _option() -> Any:
    holder = typer.Typer(rich_markup_mode=None, add_completion=False)
    holder.command()(_stand_in)
    (option,) = [param for param in typer.main.get_command(holder).params if "--tenant" in param.opts]
    option.expose_value = False
    return option


def _choose(tenant: str | None) -> None:
    _chosen[:] = [] if tenant is None else [tenant]


def _stand_in(
    _: Annotated[
        str | None,
        typer.Option(
            "--tenant", metavar="TENANT", callback=_choose, help="The tenant to act for (HOOKLANE_TENANT; default)."
        ),
    ] = None,
) -> None:
    """Stands for no command: only its option is used."""
