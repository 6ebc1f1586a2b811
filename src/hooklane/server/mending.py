"""How is a row of the inbox owed again, or given up? By the receiver's own flows, in one commit with its record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.inbox import Row, Search
from hooklane.model.message import Status
from hooklane.receiver.flows.keep import give_up, owe_again
from hooklane.server.inbox_views import dead_of
from hooklane.store.beside import Changed
from hooklane.store.inbox import Flow, InboxVerbs


@dataclass(frozen=True, slots=True)
class Mended:
    """So many handlings of *row*, which is shown as it was before, are owed again or given up."""

    row: Row
    handlings: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """It cannot be, and nothing was changed."""

    code: str
    detail: str


Outcome = Mended | Refusal | None
"""None: there is no such row."""

Record = Callable[[Row], Act]
"""What goes on record about a row."""


def replay_row(
    verbs: InboxVerbs, search: Search, handler: str | None, now: Instant, record: Record
) -> Flow[Changed[Outcome]]:
    """Owe a row to all of its handlers again, or to one of them."""
    row = yield from _find(verbs, search)
    if row is None:
        return Changed(None)
    names = [each.handler for each in row.handlings]
    if handler is not None and handler not in names:
        return Changed(Refusal("wrong_state", f"row {row.id} was never given to {handler!r}, only to: {names}"))
    return (yield from _replay(verbs, row, [handler], now, record))


def replay_letter(verbs: InboxVerbs, search: Search, now: Instant, record: Record) -> Flow[Changed[Outcome]]:
    """Owe a dead row again, to those of its handlers that gave it up: the others have applied it."""
    row = yield from _find(verbs, search)
    if row is None:
        return Changed(None)
    if row.overall is not Status.DEAD:
        return Changed(Refusal("not_dead", f"row {row.id} is {row.overall}"))
    return (yield from _replay(verbs, row, [each.handler for each in dead_of(row)], now, record))


def skip_letter(verbs: InboxVerbs, search: Search, note: str, now: Instant, record: Record) -> Flow[Changed[Outcome]]:
    """Give up what died of a row; a key that waited behind it moves on."""
    row = yield from _find(verbs, search)
    if row is None:
        return Changed(None)
    if row.overall is not Status.DEAD:
        return Changed(Refusal("not_dead", f"row {row.id} is {row.overall}"))
    number = 0
    for handling in dead_of(row):
        number += yield from give_up(verbs, row, handling, note, now)
    if number == 0:
        return Changed(Refusal("wrong_state", f"row {row.id} was never given to a handler: there is nothing to skip"))
    return Changed(Mended(row, number), record(row))


def _find(verbs: InboxVerbs, search: Search) -> Flow[Row | None]:
    rows = yield from verbs.rows(search)
    return rows[0] if rows else None


def _replay(
    verbs: InboxVerbs, row: Row, handlers: Sequence[str | None], now: Instant, record: Record
) -> Flow[Changed[Outcome]]:
    if row.purged:
        return Changed(Refusal("payload_purged", f"the payload of row {row.id} was purged; only its id is left"))
    number = 0
    for handler in handlers:
        # Which handlers there are besides knows only the application; it is owed to those that it was given to.
        number += yield from owe_again(verbs, row, (), handler, now)
    if number == 0:
        return Changed(_why_not(row))
    return Changed(Mended(row, number), record(row))


def _why_not(row: Row) -> Refusal:
    if not row.handlings:
        return Refusal(
            "wrong_state",
            f"row {row.id} ({row.overall}) was never given to a handler: only the application, which knows its"
            " handlers, can replay it (inbox.replay)",
        )
    if any(each.status is Status.IN_PROGRESS for each in row.handlings):
        return Refusal("in_progress", f"a handler is at work on row {row.id} right now")
    return Refusal(
        "wrong_state", f"row {row.id} was applied in its place of a sequence, and later events of its key stand on it"
    )
