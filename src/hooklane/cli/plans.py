"""How does a bulk command act? Plan, show, confirm, run, and watch the job to its end."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from hooklane.cli import output
from hooklane.cli.client import Caller, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import asked_for
from hooklane.cli.output import (
    Level,
    aside,
    is_interactive,
    must_be_interactive,
    plain,
    say,
    say_json,
    show,
    sign,
    talk,
)
from hooklane.model.size import counted

POLL_S = 0.2
QUIET_S = 60.0
SEEN_S = 10.0
"""How long a skip waits to see what it released arrive."""

Rate = Annotated[str | None, typer.Option("--rate", metavar="N/s", help="At most so many a second.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Only show what would be done.")]

WORDS = ("endpoint", "key", "type", "state", "reason", "http", "after", "before")
UNKNOWN = "there is no such event or dead letter"
_UNDONE = ("failed", "held", "refused", "cancelled")
UNDONE_SHOWN = 10
_DONE = {"replay": "replayed", "skip": "skipped"}
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(?:/s)?\Z")


def asked(
    caller: Caller,
    ids: list[str] | None,
    text: str | None,
    all_: bool,
    endpoint: str | None,
    *,
    state: str = "dead",
) -> dict[str, Any]:
    """The body of a plan: by ids, or by a filter such as `endpoint:shop http:5xx after:-2h`.

    *endpoint* narrows both: an event by its id has a delivery at each endpoint that takes it.
    """
    if sum((bool(ids), text is not None, all_)) != 1 and not (endpoint and not ids):
        raise CallFailed("name the events by id, or choose them with --filter or --all", Exit.USAGE)
    wanted = asked_for(text, WORDS, endpoint=endpoint)
    wanted = {word: value for word, value in wanted.items() if value is not None}
    if "endpoint" in wanted:
        wanted["endpoint"] = caller.endpoint_id(wanted["endpoint"])
    return {"ids": ids, **wanted} if ids else {"filter": {"state": state, **wanted}}


def plan_and_run(
    caller: Caller,
    op: str,
    wanted: dict[str, Any],
    *,
    note: str | None,
    rate: str | None,
    plan_only: bool,
    yes: bool,
) -> None:
    """Ends with 0 when all went well, 4 when the plan did not hold, 6 when only some went well."""
    pace = rate_of(rate)
    plan = caller.post("/api/v1/plans", {"op": op, **wanted})
    lines = plan_lines(plan)
    if plan_only:
        show(plan, lambda: lines)
        return
    if op == "skip" or plan["refused"] or plan["warnings"]:
        for line in lines:
            aside(line)
    if plan["counts"]["members"] == 0:
        _nothing(plan)
        return
    if note is None:
        if not is_interactive():
            raise CallFailed("a skip needs a reason: give it with --note", Exit.USAGE)
        note = typer.prompt("Note", err=True)
    if not yes:
        confirm(plan)
    body = {"note": note, "rate": pace, "digest": plan["digest"]}
    what = f"{'Replaying' if op == 'replay' else 'Skipping'} {_size(plan)}"
    job = watch(caller, caller.post(f"/api/v1/plans/{segment(plan['id'])}/run", body), what)
    tell(caller, plan, job)


def _nothing(plan: dict[str, Any]) -> None:
    """No event of a plan can be acted on: which code that is depends on why."""
    op = plan["op"]
    if not plan["counts"]["refused"]:
        talk(f"nothing matches, so there is nothing to {op}")
        return
    first = plan["refused"][0]
    exit_ = Exit.NOT_FOUND if all(one["why"] == UNKNOWN for one in plan["refused"]) else Exit.REFUSED
    raise CallFailed(f"none of them can be {_DONE[op]}, for instance {first['id']}: {first['why']}", exit_)


def _size(plan: dict[str, Any]) -> str:
    return f"{counted(plan['counts']['members'], 'event')} on {counted(plan['counts']['keys'], 'key')}"


def plan_lines(plan: dict[str, Any]) -> list[str]:
    counts = plan["counts"]
    lines = [f"Plan {plan['id']}: {plan['op']} {_size(plan)} (expires in 5 min)"]
    for one in plan["releases"]:
        released = "  ".join(f"#{each['seq']} {plain(each['type'])}" for each in one["released"])
        more = f"  and {one['more']} more" if one["more"] else ""
        to = f"  → {plain(one['url'])}" if released and one["url"] else ""
        type_ = f" {plain(one['skipped']['type'])}" if one["skipped"] else ""
        lines.append(f"  skip     {plain(one['key'])} #{one['skips']}{type_}   never delivered")
        lines.append(f"  release  {released or 'nothing waits behind it'}{more}{to}")
        lines.append(f"  consumer sees {one['sees']}")
    lines += [f"  refused  {plain(one['id'])}: {plain(one['why'])}" for one in plan["refused"][:20]]
    if counts["refused"] > 20:
        lines.append(f"  … {counts['refused']} refused in all")
    return lines + [f"  ! {plain(one)}" for one in plan["warnings"]]


def confirm(plan: dict[str, Any]) -> None:
    """A skip of one key is confirmed by typing the key; many by typing how many."""
    must_be_interactive()
    members = plan["counts"]["members"]
    if plan["op"] == "skip":
        word = plain(plan["by_key"][0]["key"]) if members == 1 else str(members)
        if typer.prompt(f"Type {word} to confirm", err=True) != word:
            raise CallFailed("not confirmed, so nothing was done", Exit.REFUSED)
    else:
        typer.confirm(f"Replay {_size(plan)}?", abort=True, err=True)


def watch(caller: Caller, job: dict[str, Any], what: str) -> dict[str, Any]:
    """Follow a job to its end. One that does not move waits for a server with the deliver role."""
    moved_at, before = time.monotonic(), None
    with progress(what, job["members"]) as advance:
        while job["state"] == "running":
            if job["counts"] != before:
                moved_at, before = time.monotonic(), job["counts"]
                advance(job["settled"])
            elif time.monotonic() - moved_at > QUIET_S:
                done = f"{job['settled']} of {counted(job['members'], 'event')}"
                talk(f"{job['id']} has settled {done} and goes on in the server; this command waits no longer")
                return job
            time.sleep(POLL_S)
            job = caller.get(f"/api/v1/jobs/{segment(job['id'])}")
        advance(job["settled"])
    return job


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr for long work; without a terminal one line that says what is done, and none with -q."""
    if output.level is Level.QUIET:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        aside(what)
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def tell(caller: Caller, plan: dict[str, Any], job: dict[str, Any]) -> None:
    """What came of it; the exit code says whether all, some or none went well."""
    counts = {word: many for word, many in job["counts"].items() if many}
    if output.as_json:
        say_json(job)
    elif job["op"] == "skip":
        say(_skipped(caller, plan, job, counts))
    else:
        say(_replayed(counts))
    bad = sum(counts.get(word, 0) for word in _UNDONE)
    if bad or job["state"] == "running":
        undone = f"{bad} of {counted(job['members'], 'event')} could not be {_DONE[job['op']]}"
        if bad and not output.as_json:
            _tell_undone(caller, job)
        message = f"{undone} (all of them: GET /api/v1/jobs/{job['id']}/members)" if bad else "the job is still running"
        raise CallFailed(message, Exit.FAILED if bad == job["members"] else Exit.PARTLY)


