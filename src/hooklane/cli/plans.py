"""How does a bulk command act? Plan, show, confirm, run, and watch the job to its end."""

from __future__ import annotations

import re
import sys
import time
from typing import Annotated, Any

import typer

from hooklane.cli.client import Caller, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.output import counted, is_interactive, json_line, must_be_interactive, plain, say, talk

POLL_S = 0.2
QUIET_S = 60.0

Filter = Annotated[
    str | None,
    typer.Option(
        "--filter", metavar="'WORD:VALUE …'", help="endpoint: key: type: state: reason: http:5xx after:-2h before:"
    ),
]
Rate = Annotated[str | None, typer.Option("--rate", metavar="N/s", help="At most so many a second.")]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Only show what would be done.")]

_WORDS = ("endpoint", "key", "type", "state", "reason", "http", "after", "before")
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
    """The body of a plan: by ids, or by a filter such as `endpoint:shop http:5xx after:-2h`."""
    if sum((bool(ids), text is not None, all_)) != 1 and not (endpoint and not ids):
        raise CallFailed("name the events by id, or choose them with --filter or --all", Exit.USAGE)
    if ids:
        return {"ids": ids}
    wanted: dict[str, Any] = {"state": state}
    for part in (text or "").split():
        word, colon, value = part.partition(":")
        if not colon or word not in _WORDS or not value:
            raise CallFailed(f"--filter knows {', '.join(f'{one}:' for one in _WORDS)}; got {part!r}", Exit.USAGE)
        wanted[word] = value
    if endpoint is not None:
        wanted["endpoint"] = endpoint
    if "endpoint" in wanted:
        wanted["endpoint"] = caller.endpoint_id(wanted["endpoint"])
    return {"filter": wanted}


def plan_and_run(
    caller: Caller,
    op: str,
    wanted: dict[str, Any],
    *,
    note: str | None,
    rate: str | None,
    plan_only: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Ends with 0 when all went well, 4 when the plan did not hold, 6 when only some went well."""
    pace = rate_of(rate)
    plan = caller.post("/api/v1/plans", {"op": op, **wanted})
    if plan_only:
        if as_json:
            sys.stdout.write(json_line({"v": 1, **plan}))
        else:
            for line in plan_lines(plan):
                say(line)
        return
    if not as_json:
        for line in plan_lines(plan):
            talk(line)
    if plan["counts"]["members"] == 0:
        if plan["counts"]["refused"]:
            why = f"{plan['refused'][0]['id']}: {plan['refused'][0]['why']}"
            raise CallFailed(f"none of them can be {_DONE[op]}, for instance {why}", Exit.REFUSED)
        talk(f"nothing matches, so there is nothing to {op}")
        return
    if note is None:
        if not is_interactive():
            raise CallFailed("a skip needs a reason: give it with --note", Exit.USAGE)
        note = typer.prompt("Note", err=True)
    if not yes:
        confirm(plan)
    body = {"note": note, "rate": pace, "digest": plan["digest"]}
    job = watch(caller, caller.post(f"/api/v1/plans/{segment(plan['id'])}/run", body), as_json)
    tell(job, as_json)


def plan_lines(plan: dict[str, Any]) -> list[str]:
    counts = plan["counts"]
    lines = [
        f"Plan {plan['id']}: {plan['op']} {counted(counts['members'], 'event')} on {counted(counts['keys'], 'key')}"
    ]
    for one in plan["releases"]:
        released = "  ".join(f"#{each['seq']} {plain(each['type'])}" for each in one["released"])
        more = f"  and {one['more']} more" if one["more"] else ""
        lines.append(f"  skip     {plain(one['key'])} #{one['skips']}   never delivered")
        lines.append(f"  release  {released or 'nothing waits behind it'}{more}")
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
        typer.confirm(f"Replay {counted(members, 'event')}?", abort=True, err=True)


def watch(caller: Caller, job: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """Follow a job to its end. One that does not move waits for a server with the deliver role."""
    moved_at, before = time.monotonic(), None
    while job["state"] == "running":
        if job["counts"] != before:
            moved_at, before = time.monotonic(), job["counts"]
            if is_interactive() and not as_json:
                sys.stderr.write(f"\r{job['settled']}/{job['members']}")
                sys.stderr.flush()
        elif time.monotonic() - moved_at > QUIET_S:
            done = f"{job['settled']} of {counted(job['members'], 'event')}"
            talk(f"{job['id']} has settled {done} and goes on in the server; this command waits no longer")
            return job
        time.sleep(POLL_S)
        job = caller.get(f"/api/v1/jobs/{segment(job['id'])}")
    if is_interactive() and not as_json:
        sys.stderr.write("\r")
    return job


def tell(job: dict[str, Any], as_json: bool) -> None:
    counts = {word: many for word, many in job["counts"].items() if many}
    if as_json:
        sys.stdout.write(json_line({"v": 1, **job}))
    else:
        say(f"{job['id']}  {job['state']}  " + "  ".join(f"{many} {word}" for word, many in counts.items()))
    bad = sum(counts.get(word, 0) for word in ("failed", "held", "refused", "cancelled"))
    if bad or job["state"] == "running":
        undone = f"{bad} of {counted(job['members'], 'event')} could not be {_DONE[job['op']]}"
        message = f"{undone}: GET /api/v1/jobs/{job['id']}/members tells why" if bad else "the job is still running"
        raise CallFailed(message, Exit.FAILED if bad == job["members"] else Exit.PARTLY)


def rate_of(text: str | None) -> float | None:
    if text is None:
        return None
    found = _RATE.match(text.strip())
    if found is None or float(found[1]) <= 0:
        raise CallFailed(f"--rate is a number of events a second such as 20/s, got {text!r}", Exit.USAGE)
    return float(found[1])
