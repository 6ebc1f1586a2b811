"""What does `hooklane reconcile` print? Each key with what is in between, and a command to paste into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hooklane.cli.options import tenant_headers
from hooklane.cli.output import one_line, plain
from hooklane.cli.reconcile_sides import is_server
from hooklane.core.reconcile import Act, Between, KeyFacts, Mend, between, mend
from hooklane.model.database_url import shown
from hooklane.model.size import counted

SHOWN_MAX = 200
NAMES_MAX = 50


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
                return f"hooklane events replay {names} --endpoint {shlex.quote(self.endpoint_id)} --yes {self._sender}"
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
        urls = {self.sender: "HOOKLANE_DB", self.receiver: "HOOKLANE_STORE"}
        names = {url: "HOOKLANE_SERVER" if is_server(url) else name for url, name in urls.items()}
        return [
            f"{name} in these commands stands for {shown(url)}, which holds a password"
            for url, name in names.items()
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


def shown_key(facts: KeyFacts, commands: Commands) -> dict[str, Any]:
    """A key as JSON shows it."""
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


def lines_of(value: dict[str, Any], commands: Commands) -> list[str]:
    """The report *value* as lines for a person."""
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
