"""Replay and skip for rows of the inbox: the receiver's own flows, in one commit with the line of the audit log.

What is not possible is a `Problem`, which leaves the transaction: nothing was changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.inbox import Row, Search
from hooklane.model.message import Status
from hooklane.receiver.flows.stored_rows import give_up, give_up_row, owe_again
from hooklane.server.inbox_views import dead_of
from hooklane.server.problem import Problem
from hooklane.store.colocated_inbox import Changed
from hooklane.store.inbox import Flow, InboxVerbs

NO_ROW = "there is no row with this id in the inbox"


@dataclass(frozen=True, slots=True)
class HandlingsChanged:
    """*handlings* of *row* are to be run again or are given up; *row* is as it was before."""

    row: Row
    handlings: int


Record = Callable[[Row], Act]
"""What goes on record about a row."""


def replay_row(
    verbs: InboxVerbs, search: Search, handler: str | None, now: Instant, record: Record
) -> Flow[Changed[HandlingsChanged]]:
    """Owe a row to all of its handlers again, or to one of them."""
    row = yield from _find(verbs, search)
    names = [each.handler for each in row.handlings]
    if handler is not None and handler not in names:
        raise Problem(
            "wrong_state",
            f"row {row.id} was never given to the handler {handler!r}, only to {', '.join(names) or 'none'}",
        )
    return (yield from _replay(verbs, row, [handler], now, record))


def replay_letter(verbs: InboxVerbs, search: Search, now: Instant, record: Record) -> Flow[Changed[HandlingsChanged]]:
    """Owe a dead row again, to those of its handlers that gave it up: the others have applied it."""
    row = yield from _find_dead(verbs, search)
    return (yield from _replay(verbs, row, [each.handler for each in dead_of(row)], now, record))


def skip_letter(
    verbs: InboxVerbs, search: Search, note: str, now: Instant, record: Record
) -> Flow[Changed[HandlingsChanged]]:
    """Give up what died of a row, or the row itself if it could not be read; a key that waited behind moves on."""
    row = yield from _find_dead(verbs, search)
    number = 0
    for handling in dead_of(row):
        number += yield from give_up(verbs, row, handling, note, now)
    if not row.handlings:
        number += yield from give_up_row(verbs, row, note, now)
    if number == 0:
        raise _overtaken(row)
    return Changed(HandlingsChanged(row, number), record(row))


def _find(verbs: InboxVerbs, search: Search) -> Flow[Row]:
    rows = yield from verbs.rows(search)
    if not rows:
        raise Problem("not_found", NO_ROW)
    return rows[0]


def _find_dead(verbs: InboxVerbs, search: Search) -> Flow[Row]:
    row = yield from _find(verbs, search)
    if row.overall is not Status.DEAD:
        raise Problem("not_dead", f"row {row.id} is not dead: it is {row.overall}")
    return row


def _replay(
    verbs: InboxVerbs, row: Row, handlers: Sequence[str | None], now: Instant, record: Record
) -> Flow[Changed[HandlingsChanged]]:
    if row.purged:
        raise Problem(
            "payload_purged", f"the payload of row {row.id} was removed by retention, so it cannot be replayed"
        )
    number = 0
    for handler in handlers:
        # Which handlers there are besides knows only the application; it is owed to those that it was given to.
        number += yield from owe_again(verbs, row, handler, now)
    if number == 0:
        raise _why_not(row)
    return Changed(HandlingsChanged(row, number), record(row))


def _overtaken(row: Row) -> Problem:
    return Problem("not_dead", f"row {row.id} was {row.overall} a moment ago, and was replayed or skipped meanwhile")


def _why_not(row: Row) -> Problem:
    if not row.handlings:
        return Problem(
            "wrong_state",
            f"row {row.id} ({row.overall}) was never given to a handler: only the application, which knows its"
            " handlers, can replay it (inbox.replay)",
        )
    if any(each.status is Status.IN_PROGRESS for each in row.handlings):
        return Problem("in_progress", f"a handler is running for row {row.id}: wait until it has ended")
    if any(each.status is not Status.COMPLETED or each.seq is None for each in row.handlings):
        return _overtaken(row)
    return Problem(
        "wrong_state",
        f"row {row.id} cannot be replayed: it was applied in the order of its key, and later events build on it",
    )
