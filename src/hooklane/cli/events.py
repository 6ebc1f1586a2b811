"""`hooklane events …`: what was published, and why it waits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hooklane.cli import complete, output, plans
from hooklane.cli.asking import asking
from hooklane.cli.client import Caller, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import Filter, asked_for, rfc3339_of
from hooklane.cli.options import Cursor, EndpointFilter, EventId, KeyFilter, Limit, Yes
from hooklane.cli.output import aside, one_line, pairs, plain, say_json, show, table, talk
from hooklane.cli.plans import PlanOnly, Rate
from hooklane.cli.times import clock_of
from hooklane.model.size import counted

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/events"
WORDS = ("q", "id", "type", "key", "endpoint", "state", "seq", "attempts_min", "http", "reason", "after", "before")
PAGE = 50

Type = Annotated[str | None, typer.Option("--type", help="Exact type; `*` stands for anything.")]
State = Annotated[str | None, typer.Option("--state", help="queued, retrying, delivered, dead, skipped or cancelled.")]
After = Annotated[str | None, typer.Option("--after", metavar="TIME", help="Published at or after it (or -2h).")]
Before = Annotated[str | None, typer.Option("--before", metavar="TIME", help="Published before it (or -2h).")]


def _query(caller: Caller, filter_: str | None, **options: str | None) -> dict[str, Any]:
    """What the options and the filter ask for, together."""
    wanted = asked_for(filter_, WORDS, **options)
    if wanted["endpoint"] is not None:
        wanted["endpoint"] = caller.endpoint_id(wanted["endpoint"])
    return {**wanted, **{word: rfc3339_of(wanted[word], f"--{word}") for word in ("after", "before")}}


@asking(app, "ls")
def ls(
    caller: Caller,
    filter_: Filter = None,
    type_: Type = None,
    key: KeyFilter = None,
    endpoint: EndpointFilter = None,
    state: State = None,
    after: After = None,
    before: Before = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List events, newest first."""
    query = _query(caller, filter_, type=type_, key=key, endpoint=endpoint, state=state, after=after, before=before)
    page = caller.page(BASE, {**query, "limit": limit, "cursor": cursor})
    rows = [
        (one["id"], one["type"], one["key"], ",".join(each["state"] for each in one["deliveries"]), one["created_at"])
        for one in page["items"]
    ]
    show(page, lambda: table(("ID", "TYPE", "KEY", "STATE", "PUBLISHED"), rows))


@asking(app, "export")
def export(
    caller: Caller,
    filter_: Filter = None,
    type_: Type = None,
    key: KeyFilter = None,
    endpoint: EndpointFilter = None,
    state: State = None,
    after: After = None,
    before: Before = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after so many.")] = None,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where an earlier export stopped.")] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="FILE", help="Keep the place in this file, and go on from it next time."),
    ] = None,
) -> None:
    """Print events with their data and deliveries, newest first, one JSON object a line (NDJSON)."""
    if resume is not None:
        if cursor is not None:
            raise CallFailed("--cursor and --resume say the same thing: give one of them", Exit.USAGE)
        cursor = _place(resume)
    done, place = 0, cursor
    try:
        query = _query(caller, filter_, type=type_, key=key, endpoint=endpoint, state=state, after=after, before=before)
        while limit is None or done < limit:
            most = PAGE if limit is None else min(PAGE, limit - done)
            page = caller.get(BASE, {**query, "limit": most, "cursor": place, "data": "true"})
            for one in page["items"]:
                say_json(one)
            done, place = done + len(page["items"]), page["next"]
            if resume is not None:
                _keep_place(resume, place)
            if place is None:
                break
    except (KeyboardInterrupt, CallFailed):
        if place is not None:
            talk(f"stopped after {counted(done, 'event')}; go on with --cursor {place}")
        raise
    aside(f"exported {counted(done, 'event')}" + (f"; go on with --cursor {place}" if place else ""))


def _place(file: Path) -> str | None:
    """Where an earlier export stopped; None where there was none, or it came to its end."""
    try:
        return file.read_text("ascii").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no place of an export"
        raise CallFailed(f"--resume: cannot read {file}: {why}", Exit.USAGE) from None