def _tell_undone(caller: Caller, job: dict[str, Any]) -> None:
    """The first of those that did not go well, and why."""
    query = {"progress": ",".join(_UNDONE), "limit": UNDONE_SHOWN}
    for one in caller.get(f"/api/v1/jobs/{segment(job['id'])}/members", query)["items"]:
        place = "no order" if one["seq"] is None else f"{plain(one['key'])} #{one['seq']}"
        why = f": {plain(one['result'])}" if one["result"] else ""
        aside(f"  {sign('failed', sys.stderr)} {place} {plain(one['type'])}  {one['progress']}{why}")


def _replayed(counts: dict[str, int]) -> str:
    """Such as `✓ 409 delivered   ✕ 3 failed again (3 keys stay blocked)`."""
    words = {"failed": "failed again", "published": "published again", "held": "held behind one that failed"}
    parts = []
    for word, many in counts.items():
        mark = sign("delivered" if word in ("delivered", "published") else "failed")
        stay = f" ({counted(many, 'key')} {'stays' if many == 1 else 'stay'} blocked)" if word == "failed" else ""
        parts.append(f"{mark} {many} {words.get(word, word)}{stay}")
    return "   ".join(parts) or "nothing was done"


def _skipped(caller: Caller, plan: dict[str, Any], job: dict[str, Any], counts: dict[str, int]) -> str:
    """Such as `✓ skipped 1, released 3, delivered 3   (audit 8812)`."""
    events = [each["event"] for one in plan["releases"] for each in one["released"]]
    places = {one["endpoint"] for one in plan["releases"]}
    done = [f"skipped {counts.get('skipped', 0)}", f"released {sum(_released(one) for one in plan['releases'])}"]
    if events:
        done.append(f"delivered {_delivered(caller, events, places)}")
    if counts.get("refused"):
        done.append(f"refused {counts['refused']}")
    return f"{sign('delivered')} {', '.join(done)}{_on_record(caller, job)}"


def _released(one: dict[str, Any]) -> int:
    return len(one["released"]) + int(one["more"])


def _delivered(caller: Caller, events: list[str], places: set[str]) -> int:
    """How many of *events* have arrived, after a moment in which they can."""
    deadline = time.monotonic() + SEEN_S
    while True:
        states = [
            delivery["state"]
            for event in events[:20]
            for delivery in caller.get(f"/api/v1/events/{segment(event)}")["deliveries"]
            if delivery["endpoint"] in places
        ]
        if not any(state in ("queued", "in_flight") for state in states) or time.monotonic() > deadline:
            return states.count("delivered")
        time.sleep(POLL_S)


def _on_record(caller: Caller, job: dict[str, Any]) -> str:
    lines = caller.get("/api/v1/audit", {"limit": 20})["items"]
    found = [one["n"] for one in lines if one["subject"] == job["id"]]
    return f"   (audit {found[-1]})" if found else ""


def rate_of(text: str | None) -> float | None:
    if text is None:
        return None
    found = _RATE.match(text.strip())
    if found is None or float(found[1]) <= 0:
        raise CallFailed(f"--rate is a number of events a second such as 20/s, got {text!r}", Exit.USAGE)
    return float(found[1])
