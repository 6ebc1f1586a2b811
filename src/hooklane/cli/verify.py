"""`hooklane verify`: the signature doctor. It reads a request and says why its signature does not fit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.output import plain, show
from hooklane.cli.secret import secrets_of


def verify(
    request: Annotated[str, typer.Option("--request", metavar="FILE", help="The raw request; - for stdin.")] = "-",
    profile: Annotated[str, typer.Option("--profile", help="hooklane, stripe, github, …")] = "hooklane",
    secret: Annotated[
        list[str] | None, typer.Option("--secret", help="Repeat for several; HOOKLANE_SECRET by default.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="The URL as the provider called it.")] = None,
    at: Annotated[
        int | None, typer.Option("--at", help="The time to judge by, in unix seconds; now by default.")
    ] = None,
) -> None:
    """Say whether a request's signature fits, and if not, why."""
    from hooklane.core.profiles import find_profile
    from hooklane.core.verify.explain import Line, Mark, explain
    from hooklane.core.verify.httptext import parse_http
    from hooklane.errors import UsageError
    from hooklane.model.clock import Instant, wall_now

    secrets = secrets_of(secret)
    now = wall_now() if at is None else Instant(at * 1000)
    try:
        asked, known = parse_http(_read(request)), find_profile(profile)
    except UsageError as problem:
        raise CallFailed(str(problem), Exit.USAGE) from None
    told = explain(asked, known, secrets, now, url=url)
    about = [Line(Mark.HINT, f"{known.title}: {known.notes}")] if known.notes and not told.accepted else []
    lines = [*told.lines, *about]
    value = {
        "accepted": told.accepted,
        "reason": told.reason,
        "lines": [{"mark": line.mark.name.lower(), "text": line.text} for line in lines],
    }
    show(value, lambda: [plain(str(line)) for line in lines])
    if not told.accepted:
        raise CallFailed(f"the request would be refused: {told.reason}", Exit.UNHEALTHY)


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CallFailed(f"cannot read {path}: {error.strerror}", Exit.USAGE) from None
