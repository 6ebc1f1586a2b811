"""`hooklane reconcile`: what lies between a sender and a receiver, by key, and the one command that mends it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import time_of
from hooklane.cli.options import EndpointFilter, Json, KeyFilter
from hooklane.cli.output import counted, one_line, plain, show
from hooklane.cli.reconcile_facts import compare
from hooklane.cli.reconcile_sides import is_server, receiver_side, sender_side
from hooklane.cli.tenant_option import tenant_headers
from hooklane.core.reconcile import Act, Between, KeyFacts, Mend, between, mend
from hooklane.model.database_url import shown

SOURCE = "hooklane"
SINCE = "-7d"
"""No receiver forgets sooner: `hooklane inbox prune` keeps seven days at least."""
SHOWN_MAX = 200
NAMES_MAX = 50


def add_to(app: typer.Typer) -> None:
    app.command("reconcile")(reconcile)


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
    as_json: Json = False,
) -> None:
    """Compare what a sender delivered with what a receiver applied: by key, what is in between, and what mends it."""
    time_of(since, "--since")  # what is no time is told before anybody is asked
    with sender_side(sender, endpoint) as one, receiver_side(receiver, source or SOURCE) as other:
        if source is None and SOURCE not in other.sources():
            raise CallFailed(_no_source(other.sources()), Exit.NOT_FOUND)
        found = compare(one, other, since=since, key=key, limit=limit)
        commands = Commands(sender, receiver, str(one.endpoint["id"]))
    keys = [_shown_key(facts, commands) for facts in found.facts if between(facts) or key is not None]
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
    show(value, as_json, lambda: _lines(value, commands))
    if value["in_between"]:
        raise CallFailed(f"{counted(value['in_between'], 'event')} between sender and receiver", Exit.UNHEALTHY)


def _no_source(there: set[str]) -> str:
    known = f"; it has {', '.join(sorted(there)[:5])}" if there else ": it is empty"
    return (
        f"the receiver has nothing from a source {SOURCE}{known}. Check --receiver, name the source with --source;"
        f" where the receiver lost everything, say --source {SOURCE}"
    )


# --- what mends it ---


@dataclass(frozen=True, slots=True)
class Commands:
    """The commands that mend, ready to be pasted into a shell; a URL with a password is named by a variable."""

    sender: str
    receiver: str
    endpoint_id: str

    def of(self, act: Mend) -> str:
        names = " ".join(shlex.quote(name) for name in act.names[:NAMES_MAX])
        match act.act:
            case Act.SEND_AGAIN:
                return f"hooklane events replay {names} --yes {self._sender}"
            case Act.REPLAY_LETTER:
                return f"hooklane dlq replay {names} {self._sender}"
            case Act.RESUME:
                return f"hooklane endpoints resume {shlex.quote(self.endpoint_id)} {self._sender}"
            case Act.HANDLE_AGAIN if is_server(self.receiver):
                return f"hooklane dlq replay {names} --server {_safe(self.receiver, 'HOOKLANE_SERVER')}{self._tenant}"
            case Act.HANDLE_AGAIN:
                return f"hooklane inbox replay {names} --yes --store {_safe(self.receiver, 'HOOKLANE_STORE')}"

    @property
    def _sender(self) -> str:
        if is_server(self.sender):
            return f"--server {_safe(self.sender, 'HOOKLANE_SERVER')}{self._tenant}"
        return f"--db {_safe(self.sender, 'HOOKLANE_DB')}{self._tenant}"

    @property
    def _tenant(self) -> str:
        return "".join(f" --tenant {shlex.quote(name)}" for name in tenant_headers().values())

    @property
    def advice(self) -> list[str]:
        variables = {"HOOKLANE_DB": self.sender, "HOOKLANE_STORE": self.receiver}
        return [
            f"{name} in these commands stands for {shown(url)}, which holds a password"
            for name, url in variables.items()
            if shown(url) != url
        ]


def _safe(url: str, variable: str) -> str:
    return shlex.quote(url) if shown(url) == url else f'"${variable}"'


_WHY = {
    "receiver": "A worker of the receiver runs it; nothing is to be done while one works.",
    "held": "It waits for an event before it, of which neither side knows: --since may be too late, or it was removed.",
    "sender": "The sender is at work on it.",
}


def _why(items: Sequence[Between], act: Mend | None) -> str | None:
    if act is not None or not items:
        return None
    if all(one.status == "held" for one in items):
        return _WHY["held"]
    return _WHY[items[0].where]


def _shown_key(facts: KeyFacts, commands: Commands) -> dict[str, Any]:
    items, act = between(facts), mend(facts)
    return {
        "key": facts.key,
        "last_acked": facts.acked,
        "last_applied": facts.applied,
        "events": sum(one.events for one in items),
        "between": [
            {
                "seq": one.seq,
                "event": one.event_id,
                "where": one.where,
                "status": one.status,
                "events": one.events,
                "row": one.row,
                "reason": one.reason,
            }
            for one in items[:SHOWN_MAX]
        ],
        "mend": None if act is None else commands.of(act),
        "why": _why(items, act),
    }


def _lines(value: dict[str, Any], commands: Commands) -> list[str]:
    lines = []
    for one in value["keys"]:
        acked, applied = (one[name] if one[name] is not None else "?" for name in ("last_acked", "last_applied"))
        name = "(no key)" if one["key"] is None else plain(one["key"])
        lines.append(f"{name}  acked #{acked}  applied #{applied}  in between {one['events']:,}")
        lines += [f"  {_line_of(item)}" for item in one["between"][:10]]
        if len(one["between"]) > 10:
            lines.append(f"  … {counted(len(one['between']) - 10, 'more line')}, see --json")
        if one["mend"] or one["why"]:
            lines.append(f"  → {plain(one['mend'] or one['why'])}")
    if value["keys_in_between"] > len(value["keys"]):
        lines.append(f"… {counted(value['keys_in_between'] - len(value['keys']), 'more key')}: mend these first")
    if not value["in_between"]:
        lines.append(f"nothing is in between: {counted(value['looked_at']['events'], 'delivered event')} looked at")
    return [*lines, *(f"not known: {one}" for one in value["unknown"]), *(commands.advice if lines else [])]


def _line_of(item: dict[str, Any]) -> str:
    place = "" if item["seq"] is None else f"#{item['seq']} "
    reason = f": {one_line(item['reason'])}" if item["reason"] else ""
    match item["where"]:
        case "lost":
            return f"{place}{plain(item['event'])} was delivered, and the receiver has no row of it"
        case "sender":
            behind = f" with {counted(item['events'] - 1, 'event')} behind it" if item["events"] > 1 else ""
            return f"{place}waits at the sender{behind}, {item['status']}{reason}"
        case _:
            return f"{place}{plain(item['event'])} is {item['status']} at the receiver{reason}"
