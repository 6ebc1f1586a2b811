"""`hooklane inbox …`: the receiver's store, whichever it is: SQLite, PostgreSQL, Redis, DynamoDB."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.filters import Filter, asked_for, time_of
from hooklane.cli.options import Yes
from hooklane.cli.output import confirm, detail, pairs_with_tracebacks, show, table, talk
from hooklane.errors import HooklaneError, StoreError, StoreRefused, StoreUnavailable
from hooklane.model.clock import Instant, rfc3339
from hooklane.model.database_url import shown
from hooklane.model.inbox import Row
from hooklane.model.message import Status
from hooklane.model.size import counted

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

app = typer.Typer(no_args_is_help=True)
DAY_MS = 86_400_000
WORDS = ("source", "status", "type", "key", "event", "handler", "after", "before")

Store = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="HOOKLANE_STORE",
        help="sqlite:///app.db, postgresql://…, redis://…, dynamodb://table (HOOKLANE_STORE).",
    ),
]
SourceName = Annotated[str | None, typer.Option("--source", help="Of this source.")]
StatusName = Annotated[
    str | None, typer.Option("--status", metavar="STATUS", help="In this status: pending, failed, dead, held …")
]
TypeName = Annotated[str | None, typer.Option("--type", help="Of exactly this type.")]
Key = Annotated[str | None, typer.Option("--key", help="Of this key.")]
EventId = Annotated[str | None, typer.Option("--event-id", help="With this event id.")]
HandlerName = Annotated[str | None, typer.Option("--handler", help="For this handler only.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Received from then on (or -2h).")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Received before then (or -2h).")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Row ids, as `ls` shows them.")]


@app.command("ls")
def ls(
    store: Store,
    filter_: Filter = None,
    source: SourceName = None,
    status: StatusName = None,
    type_: TypeName = None,
    key: Key = None,
    event_id: EventId = None,
    handler: HandlerName = None,
    since: Since = None,
    until: Until = None,
    after: Annotated[str | None, typer.Option(help="`next` of the page before.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many to list.")] = 50,
) -> None:
    """List what was received, oldest first."""
    from hooklane.server import inbox_views

    given = {"source": source, "status": status, "type": type_, "key": key, "event": event_id, "handler": handler}
    search = _search(asked_for(filter_, WORDS, **given, after=since, before=until))
    with opened(store) as inbox:
        rows = inbox.rows(**search, after=None if after is None else _place(store, after), limit=limit)
    shown = [
        (row.id, row.message.source, row.message.event_id, row.message.type, row.overall, rfc3339(row.received_at))
        for row in rows
    ]
    next_ = str(rows[-1].id) if len(rows) == limit else None
    value = {"items": [inbox_views.row(row) for row in rows], "next": next_}
    show(value, lambda: table(("ID", "SOURCE", "EVENT", "TYPE", "STATUS", "RECEIVED"), shown))


@app.command("show")
def show_one(
    row_id: Annotated[str, typer.Argument(metavar="ID", help="A row id, as `ls` shows it.")], store: Store
) -> None:
    """Show one row with its payload, and what became of it at each handler."""
    from hooklane.server import inbox_views

    with opened(store) as inbox:
        (row,) = _found(inbox, [row_id])
    value = inbox_views.whole(row)
    show(value, lambda: pairs_with_tracebacks(value))


@app.command("stats")
def stats(store: Store) -> None:
    """How many events are in which status, how old the oldest owed one is."""
    from hooklane.server import inbox_views

    with opened(store) as inbox:
        found, can = inbox.stats(), inbox.store.capabilities
    value = {**inbox_views.stats(found.counts, can.name, found.now), "caveat": can.caveat}

    def lines() -> list[str]:
        rows = [tuple(count.values()) for count in value["counts"]]
        told = table(("SOURCE", "HANDLER", "STATUS", "ROWS", "OLDEST"), rows)
        label = f"{can.name} ({can.caveat})" if can.caveat else can.name
        return [*told, f"{label}: {found.dead} dead, the oldest event that waits is {found.lag_ms / 1000:.1f} s old"]

    show(value, lines)


@app.command("replay")
def replay(
    store: Store,
    ids: Ids = None,
    source: SourceName = None,
    status: StatusName = None,
    type_: TypeName = None,
    key: Key = None,
    event_id: EventId = None,
    handler: HandlerName = None,
    since: Since = None,
    until: Until = None,
    yes: Yes = False,
) -> None:
    """Owe stored events to their handlers again: some by id, or all that match. A worker then runs them.

    With --status only the handlers for which an event is so run it again, not those that have applied it.
    """
    wanted = {"source": source, "status": status, "type": type_, "key": key, "event": event_id}
    search = _chosen(ids, _search({**wanted, "after": since, "before": until}))
    with opened(store) as inbox:
        rows = _found(inbox, ids) if ids else []
        done = sum(_was_handled(row, handler) for row in rows)
        if not yes and not ids:
            confirm(f"Replay what matches {_words(search)}?")
        elif not yes and done:
            confirm(f"{done} of {counted(len(rows), 'row')} already handled. Run the handlers once more?")
        number = inbox.replay([row.id for row in rows] or None, handler=handler, **search)
    show(
        {"replayed": number},
        lambda: [f"{counted(number, 'handling')} to be run again by `hooklane inbox worker`"],
    )


@app.command("skip")
def skip(
    store: Store,
    note: Annotated[str, typer.Option("--note", help="Why; it is kept with the event.")],
    ids: Ids = None,
    source: SourceName = None,
    status: StatusName = None,
    event_id: EventId = None,
    handler: HandlerName = None,
    yes: Yes = False,
) -> None:
    """Give up dead, failed or held events for good; a key that waited behind one moves on.

    With --status only at the handlers for which an event is so.
    """
    search = _chosen(ids, _search({"source": source, "status": status, "event": event_id}))
    with opened(store) as inbox:
        if not yes:
            confirm(f"Give up {_words(search) if not ids else counted(len(ids), 'row')} for good?")
        number = inbox.skip(_ids(inbox, ids), note=note, handler=handler, **search)
    show({"skipped": number}, lambda: [f"{counted(number, 'handling')} given up"])


@app.command("prune")
def prune(
    store: Store,
    days: Annotated[
        int,
        typer.Option(
            "--days", min=7, max=36_500, help="Keep so many days: at least the longest retention of your sources."
        ),
    ] = 30,
) -> None:
    """Remove what is settled and older than the window in which duplicates must be known."""
    with opened(store) as inbox:
        done = inbox.prune(retention_ms=days * DAY_MS)
    value = {"rows": done.rows, "payloads": done.payloads, "tombstones": done.tombstones, "more": done.more}
    removed = f"removed {counted(done.rows, 'row')} and {counted(done.tombstones, 'tombstone')}"
    left = ["more is left than one prune takes: run it again"] if done.more else []
    show(value, lambda: [removed, *left])


@app.command("doctor")
def doctor(store: Store) -> None:
    """Look for settings of the store that would make it forget."""
    with opened(store) as inbox:
        found, can = inbox.examine(), inbox.store.capabilities
    value = {"store": can.name, "healthy": not found, "warnings": found, "caveat": can.caveat}
    show(value, lambda: [*found, *([] if found else [f"{can.name}: no problem found"])])
    if found:
        raise CallFailed(f"{counted(len(found), 'problem')} found", Exit.UNHEALTHY)


@app.command("create-table")
def create_table(store: Store) -> None:
    """Create the table of an inbox on DynamoDB: on demand, with its index and its time to live."""
    with opened(store) as inbox:
        create = getattr(inbox.store, "create_table", None)
        if create is None:
            raise CallFailed(
                "only an inbox on DynamoDB has to be created; the other stores create their tables by themselves",
                Exit.USAGE,
            )
        made = create()
    show({"created": made}, lambda: ["the table was created" if made else "the table exists already"])


@app.command("worker")
def worker(
    where: Annotated[
        str, typer.Argument(metavar="MODULE:INBOX", help="Your inbox with its handlers: shop.hooks:inbox")
    ],
    threads: Annotated[int, typer.Option("--threads", min=1, max=256, help="How many handlers at a time.")] = 4,
    once: Annotated[bool, typer.Option("--once", help="Do what is due and end.")] = False,
) -> None:
    """Run the handlers of your inbox, until told to stop (SIGTERM): what is in hand is finished."""
    inbox = imported(where)
    if once:
        done = inbox.run_once(1_000_000)
        show({"handled": done}, lambda: [f"handled {counted(done, 'event')}"])
        inbox.close()
        return
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    inbox.start_worker(threads=threads)
    show({"inbox": where, "threads": threads}, list)
    talk(f"working on {where} with {counted(threads, 'thread')}")
    stopping.wait()
    inbox.close()


# Helpers


@contextmanager
def opened(url: str) -> Iterator[Inbox]:
    """The inbox at *url*, for as long as a command looks at it."""
    with closing(opened_at(url)) as inbox:
        yield inbox


def opened_at(url: str) -> Inbox:
    """The inbox at *url*. A mistyped file name must not show an empty one, and must not create a file."""
    from hooklane.receiver.inbox import Inbox
    from hooklane.store.sqlite.database import path_of

    if url.startswith("sqlite:") and not Path(path_of(url)).exists():
        raise StoreRefused(f"there is no database {shown(url)}: check the path")
    return Inbox(url)


def _search(wanted: Mapping[str, str | None]) -> dict[str, Any]:
    """What *wanted* says by `WORDS`, as the inbox is asked for it."""
    status = wanted.get("status")
    if status is not None and status not in list(Status):
        raise CallFailed(f"--status is one of {', '.join(Status)}; got {status}", Exit.USAGE)
    if "*" in (wanted.get("type") or ""):
        raise CallFailed(f"an inbox is searched by the exact type, without *; got {wanted['type']}", Exit.USAGE)
    search = {
        "source": wanted.get("source"),
        "status": None if status is None else Status(status),
        "type": wanted.get("type"),
        "key": wanted.get("key"),
        "event_id": wanted.get("event"),
        "handler": wanted.get("handler"),
        "received_from": _instant(wanted.get("after"), "--since"),
        "received_until": _instant(wanted.get("before"), "--until"),
    }
    return {name: value for name, value in search.items() if value is not None}


def _chosen(ids: list[str] | None, search: dict[str, Any]) -> dict[str, Any]:
    if bool(ids) == bool(search):
        raise CallFailed(
            "name the rows by id, or choose them with --status, --source and the like, but not both", Exit.USAGE
        )
    return search


def _ids(inbox: Inbox, ids: list[str] | None) -> list[int | str] | None:
    return [row.id for row in _found(inbox, ids)] if ids else None


def _found(inbox: Inbox, ids: list[str]) -> list[Row]:
    """The rows of *ids*; the first that is not there is told."""
    rows: list[Row] = []
    for id in dict.fromkeys(ids):
        try:
            found = inbox.rows(ids=(_id(id),))
        except StoreUnavailable:
            raise
        except StoreError:  # a database that numbers its rows does not even take such an id
            found = []
        if not found:
            raise CallFailed(f"the inbox has no row {id}", Exit.NOT_FOUND)
        rows += found
    return rows


def _id(text: str) -> int | str:
    """A row id as its store has it: databases number their rows, Redis and DynamoDB have texts."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


