"""What is done with rows that are there: replay, shadow replay, skip, close gaps, prune."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hooklane.core.admission.retention import beat
from hooklane.core.admission.turns import OnGap, Turn, whose_turn
from hooklane.errors import Reject, UsageError
from hooklane.model.clock import Instant
from hooklane.model.inbox import Gap, Handling, Heartbeat, NewHandling, Row, RowId
from hooklane.model.message import Message, Status
from hooklane.receiver.arrival import document_of, track_of
from hooklane.receiver.event import Event
from hooklane.receiver.failure import text_of
from hooklane.receiver.flows.context import Context
from hooklane.receiver.flows.order import resync
from hooklane.receiver.flows.receive import baseline_of, dead_from_the_start
from hooklane.receiver.flows.stored_rows import give_up, give_up_row, owe_again
from hooklane.receiver.order import InSequence, Refetch
from hooklane.receiver.source import Handler
from hooklane.receiver.steps import ROLLBACK, Begin, Handle, HandlerFailed, transactional
from hooklane.store.inbox import Flow, InboxVerbs


@dataclass(frozen=True, slots=True)
class Shadow:
    """What a handler would have done with a stored event; everything it wrote was rolled back."""

    id: RowId
    event_id: str
    handler: str
    error: str | None = None
    sent: int = 0


@transactional
def reopen(
    context: Context, row: Row, handlers: Sequence[Handler], only: str | None, status: Status | None
) -> Flow[int]:
    """Owe *row* to its handlers again, and to those that it was never given to (a new handler, a quarantined row).

    With *status* only where that is how it stands: what one handler gave up, another may have applied.
    """
    if row.purged:
        raise UsageError(f"row {row.id} ({row.message.event_id}) cannot be replayed: its payload was purged")
    store, now = context.store, context.clock()
    reopened = yield from owe_again(store, row, only, now, status)
    there = {each.handler for each in row.handlings}
    for handler in handlers:
        is_meant = only in (None, handler.name) and status in (None, row.status_for(handler.name))
        if handler.name not in there and is_meant:
            handling = yield from _owed(store, row.message, handler, now)
            if handling is not None:
                yield from store.attach(row.id, handling)
                reopened += handling.status is not Status.DEAD
    return reopened


def _owed(store: InboxVerbs, message: Message, handler: Handler, now: Instant) -> Flow[NewHandling | None]:
    """What *handler* owes to a message that it was never given: in its place of the key's sequence, where it has one.

    Without its place it would be applied as if alone, and the events behind it would wait for ever. If it wants the
    message and cannot tell where that belongs, it has a dead letter.
    """
    place, key = None, None
    try:
        match handler.order:
            case InSequence() as order:
                place = order.place(message, lambda: document_of(message))
            case Refetch() as order if handler.wants(message.type):
                key = order.hint(message, lambda: document_of(message))
    except Reject as misfit:
        return dead_from_the_start(handler, misfit, now) if handler.wants(message.type) else None
    if place is None:
        return NewHandling(handler=handler.name, due_at=now, key=key) if handler.wants(message.type) else None
    key, seq, prev_seq = place
    applied = yield from store.cursor(track_of(message, handler, key), baseline_of(handler, prev_seq))
    early = whose_turn(seq=seq, prev_seq=prev_seq, applied=applied) is Turn.EARLY
    status = Status.HELD if early else Status.PENDING  # if it is past, that is found when it is claimed
    return NewHandling(handler=handler.name, status=status, due_at=now, key=key, seq=seq, prev_seq=prev_seq)


def shadow(row: Row, handler: Handler, event: Event) -> Flow[Shadow]:
    """Run *handler* on a stored event in a transaction that is rolled back, whatever happens."""
    yield Begin()
    error: str | None = None
    try:
        yield Handle(handler.fn, event)
    except Exception as raised:
        error = text_of(raised.error if isinstance(raised, HandlerFailed) else raised)
    finally:
        yield ROLLBACK
    return Shadow(row.id, row.message.event_id, handler.name, error, len(event.sent))


@transactional
def skip(context: Context, row: Row, handling: Handling, note: str) -> Flow[bool]:
    """Give a handling up by hand; a key that waited behind it moves on."""
    return (yield from give_up(context.store, row, handling, note, context.clock()))


@transactional
def skip_row(context: Context, row: Row, note: str) -> Flow[bool]:
    """Give up by hand a row that is dead itself: it could not be read, so no handler was given it."""
    return (yield from give_up_row(context.store, row, note, context.clock()))


@transactional
def close_gap(context: Context, gap: Gap, handler: Handler) -> Flow[bool]:
    """A predecessor never came: go on without it, by the handler's policy. False when the key has moved meanwhile."""
    order = handler.order
    assert isinstance(order, InSequence)
    now = context.clock()
    if gap.prev_seq <= gap.seq:
        # Its predecessor was applied by a worker that did not see it yet: it arrived in that very moment.
        return bool((yield from context.store.release(gap.track, gap.seq, now)))
    if order.on_gap == OnGap.STOP:
        return False
    if order.on_gap == OnGap.RESYNC:
        yield from resync(order, None, gap.track.key)
    if not (yield from context.store.advance(gap.track, prev_seq=gap.seq, seq=gap.prev_seq)):
        return False
    yield from context.store.release(gap.track, gap.prev_seq, now)
    return True


@transactional
def heartbeat(
    context: Context, now: Instant, retention_ms: int, up_since: Instant | None, still_ms: int
) -> Flow[Heartbeat]:
    """Note that this inbox receives *now*, and how long it did not."""
    last = yield from context.store.heartbeat()
    noted = beat(last, now, retention_ms=retention_ms, up_since=up_since, still_ms=still_ms)
    yield from context.store.beat(noted)
    return noted
