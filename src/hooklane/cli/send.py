"""`hooklane send`: publish one event, and wait for it if asked; or post copies of one, as a faulty network would."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hooklane.cli import output
from hooklane.cli.client import Caller, calling, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Db, Server
from hooklane.cli.output import plain, say, say_json, show, sign
from hooklane.cli.plans import rate_of

POLL_S = 0.05
TIMEOUT_S_MAX = 3_600
TIMES_MAX = 10_000
_SETTLED = ("delivered", "dead", "skipped", "cancelled")


def send(
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="Such as order.created.")],
    data: Annotated[str, typer.Argument(metavar="[DATA|@FILE|-]", help="JSON, a file of it, or - for stdin.")] = "{}",
    key: Annotated[str | None, typer.Option(help="Events of one key arrive in order.")] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="ENDPOINT|URL", help="Only to this endpoint; a receiver's URL when copies are posted."),
    ] = None,
    event_id: Annotated[str | None, typer.Option("--id", help="An id of your own.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="Repeating it makes no second event.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is delivered or dead.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout", help="How long to wait.")] = 30.0,
    times: Annotated[
        int | None,
        typer.Option("--times", min=1, max=TIMES_MAX, help="Post so many signed copies straight to the URL of --to."),
    ] = None,
    reorder: Annotated[
        bool, typer.Option("--reorder", help="Copies: the last attempt arrives first. Two copies unless --times.")
    ] = False,
    drop_ack: Annotated[
        bool,
        typer.Option("--drop-ack", help="Copies: all answers but the last get lost. Two copies unless --times."),
    ] = False,
    rate: Annotated[str | None, typer.Option("--rate", metavar="N/s", help="Copies: at most so many a second.")] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option("--secret", help="Copies: what signs them (whsec_… or whsk_…); HOOKLANE_SECRET by default."),
    ] = None,
    seq: Annotated[
        int | None,
        typer.Option("--seq", min=1, help="Copies: the place in the key's line; no server counts it. 1 by default."),
    ] = None,
    server: Server = None,
    db: Db = None,
) -> None:
    """Publish an event, or post copies of one to a receiver.

    With --reorder, --drop-ack, or --times and a URL in --to, nothing is published: copies of one event are posted
    straight to a receiver, correctly signed, as a faulty network would. That shows what the receiver makes of each.
    With --times alone one event is published and then sent again by the server, under the same id and seq.
    """
    if not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise CallFailed(f"--timeout must be more than 0 and at most {TIMEOUT_S_MAX} seconds", Exit.USAGE)
    if reorder or drop_ack or (times is not None and any(_is_url(one) for one in to or ())):
        published = {"--idempotency-key": idempotency_key, "--server": server, "--db": db}
        _refuse("is for publishing, and copies are not published", published)
        if to is None or len(to) != 1:
            raise CallFailed("copies go straight to one receiver: give its URL with --to", Exit.USAGE)
        if times == 1 and (reorder or drop_ack):
            raise CallFailed("--reorder and --drop-ack need at least two copies: --times 2", Exit.USAGE)
        if seq is not None and key is None:
            raise CallFailed("--seq is a place in the line of a key: give --key too", Exit.USAGE)
        pace = rate_of(rate)
        from hooklane.cli.copies import CopySender, copies, post_and_tell
        from hooklane.cli.secret import secrets_of
        from hooklane.model.clock import wall_now
        from hooklane.sender.draft import draft_of

        event = draft_of(type_, _data(data), now=wall_now(), key=key, event_id=event_id).event
        sender = CopySender(event, None if key is None else seq or 1, to[0], secrets_of(secret), timeout_s)
        wanted = copies(times or 2, reorder=reorder, drop_ack=drop_ack)
        post_and_tell(sender, wanted, rate=pace)
        return
    _refuse("is for copies: use it with --times and a receiver's URL in --to", {"--secret": secret, "--seq": seq})
    if times is None:
        _refuse("is for copies: use it with --times", {"--rate": rate})
    if any(_is_url(one) for one in to or ()):
        raise CallFailed("--to names an endpoint; only with --times is it a receiver's URL", Exit.USAGE)
    import msgspec

    body: dict[str, Any] = {"type": type_, "data": msgspec.Raw(_data(data))}
    if key is not None:
        body["key"] = key
    if event_id is not None:
        body["id"] = event_id
    with calling(server, db) as caller:
        if to:
            body["endpoints"] = [caller.endpoint_id(one) for one in to]
        headers = {"idempotency-key": idempotency_key} if idempotency_key is not None else None
        made = caller.post("/api/v1/events", body, headers=headers)
        if not wait and times is None:
            show(made, lambda: [_line(made)])
            return
        _follow(caller, made, times or 1, rate_of(rate), timeout_s)


def _is_url(text: str) -> bool:
    """Whether `--to` says a receiver's address, and not the name of an endpoint."""
    return "/" in text or ":" in text


