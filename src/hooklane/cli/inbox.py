"""`hooklane inbox …`: the receiver's store, whichever it is: SQLite, PostgreSQL, Redis, DynamoDB."""

from __future__ import annotations

import base64
import importlib
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.options import Json, Yes
from hooklane.cli.output import is_interactive, pairs, say, show, table, talk
from hooklane.errors import StoreError, StoreRefused, StoreUnavailable
from hooklane.model.clock import Instant, rfc3339
from hooklane.model.inbox import Row
from hooklane.model.message import Status
from hooklane.receiver.inbox import Inbox
from hooklane.store.sqlite.database import path_of

app = typer.Typer(no_args_is_help=True)
DAY_MS = 86_400_000

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
TypeName = Annotated[str | None, typer.Option("--type", help="Of this type.")]
Key = Annotated[str | None, typer.Option("--key", help="Of this key.")]
EventId = Annotated[str | None, typer.Option("--event-id", help="With this event id.")]
HandlerName = Annotated[str | None, typer.Option("--handler", help="For this handler only.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Received from then on (RFC 3339).")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Received before then (RFC 3339).")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Row ids, as `ls` shows them.")]


@app.command("ls")
def ls(
    store: Store,
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
    as_json: Json = False,
) -> None:
    """List what was received, oldest first."""
    search = _search(source, status, type_, key, event_id, handler, since, until)
    with _opened(store) as inbox:
        rows = inbox.rows(**search, after=None if after is None else _id(after), limit=limit)
    shown = [
        (row.id, row.message.source, row.message.event_id, row.message.type, row.overall, rfc3339(row.received_at))
        for row in rows
    ]
    next_ = str(rows[-1].id) if len(rows) == limit else None
    value = {"items": [_brief(row) for row in rows], "next": next_}
    show(value, as_json, lambda: table(("ID", "SOURCE", "EVENT", "TYPE", "STATUS", "RECEIVED"), shown))


@app.command("show")
def show_one(row_id: Annotated[str, typer.Argument(metavar="ID")], store: Store, as_json: Json = False) -> None:
    """Show one row with its payload, and what became of it at each handler."""
    with _opened(store) as inbox:
        (row,) = _found(inbox, [row_id])
    value = _whole(row)
    show(value, as_json, lambda: pairs(value))


@app.command("stats")
def stats(store: Store, as_json: Json = False) -> None:
    """How many events are in which status, how old the oldest owed one is."""
    with _opened(store) as inbox:
        found, can = inbox.stats(), inbox.store.capabilities
    counts = [
        {
            "source": each.source,
            "handler": each.handler,
            "status": str(each.status),
            "rows": each.rows,
            "oldest_at": rfc3339(each.oldest_at),
        }
        for each in found.counts
    ]
    value = {"store": can.name, "caveat": can.caveat, "dead": found.dead, "lag_ms": found.lag_ms, "counts": counts}

    def lines() -> list[str]:
        rows = [tuple(count.values()) for count in counts]
        told = table(("SOURCE", "HANDLER", "STATUS", "ROWS", "OLDEST"), rows)
        label = f"{can.name} ({can.caveat})" if can.caveat else can.name
        return [*told, f"{label}: {found.dead} dead, the oldest owed is {found.lag_ms / 1000:.1f} s old"]

    show(value, as_json, lines)


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
    as_json: Json = False,
) -> None:
    """Owe stored events to their handlers again: some by id, or all that match. A worker then runs them."""
    search = _chosen(ids, _search(source, status, type_, key, event_id, None, since, until))
    with _opened(store) as inbox:
        if not ids and not yes:
            _confirm(f"Replay what matches {_words(search)}?")
        number = inbox.replay(_ids(inbox, ids), handler=handler, **search)
    show({"replayed": number}, as_json, lambda: [f"{number} handlings are owed again"])


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
    as_json: Json = False,
) -> None:
    """Give up dead, failed or held events for good; a key that waited behind one moves on."""
    search = _chosen(ids, _search(source, status, None, None, event_id, None, None, None))
    with _opened(store) as inbox:
        if not yes:
            _confirm(f"Give up {_words(search) if not ids else f'{len(ids)} rows'} for good?")
        number = inbox.skip(_ids(inbox, ids), note=note, handler=handler, **search)
    show({"skipped": number}, as_json, lambda: [f"{number} handlings were given up"])


@app.command("prune")
def prune(
    store: Store,
    days: Annotated[
        int, typer.Option("--days", min=7, help="Keep so many days: at least the longest retention of your sources.")
    ] = 30,
    as_json: Json = False,
) -> None:
    """Remove what is settled and older than the window in which duplicates must be known."""
    with _opened(store) as inbox:
        done = inbox.prune(retention_ms=days * DAY_MS)
    value = {"rows": done.rows, "payloads": done.payloads, "tombstones": done.tombstones}
    show(value, as_json, lambda: [f"removed {done.rows} rows and {done.tombstones} tombstones"])


