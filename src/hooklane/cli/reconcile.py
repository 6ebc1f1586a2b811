"""`hooklane reconcile`: what lies between a sender and a receiver, by key, and the one command that mends it."""

from __future__ import annotations

from typing import Annotated

import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import time_of
from hooklane.cli.options import EndpointFilter, KeyFilter
from hooklane.cli.output import show
from hooklane.model.size import counted

SOURCE = "hooklane"
SINCE = "-7d"
"""No receiver forgets sooner: `hooklane inbox prune` keeps seven days at least."""


def reconcile(
    sender: Annotated[str, typer.Option("--sender", metavar="URL", help="A server, or the sender's database.")],
    receiver: Annotated[
        str, typer.Option("--receiver", metavar="URL", help="The inbox's store, or a server that shows the inbox.")
    ],
    source: Annotated[
        str | None, typer.Option("--source", help="What the receiver calls this sender (hooklane).")
    ] = None,
    endpoint: EndpointFilter = None,
    key: KeyFilter = None,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Look at what was published since then (or -2h).")
    ] = SINCE,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000_000, help="Look at so many delivered events, newest first.")
    ] = 100_000,
) -> None:
    """What lies between a sender and a receiver, by key, and what mends it."""
    from hooklane.cli.reconcile_facts import compare
    from hooklane.cli.reconcile_report import SHOWN_MAX, Commands, lines_of, shown_key
    from hooklane.cli.reconcile_sides import receiver_side, sender_side
    from hooklane.core.reconcile import between

    time_of(since, "--since")  # a wrong time is refused before the sender and the receiver are asked
    with sender_side(sender, endpoint) as one, receiver_side(receiver, source or SOURCE) as other:
        if source is None and SOURCE not in other.sources():
            raise CallFailed(_no_source(other.sources()), Exit.NOT_FOUND)
        found = compare(one, other, since=since, key=key, limit=limit)
        commands = Commands(sender, receiver, str(one.endpoint["id"]))
    keys = [shown_key(facts, commands) for facts in found.facts if between(facts) or key is not None]
    value = {
        "endpoint": {"id": one.endpoint["id"], "name": one.endpoint["name"]},
        "source": source or SOURCE,
        "since": found.since,
        "looked_at": {"events": found.events, "complete": found.is_complete},
        "in_between": sum(each["events"] for each in keys),
        "keys_in_between": sum(each["events"] > 0 for each in keys),
        "keys": keys[:SHOWN_MAX],
        "unknown": found.unknown,
    }
    show(value, lambda: lines_of(value, commands))
    if value["in_between"]:
        raise CallFailed(f"{counted(value['in_between'], 'event')} found between sender and receiver", Exit.UNHEALTHY)


def _no_source(there: set[str]) -> str:
    known = f"; it has {', '.join(sorted(there)[:5])}" if there else ": it is empty"
    return (
        f"the receiver has nothing from a source {SOURCE}{known}. Check --receiver, name the source with --source;"
        f" where the receiver lost everything, say --source {SOURCE}"
    )