def _follow(caller: Caller, made: dict[str, Any], times: int, rate: float | None, timeout_s: float) -> None:
    """Wait for the event, and have it sent again until it was sent *times* times; then say what came of it all."""
    seen: set[str] = set()
    event = _settled(caller, made["id"], timeout_s)
    attempts = _new_attempts(caller, made["id"], seen)
    _print(attempts)
    if not event["deliveries"] and not output.as_json:
        say(_line(made))
    again = 1
    while again < times and event["deliveries"] and _undone(event) == []:
        if rate is not None:
            time.sleep(1 / rate)
        plan = caller.post("/api/v1/plans", {"op": "replay", "ids": [made["id"]]})
        job = caller.post(f"/api/v1/plans/{segment(plan['id'])}/run", {"digest": plan["digest"]})
        deadline = time.monotonic() + timeout_s
        while job["state"] == "running" and time.monotonic() < deadline:
            time.sleep(POLL_S)
            job = caller.get(f"/api/v1/jobs/{segment(job['id'])}")
        newer = _new_attempts(caller, made["id"], seen)
        _print(newer)
        attempts += newer
        again += 1
        if job["counts"]["delivered"] != job["members"]:
            raise CallFailed("the event was delivered, and could not be delivered again", Exit.PARTLY)
    if output.as_json:
        say_json({**event, "attempts": attempts})
    if undone := _undone(event):
        states = [one["state"] for one in event["deliveries"]]
        are = "is" if len(undone) == 1 else "are"
        many = "the delivery" if len(states) == 1 else f"{len(undone)} of {len(states)} deliveries"
        raise CallFailed(
            f"{many} {are} {', '.join(sorted(set(undone)))}",
            Exit.FAILED if len(undone) == len(states) else Exit.PARTLY,
        )


def _undone(event: Mapping[str, Any]) -> list[str]:
    return [one["state"] for one in event["deliveries"] if one["state"] != "delivered"]


def _new_attempts(caller: Caller, event_id: str, seen: set[str]) -> list[dict[str, Any]]:
    found = caller.get(f"/api/v1/events/{segment(event_id)}/attempts")["items"]
    new = [one for one in found if one["id"] not in seen]
    seen |= {one["id"] for one in new}
    return new


def _print(attempts: list[dict[str, Any]]) -> None:
    if not output.as_json:
        for one in attempts:
            say(attempt_line(one))


def attempt_line(one: Mapping[str, Any]) -> str:
    """Such as `evt_01K9…  order:1 #4   ✓ 200 applied        11 ms`."""
    place = f"{plain(one['key'])} #{one['seq']}" if one["seq"] is not None else "no order"
    said = one["said"] or one["outcome"]
    took = "" if one["took_ms"] is None else f"{one['took_ms']:.0f} ms"
    reason = "   (suppressed by the receiver)" if said == "duplicate" else ""
    told = f"{sign(one['outcome'])} {one['status'] or one['failure']} {plain(said)}"
    return f"{one['event']}  {place}   {told:<18} {took:>8}{reason}"


def _refuse(why: str, given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value is not None:
            raise CallFailed(f"{name} {why}", Exit.USAGE)


def _settled(caller: Caller, event_id: str, timeout_s: float) -> dict[str, Any]:
    """The event when all of its deliveries have ended, or as it stands when the time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        event: dict[str, Any] = caller.get(f"/api/v1/events/{segment(event_id)}")
        if all(one["state"] in _SETTLED for one in event["deliveries"]) or time.monotonic() > deadline:
            return event
        time.sleep(POLL_S)


def _data(text: str) -> bytes:
    if text == "-" or text.startswith("@"):
        try:
            return sys.stdin.buffer.read() if text == "-" else Path(text[1:]).read_bytes()
        except OSError as error:
            raise CallFailed(f"cannot read {text[1:] or 'stdin'}: {error.strerror}", Exit.USAGE) from None
    return text.encode("utf-8", "surrogateescape")


def _line(made: dict[str, Any]) -> str:
    places = ", ".join(f"#{lane['seq']}" if lane["seq"] is not None else "no order" for lane in made["lanes"])
    return f"{made['id']}  {plain(made['key'])}  {places or 'no endpoint matches'}"
