"""The options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Server = Annotated[str | None, typer.Option("--server", metavar="URL", help="The server to ask (HOOKLANE_SERVER).")]
Db = Annotated[str | None, typer.Option("--db", metavar="URL", help="Open this database directly, without a server.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=200, help="How many to list.")]
EndpointId = Annotated[str, typer.Argument(metavar="ENDPOINT", help="Id or name of an endpoint.")]
EndpointFilter = Annotated[
    str | None, typer.Option("--endpoint", metavar="ENDPOINT", help="Id or name of an endpoint.")
]
EgressAllow = Annotated[
    str | None,
    typer.Option(
        "--egress-allow", metavar="CIDR,…", help="Private networks that deliveries may go to (operator only)."
    ),
]
