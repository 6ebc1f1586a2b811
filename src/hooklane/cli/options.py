"""The options that many commands share, and those that every command has."""

from __future__ import annotations

import os
from functools import cache
from typing import Annotated, Any

import typer

from hooklane.cli import complete, output
from hooklane.cli.exits import CallFailed, Exit

Server = Annotated[str | None, typer.Option("--server", metavar="URL", help="The server to ask (HOOKLANE_SERVER).")]
Db = Annotated[str | None, typer.Option("--db", metavar="URL", help="Open this database directly, without a server.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=200, help="How many to list.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="`next` of the page before.")]
EndpointId = Annotated[
    str, typer.Argument(metavar="ENDPOINT", help="Id or name of an endpoint.", autocompletion=complete.endpoints)
]
EndpointFilter = Annotated[
    str | None,
    typer.Option(
        "--endpoint", metavar="ENDPOINT", help="Id or name of an endpoint.", autocompletion=complete.endpoints
    ),
]
EventId = Annotated[str, typer.Argument(metavar="EVENT", help="Id of an event.", autocompletion=complete.events)]
Key = Annotated[str, typer.Argument(help="The key of the lane.", autocompletion=complete.keys)]
KeyFilter = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Exact key.", autocompletion=complete.keys)]
LetterId = Annotated[str, typer.Argument(metavar="ID", help="dlv_…", autocompletion=complete.letters)]
LetterIds = Annotated[
    list[str] | None, typer.Argument(metavar="ID…", help="dlv_…, one or more.", autocompletion=complete.letters)
]
EgressAllow = Annotated[
    str | None,
    typer.Option(
        "--egress-allow", metavar="CIDR,…", help="Private networks that deliveries may go to (operator only)."
    ),
]


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


def _choose_tenant(tenant: str | None) -> None:
    """What `--tenant` says, or that it was not given."""
    _chosen[:] = [] if tenant is None else [tenant]


def add_common_options(command: Any) -> None:
    """Give *command* what every command has, and `--tenant` where it asks a server or a database."""
    taken = {name for param in command.params for name in param.opts}
    if not taken & {"--server", "--sender"}:
        taken.add("--tenant")
    command.params += [param for param in _common() if not set(param.opts) & taken]


@cache
def _common() -> list[Any]:
    holder = typer.Typer(rich_markup_mode=None, add_completion=False)
    holder.command()(_output)
    params: list[Any] = typer.main.get_command(holder).params
    for param in params:
        param.expose_value = False
    return params


def _speak_json(wanted: bool) -> None:
    output.as_json = wanted


def _be_quiet(wanted: bool) -> None:
    if wanted:
        output.level = output.Level.QUIET


def _be_verbose(wanted: bool) -> None:
    if wanted:
        output.level = output.Level.VERBOSE


def _output(
    as_json: Annotated[bool, typer.Option("--json", callback=_speak_json, help="Print JSON, for programs.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", callback=_be_quiet, help="Say nothing but data and errors.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", callback=_be_verbose, help="Say what is done on the way.")
    ] = False,
    # Not `tenant`: some commands have an argument of that name, and its value would be taken for this option's.
    as_tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            metavar="TENANT",
            callback=_choose_tenant,
            help="The tenant to act for (HOOKLANE_TENANT; default).",
        ),
    ] = None,
) -> None:
    """Stands for no command: only its options are used."""
