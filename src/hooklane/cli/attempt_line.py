"""One attempt on one line: the same in `dev`, `tail` and `listen`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hooklane.cli.output import plain, sign
from hooklane.cli.times import clock_of, wait_of
from hooklane.model.size import counted


def attempt_line(one: Mapping[str, Any], endpoint: str | None = None) -> str:
    """Such as `14:02:12  ↻ order.updated   order:1 #2   503    4 ms   try 1/35, next in 1.1 s`."""
    result = one["status"] or one["failure"] or "no answer"
    took = "?" if one["took_ms"] is None else f"{one['took_ms']:.0f}"
    return f"{start_of(one, sign(one['outcome']), endpoint)} {result!s:<8} {took:>5} ms   {_after(one)}".rstrip()


def waiting_line(one: Mapping[str, Any], head: int, endpoint: str | None = None) -> str:
    """Such as `14:02:13  ▨ order.paid      order:1 #3   waits for #2`; *one* has the fields that an attempt has."""
    return f"{start_of(one, sign('waits'), endpoint)} waits for #{head}"


def start_of(one: Mapping[str, Any], mark: str, endpoint: str | None = None) -> str:
    """Time, sign, type, place, and the endpoint where there is more than one: how every such line begins."""
    where = "" if endpoint is None else f" {plain(endpoint):<12}"
    place = f"{plain(one['key'])} #{one['seq']}" if one["seq"] is not None else "no order"
    return f"{clock_of(one['started_at'])}  {mark} {plain(one['type']):<18} {place:<16}{where}"


def _after(one: Mapping[str, Any]) -> str:
    match one["outcome"]:
        case "delivered":
            return plain(one["said"]) if one["said"] else ""
        case "dead":
            return f"dead after {counted(one['attempt'], 'try', 'tries')}"
        case _:
            # After a 410 it is tried again only when the endpoint is resumed.
            due = "held: the endpoint is disabled"
            if one["next_at"]:
                due = f"next in {wait_of(one['started_at'], one['took_ms'] or 0.0, one['next_at'])}"
            bound = f"/{one['attempts_max']}" if one["attempts_max"] else ""
            return f"try {one['attempt']}{bound}, {due}"