@app.command("doctor")
def doctor(store: Store, as_json: Json = False) -> None:
    """Look for settings of the store that would make it forget."""
    with _opened(store) as inbox:
        found, can = inbox.examine(), inbox.store.capabilities
    value = {"store": can.name, "healthy": not found, "warnings": found, "caveat": can.caveat}
    show(value, as_json, lambda: [*found, *([] if found else [f"{can.name}: nothing to mend"])])
    if found:
        raise CallFailed(f"{len(found)} things to mend", Exit.UNHEALTHY)


@app.command("create-table")
def create_table(store: Store, as_json: Json = False) -> None:
    """Create the table of an inbox on DynamoDB: on demand, with its index and its time to live."""
    with _opened(store) as inbox:
        create = getattr(inbox.store, "create_table", None)
        if create is None:
            raise CallFailed("only an inbox on DynamoDB has a table to create; others make theirs", Exit.USAGE)
        made = create()
    show({"created": made}, as_json, lambda: ["created" if made else "it is there already"])


@app.command("worker")
def worker(
    where: Annotated[
        str, typer.Argument(metavar="MODULE:INBOX", help="Your inbox with its handlers: shop.hooks:inbox")
    ],
    threads: Annotated[int, typer.Option("--threads", min=1, max=256, help="How many handlers at a time.")] = 4,
    once: Annotated[bool, typer.Option("--once", help="Do what is due and end.")] = False,
) -> None:
    """Run the handlers of your inbox, until told to stop (SIGTERM): what is in hand is finished."""
    inbox = _imported(where)
    if once:
        done = inbox.run_once(1_000_000)
        say(f"handled {done}")
        inbox.close()
        return
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    inbox.start_worker(threads=threads)
    talk(f"working on {where} with {threads} threads")
    stopping.wait()
    inbox.close()


# Helpers


@contextmanager
def _opened(url: str) -> Iterator[Inbox]:
    # Whoever mistypes the name of a file must not be shown an empty inbox, and leave one behind.
    if url.startswith("sqlite:") and not Path(path_of(url)).exists():
        raise StoreRefused(f"there is no database {url}")
    inbox = Inbox(url)
    try:
        yield inbox
    except StoreUnavailable as error:
        raise CallFailed(str(error), Exit.UNREACHABLE) from error
    finally:
        inbox.close()


def _search(
    source: str | None,
    status: str | None,
    type_: str | None,
    key: str | None,
    event_id: str | None,
    handler: str | None,
    since: str | None,
    until: str | None,
) -> dict[str, Any]:
    if status is not None and status not in list(Status):
        raise CallFailed(f"--status is one of {', '.join(Status)}; got {status}", Exit.USAGE)
    search = {
        "source": source,
        "status": None if status is None else Status(status),
        "type": type_,
        "key": key,
        "event_id": event_id,
        "handler": handler,
        "received_from": _instant(since),
        "received_until": _instant(until),
    }
    return {name: value for name, value in search.items() if value is not None}


def _chosen(ids: list[str] | None, search: dict[str, Any]) -> dict[str, Any]:
    if bool(ids) == bool(search):
        raise CallFailed("name rows by id, or say which with --status, --source … (one of both)", Exit.USAGE)
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
            raise CallFailed(f"there is no row {id}", Exit.NOT_FOUND)
        rows += found
    return rows


def _id(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def _instant(text: str | None) -> Instant | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CallFailed(f"a time such as 2026-03-01T12:00:00Z was expected, got {text}", Exit.USAGE) from None
    if at.tzinfo is None:
        raise CallFailed(f"a time needs its zone, such as {text}Z", Exit.USAGE)
    return Instant(int(at.timestamp() * 1000))


def _words(search: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in search.items())


def _confirm(question: str) -> None:
    if not is_interactive():
        raise CallFailed("nobody can be asked here: confirm with --yes", Exit.USAGE)
    typer.confirm(question, abort=True, err=True)


def _imported(where: str) -> Inbox:
    module, _, name = where.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module), name or "inbox")
    except (ImportError, AttributeError, ValueError) as error:
        raise CallFailed(f"{where} cannot be imported: {error}", Exit.USAGE) from error
    if not isinstance(found, Inbox):
        raise CallFailed(f"{where} is a {type(found).__name__}, and not an Inbox", Exit.USAGE)
    return found


def _brief(row: Row) -> dict[str, Any]:
    message = row.message
    return {
        "id": row.id,
        "source": message.source,
        "tenant": message.tenant,
        "event_id": message.event_id,
        "type": message.type,
        "key": message.key,
        "seq": message.seq,
        "status": str(row.overall),
        "received_at": rfc3339(row.received_at),
        "copies": row.copies,
    }


def _whole(row: Row) -> dict[str, Any]:
    try:
        body = {"body": row.message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(row.message.body).decode()}
    handlings = [
        {
            "handler": each.handler,
            "status": str(each.status),
            "attempts": each.attempts,
            "due_at": rfc3339(each.due_at),
            "error": each.error,
            "traceback": each.traceback,
        }
        for each in row.handlings
    ]
    return {
        **_brief(row),
        "variant": row.variant,
        "reason": row.reason,
        "purged": row.purged,
        "headers": dict(row.headers),
        "handlings": handlings,
        **body,
    }