def _keep_place(file: Path, place: str | None) -> None:
    new = file.with_name(f"{file.name}.new")
    try:
        # Beside it first: an export that is killed here, or whose disk is full, must not lose the place that it had.
        new.write_text(place or "", "ascii")
        new.replace(file)
    except OSError as error:
        raise CallFailed(f"--resume: cannot write {file}: {error.strerror}") from None


@asking(app, "show")
def show_one(caller: Caller, event: EventId) -> None:
    """Show one event, its deliveries and every try."""
    found = caller.get(f"{BASE}/{segment(event)}")
    tries = caller.get(f"{BASE}/{segment(event)}/attempts")["items"]
    head = {name: value for name, value in found.items() if name != "deliveries"}
    fields = ("endpoint", "seq", "state", "attempts", "reason")
    deliveries = [[one[name] for name in fields] for one in found["deliveries"]]
    rows = [
        (
            one["started_at"],
            one["endpoint"],
            one["attempt"],
            one["status"] or one["failure"],
            f"{one['took_ms']:.0f} ms",
            one["outcome"],
            _phases(one["detail"].get("timings") or {}),
        )
        for one in tries
    ]
    show(
        {**found, "attempts": tries},
        lambda: [
            *pairs(head),
            "",
            *table(("ENDPOINT", "SEQ", "STATE", "TRIES", "REASON"), deliveries),
            "",
            *table(("STARTED", "ENDPOINT", "TRY", "RESULT", "TOOK", "OUTCOME", "PHASES"), rows),
        ],
    )


def _phases(timings: Mapping[str, float | None]) -> str:
    """When each phase of a failed try was over, as far as it came."""
    names = {"dns_ms": "dns", "connect_ms": "connect", "tls_ms": "tls", "first_byte_ms": "first byte"}
    return ", ".join(f"{name} {at:.0f}" for field, name in names.items() if (at := timings.get(field)) is not None)


@asking(app, "why")
def why(caller: Caller, event: EventId) -> None:
    """Say why an event waits, and what would make it move."""
    told = caller.get(f"{BASE}/{segment(event)}/why")
    lines = [] if output.as_json else _why_lines(caller, event, told)
    show(told, lambda: lines)


def _why_lines(caller: Caller, event_id: str, told: Mapping[str, Any]) -> list[str]:
    """What waits behind a dead letter is told with the commands that end the wait; the rest in the API's sentence."""
    event = caller.get(f"{BASE}/{segment(event_id)}")
    lines = []
    for delivery in event["deliveries"]:
        is_open = delivery["state"] in ("queued", "retrying", "dead", "in_flight")
        if is_open and delivery["key"] is not None and delivery["seq"] is not None:
            lane = caller.get(f"/api/v1/lanes/{segment(delivery['endpoint'])}/{segment(delivery['key'])}")
            if lane["state"] == "blocked" and lane["dead_letter"]:
                lines += _blocked(event, delivery["seq"], lane)
    return lines or [plain(told["why"])]


def _blocked(event: Mapping[str, Any], seq: int, lane: Mapping[str, Any]) -> list[str]:
    reason = plain(lane["reason"])
    if lane["head_said"]:
        reason += f' "{one_line(lane["head_said"])}"'
    dead = f"dead since {clock_of(lane['since'])[:5]}, {reason}" if lane["since"] else f"dead, {reason}"
    first = (
        f"#{seq} {plain(event['type'])} is {dead}."
        if lane["head"] == seq
        else f"#{seq} {plain(event['type'])} waits for #{lane['head']} {plain(lane['head_type'])} ({dead})."
    )
    letter = lane["dead_letter"]
    return [
        first,
        f"Nothing moves on {plain(lane['key'])} until:  hooklane dlq replay {letter}   or   hooklane dlq skip {letter}",
    ]


@asking(app, "replay")
def replay(
    caller: Caller,
    events: Annotated[
        list[str] | None,
        typer.Argument(metavar="EVENT…", help="Ids of events, one or more.", autocompletion=complete.events),
    ] = None,
    filter_: Filter = None,
    endpoint: EndpointFilter = None,
    rate: Rate = None,
    plan: PlanOnly = False,
    yes: Yes = False,
) -> None:
    """Send events again that were delivered before: same id, seq and bytes, in order inside each key."""
    asked = plans.asked(caller, events, filter_, False, endpoint, state="delivered")
    plans.plan_and_run(caller, "replay", asked, note="", rate=rate, plan_only=plan, yes=yes)
