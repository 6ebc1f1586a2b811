"""`hooklane dlq …`: dead letters."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hooklane.cli import output, plans
from hooklane.cli.asking import asking
from hooklane.cli.client import Caller, segment
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import Filter, asked_for, rfc3339_of
from hooklane.cli.options import Cursor, EndpointFilter, LetterId, LetterIds, Limit, Yes
from hooklane.cli.output import complain, pairs_with_tracebacks, plain, say, say_json, show, table
from hooklane.cli.plans import PlanOnly, Rate
from hooklane.model.size import counted

app = typer.Typer(no_args_is_help=True)
BASE = "/api/v1/dead-letters"
WORDS = ("endpoint", "key", "type", "reason", "http", "after", "before")


@asking(app, "ls")
def ls(
    caller: Caller,
    filter_: Filter = None,
    endpoint: EndpointFilter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> None:
    """List dead letters."""
    query = _query(caller, filter_, endpoint)
    page = caller.page(BASE, {**query, "limit": limit, "cursor": cursor})
    rows = [
        (one["id"], one["key"], one["seq"], one["type"], one["attempts"], one["waiting"], one["died_at"], one["reason"])
        for one in page["items"]
    ]
    head = ("ID", "KEY", "SEQ", "TYPE", "TRIES", "WAITING", "DIED", "REASON")
    show(page, lambda: table(head, rows, right=("SEQ", "TRIES", "WAITING")))


@asking(app, "show")
def show_one(caller: Caller, letter: LetterId) -> None:
    """Show one dead letter with its data."""
    found = caller.get(f"{BASE}/{segment(letter)}")
    show(found, lambda: pairs_with_tracebacks(found))


@asking(app, "note")
def note(
    caller: Caller,
    letter: LetterId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to remember.")],
) -> None:
    """Write a note on a dead letter."""
    done = caller.ask("PATCH", f"{BASE}/{segment(letter)}", body={"note": text})
    show(done, lambda: [f"{done['id']}  {plain(done['note'])}"])


@asking(app, "replay")
def replay(
    caller: Caller,
    letters: LetterIds = None,
    filter_: Filter = None,
    all_: Annotated[bool, typer.Option("--all", help="All dead letters (of --endpoint).")] = False,
    endpoint: EndpointFilter = None,
    rate: Rate = None,
    plan: PlanOnly = False,
    yes: Yes = False,
) -> None:
    """Send dead letters again, under the same id and seq; many at once by a plan, in order inside each key."""
    if letters and not (filter_ or all_ or endpoint or plan or rate):
        _each(caller, letters, "replay", None)
        return
    asked = plans.asked(caller, letters, filter_, all_, endpoint)
    plans.plan_and_run(caller, "replay", asked, note="", rate=rate, plan_only=plan, yes=yes)


@asking(app, "skip")
def skip(
    caller: Caller,
    letters: LetterIds = None,
    filter_: Filter = None,
    note: Annotated[str | None, typer.Option("--note", help="Why; it goes on record.")] = None,
    endpoint: EndpointFilter = None,
    plan: PlanOnly = False,
    yes: Yes = False,
) -> None:
    """Give dead letters up for good, and release what waits behind them; shown first, done when confirmed."""
    asked = plans.asked(caller, letters, filter_, False, endpoint)
    plans.plan_and_run(caller, "skip", asked, note=note, rate=None, plan_only=plan, yes=yes)


@asking(app, "export")
def export(caller: Caller, filter_: Filter = None, endpoint: EndpointFilter = None) -> None:
    """Print all dead letters, or those that a filter finds, one JSON object a line (NDJSON)."""
    import msgspec

    for line in caller.lines(BASE, _query(caller, filter_, endpoint)):
        say_json(msgspec.json.decode(line))


def _query(caller: Caller, filter_: str | None, endpoint: str | None) -> dict[str, Any]:
    wanted = asked_for(filter_, WORDS, endpoint=endpoint)
    wanted |= {word: rfc3339_of(wanted.get(word), f"{word}:") for word in ("after", "before")}
    if wanted["endpoint"] is not None:
        wanted["endpoint"] = caller.endpoint_id(wanted["endpoint"])
    return wanted


def _each(caller: Caller, letters: list[str], action: str, body: dict[str, Any] | None) -> None:
    """Act on each; what failed is told on stderr, and the exit code says whether all, some or none went well."""
    failures: list[CallFailed] = []
    for letter in letters:
        try:
            done = caller.post(f"{BASE}/{segment(letter)}/{action}", body)
        except CallFailed as failure:
            if failure.exit is Exit.UNREACHABLE:
                raise
            complain(f"{letter}: {failure}")
            failures.append(failure)
            continue
        if output.as_json:
            say_json({"action": action, **done})
        else:
            place = "no order" if done["seq"] is None else f"{plain(done['key'])} #{done['seq']}"
            behind = counted(done["released"] or 0, "event")
            say(f"replayed  {done['id']}  {place}  {behind} behind it")
    if failures:
        exit_ = failures[0].exit if len(failures) == len(letters) else Exit.PARTLY
        raise CallFailed(f"{len(failures)} of {counted(len(letters), 'dead letter')} could not be replayed", exit_)