def _place(store: str, text: str) -> int | str:
    """Where a page goes on; databases number their rows, so that any other text is a mistake."""
    found = _id(text)
    if isinstance(found, str) and store.startswith(("sqlite", "postgres")):
        raise CallFailed(f"--after is the `next` of the page before, a number; got {text!r}", Exit.USAGE)
    return found


def _instant(text: str | None, name: str) -> Instant | None:
    at = time_of(text, name)
    return None if at is None else Instant(int(at.timestamp() * 1000))


def _was_handled(row: Row, handler: str | None) -> bool:
    return any(each.status is Status.COMPLETED for each in row.handlings if handler in (None, each.handler))


def _words(search: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in search.items())


def imported(where: str) -> Inbox:
    """The inbox that *where* names, as `shop.hooks:inbox`."""
    from hooklane.receiver.inbox import Inbox

    module, _, name = where.partition(":")
    if "/" in where or where.startswith("."):
        raise CallFailed(f"{where} is a path: write MODULE:INBOX, such as shop.hooks:inbox", Exit.USAGE)
    try:
        sys.path.insert(0, str(Path.cwd()))
        found = getattr(importlib.import_module(module), name or "inbox")
    except HooklaneError:
        raise
    except Exception as error:  # whatever the application's own module does
        for line in traceback.format_exc().splitlines():
            detail(line)
        raise CallFailed(f"{where} cannot be imported: {type(error).__name__}: {error}", Exit.USAGE) from error
    if not isinstance(found, Inbox):
        raise CallFailed(f"{where} is not an Inbox but a {type(found).__name__}", Exit.USAGE)
    return found
