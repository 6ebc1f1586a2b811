"""`hooklane listen`: a receiver on this machine that verifies what comes, shows it, records it and forwards it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from hooklane.cli import output
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.faults import faults_of
from hooklane.cli.output import aside, say_json

DEFAULT_PORT = 8788


def listen(
    forward_to: Annotated[
        str | None,
        typer.Option("--forward-to", metavar="URL", help="Pass each request on, and its answer back."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0 for any.")
    ] = DEFAULT_PORT,
    secret: Annotated[
        list[str] | None,
        typer.Option("--secret", help="What signs the webhooks (whsec_…); HOOKLANE_SECRET by default."),
    ] = None,
    types: Annotated[
        str | None, typer.Option("--types", help="Show only these types, such as order.*,a.b. All are answered.")
    ] = None,
    keys: Annotated[
        str | None, typer.Option("--keys", help="Show only these keys, such as order:*,b. All are answered.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Append each request to this file (NDJSON).")
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option("--fault", metavar="KIND=P", help="drop-ack=.1, error=.1 or delay=SECONDS; repeat for several."),
    ] = None,
) -> None:
    """Receive webhooks here, verify them, and show or forward them.

    Without --forward-to each event is answered as our receiver would: applied once, then duplicate. It listens on this
    machine alone, until interrupted.
    """
    from hooklane.cli.client import address_of
    from hooklane.cli.listener import Listener
    from hooklane.cli.secret import secrets_or_none

    faults = faults_of(fault)
    target = None if forward_to is None else address_of(_local(forward_to))
    if forward_to is not None and target is None:
        raise CallFailed(f"--forward-to must be a URL such as localhost:8000/webhooks, got {forward_to!r}", Exit.USAGE)
    secrets = secrets_or_none(secret)
    try:
        server = Listener(port, target, secrets, faults, _patterns(types), _patterns(keys), record)
    except OSError as error:
        raise CallFailed(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from None
    aside(f"  Listen on    {server.address}/   (any path)")
    if target is not None:
        aside(f"  Forward to   {target.geturl()}")
    aside(f"  Signatures   {'verified' if secrets else 'not verified: give --secret or HOOKLANE_SECRET'}")
    if record is not None:
        aside(f"  Record       {record}")
    if fault:
        aside(f"  Faults       {', '.join(fault)}")
    if output.as_json:
        say_json({"address": server.address})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stopping.set())
    with server:
        server.stopping.wait()
    if server.failed is not None:
        output.end_with(server.failed)


def _local(text: str) -> str:
    """`8000` means this machine."""
    return f"127.0.0.1:{text}" if text.isdigit() else text


def _patterns(text: str | None) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()] if text else []
