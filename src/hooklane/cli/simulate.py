"""`hooklane simulate`: a scenario of the playground from a terminal; what naive receivers make of it, and ours."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.output import plain, say, show, table, talk
from hooklane.cli.secret import secrets_of
from hooklane.config import load
from hooklane.errors import needing
from hooklane.model.size import counted

if TYPE_CHECKING:
    from hooklane.testing.play.aim import Aimed
    from hooklane.testing.play.trace import Play, Trace

EVENTS = 200
LOOPBACK = ("127.0.0.0/8", "::1/128")


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO|-]", help="A name, or - for JSON from stdin; none lists them.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="The same seed tells the same story.")] = None,
    events: Annotated[
        int | None, typer.Option("--events", min=0, help=f"{EVENTS} by default, which is the most; 0: its own story.")
    ] = None,
    keys: Annotated[int | None, typer.Option("--keys", help="On so many keys.")] = None,
    rate: Annotated[int | None, typer.Option("--rate", help="So many are published a second.")] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="NAME=VALUE",
            help="Instead of its own: drop-request, drop-ack, duplicate, delay-ms, reorder-ms; crash (of the consumer)"
            " and worker-crash (of the sender), each with where: crash-at=before-work, before-commit or before-answer,"
            " worker-crash-at=before-send, before-answer, before-commit or after-commit. Chances are 0 to 1.",
        ),
    ] = None,
    receiver: Annotated[
        str | None,
        typer.Option("--receiver", metavar="NAME,…", help="Some of naive, check-then-mark, delivered-at, ours."),
    ] = None,
    store: Annotated[
        str, typer.Option("--store", help="Where our own receiver keeps its inbox: memory or sqlite.")
    ] = "memory",
    target: Annotated[
        str | None,
        typer.Option("--target", metavar="URL", help="Send its signed copies to this receiver, on this machine."),
    ] = None,
    secret: Annotated[
        list[str] | None, typer.Option("--secret", help="With --target: what signs them; HOOKLANE_SECRET by default.")
    ] = None,
    expect_clean: Annotated[
        bool, typer.Option("--assert", help="End with code 7 unless every receiver applied each event once, in order.")
    ] = False,
    export_to: Annotated[
        str | None, typer.Option("--export-test", metavar="FILE|-", help="Write it as a pytest test for your handler.")
    ] = None,
) -> None:
    """Play a scenario: the real sender in a simulated network, and receivers side by side."""
    if scenario is None:
        _list()
        return
    if store not in ("memory", "sqlite"):
        raise CallFailed(f"--store is memory or sqlite, got {store!r}", Exit.USAGE)
    if target is None and secret:
        raise CallFailed("--secret signs what is sent to a receiver: give its URL with --target", Exit.USAGE)
    asked = _asked(scenario, fault or [], receiver, seed=seed, events=events, keys=keys, rate=rate)
    trace = _played(asked, "sqlite" if store == "sqlite" else "memory")
    if export_to is not None:
        _export(trace, asked, export_to)
    if target is not None:
        _aim(trace, target, secrets_of(secret), expect_clean=expect_clean)
        return
    if export_to != "-":
        value = msgspec.to_builtins(trace)
        show(value, lambda: _meters(trace))
    if expect_clean:
        _assert_clean(trace)


def _list() -> None:
    from hooklane.cli.playground import scenarios

    value = msgspec.to_builtins(scenarios())
    rows = [[one["name"], one["title"], one["about"]] for one in value["scenarios"]]
    show(value, lambda: table(["SCENARIO", "TITLE", "ABOUT"], rows))


def _asked(scenario: str, faults: list[str], receiver: str | None, **numbers: int | None) -> Play:
    from hooklane.testing.play.trace import Play

    given: dict[str, Any] = {"scenario": scenario, "events": EVENTS}
    if scenario == "-":
        try:
            read = msgspec.json.decode(sys.stdin.buffer.read())
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CallFailed(f"stdin is not JSON: {error}", Exit.USAGE) from None
        if not isinstance(read, dict):
            raise CallFailed('stdin must hold an object such as {"scenario": "lost-ack", "seed": 7}', Exit.USAGE)
        given = read
    given |= {name: value for name, value in numbers.items() if value is not None}
    given["events"] = given.get("events") or None  # 0 is its own story
    if faults:
        given["faults"] = dict(map(_fault, faults))
    if receiver is not None:
        given["receivers"] = [one.strip().replace("-", "_") for one in receiver.split(",")]
    try:
        return msgspec.convert(given, Play)
    except msgspec.ValidationError as error:
        raise CallFailed(str(error).replace("`", ""), Exit.USAGE) from None


def _fault(text: str) -> tuple[str, str | float]:
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if name.endswith("_at"):
        return name, value.strip().replace("-", "_")
    try:
        number = float(value)
    except ValueError:
        equals = ""
    if not equals:
        raise CallFailed(f"--fault is a name and a number such as drop-ack=0.1, got {text!r}", Exit.USAGE)
    return name, int(number) if name.endswith("_ms") and number.is_integer() else number


def _played(asked: Play, store: Literal["memory", "sqlite"]) -> Trace:
    from hooklane.testing.play.run import play
    from hooklane.testing.play.scenarios import BY_NAME

    if asked.scenario not in BY_NAME:
        known = ", ".join(BY_NAME)
        raise CallFailed(f"there is no scenario {plain(asked.scenario[:40])!r}; there are: {known}", Exit.NOT_FOUND)
    return play(asked, store=store, took_s_max=60.0)


def _meters(trace: Trace) -> list[str]:
    rows = [
        [name.replace("_", "-"), one.sent, one.once, one.twice, one.lost, one.out_of_order, one.stale]
        for name, one in trace.meters.items()
    ]
    lines = table(["", "sent", "once", "twice", "lost", "out of order", "stale"], rows)
    left = trace.ledger.dead + trace.ledger.waiting
    if left:
        dead = counted(trace.ledger.dead, "dead letter")
        lines.append(f"The sender keeps {counted(left, 'event')}: {dead}, {trace.ledger.waiting} waiting behind.")
    return [*lines, f"seed {trace.seed}, trace {trace.trace_hash}, {trace.end_ms / 1000:.1f} s simulated"]


def _assert_clean(trace: Trace) -> None:
    wrong = [
        f"{name.replace('_', '-')}: {one.twice} twice, {one.lost} lost, {one.out_of_order} out of order,"
        f" {one.stale} stale"
        for name, one in trace.meters.items()
        if one.twice or one.lost or one.out_of_order or one.stale
    ]
    if wrong:
        raise CallFailed("; ".join(wrong), Exit.UNHEALTHY)


def _export(trace: Trace, asked: Play, where: str) -> None:
    from hooklane.cli.playground import options
    from hooklane.testing.play.export_test import export_test

    text = export_test(trace, more=options(asked))
    if where == "-":
        say(text.rstrip("\n"))
        return
    try:
        Path(where).write_text(text, "utf-8")
    except OSError as error:
        raise CallFailed(f"cannot write {where}: {error.strerror}") from None
    talk(f"wrote {where}; its first lines say which fixture names your receiver")


def _aim(trace: Trace, url: str, secrets: list[str], *, expect_clean: bool) -> None:
    with needing("server"):
        from hooklane.testing.play.aim import aim
    settings, _ = load({}, os.environ)
    aimed = asyncio.run(aim(trace, url, secrets, (*LOOPBACK, *settings.egress_allow)))
    show(msgspec.to_builtins(aimed), lambda: _copies(aimed))
    if aimed.accepted < aimed.events and expect_clean:
        raise CallFailed(f"{aimed.events - aimed.accepted} of {aimed.events} events were not accepted", Exit.UNHEALTHY)
    if aimed.applied_twice and expect_clean:
        raise CallFailed(f"{counted(aimed.applied_twice, 'event')} applied twice", Exit.UNHEALTHY)


def _copies(aimed: Aimed) -> list[str]:
    rows = [
        [f"{one.key}:{one.seq}", one.try_, one.status or one.failure, one.said, "lost" if one.ack_lost else "heard"]
        for one in aimed.copies
    ]
    total = (
        f"{counted(len(aimed.copies), 'copy', 'copies')} of {counted(aimed.events, 'event')}: {aimed.accepted} accepted"
    )
    if aimed.applied_twice is not None:
        total += f", {aimed.applied_twice} applied twice"
    return [*table(["EVENT", "TRY", "ANSWER", "SAID", "BY THE SENDER"], rows), total]
