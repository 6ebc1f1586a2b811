"""Is it this message's turn, and which message may come next? The orders of `receiver.order`, inside a transaction."""

from __future__ import annotations

from hooklane.core.admission.freshness import is_future
from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.errors import HooklaneError, Reject
from hooklane.model.clock import START
from hooklane.model.message import Message, Status
from hooklane.receiver.arrival import document_of, track_of
from hooklane.receiver.event import Event
from hooklane.receiver.flows.context import Context
from hooklane.receiver.flows.receive import baseline_of
from hooklane.receiver.order import InSequence, Latest, NoOrder, Place, Refetch
from hooklane.receiver.source import Handler
from hooklane.receiver.steps import Handle
from hooklane.store.inbox import Flow


class OutOfTurn(HooklaneError):
    """The key moved on (or back) since this message was claimed; nothing was applied."""


def before(context: Context, message: Message, handler: Handler, event: Event) -> Flow[bool]:
    """Whether the message may be applied now: False when something newer was. `OutOfTurn` when it must wait."""
    match handler.order:
        case InSequence():
            return (yield from _its_turn(context, message, handler))
        case Latest():
            return (yield from _is_newest(context, message, handler, event))
        case Refetch() as order:
            if callable(order.key):
                order.hint(message, lambda: document_of(message))  # rejects what was replayed and still cannot be read
            return True
        case NoOrder():
            return True


def _its_turn(context: Context, message: Message, handler: Handler) -> Flow[bool]:
    assert isinstance(handler.order, InSequence)
    place = handler.order.place(message, lambda: document_of(message))
    if place is None:
        return True
    key, seq, prev_seq = place
    applied = yield from context.store.applied(track_of(message, handler, key))
    match whose_turn(seq=seq, prev_seq=prev_seq, applied=prev_seq if applied is None else applied):
        case Turn.READY:
            return True
        case Turn.PAST:
            return False
        case Turn.EARLY:
            raise OutOfTurn(f"{message.event_id} is early: {prev_seq} of {key!r} was not applied yet")


def late_place(context: Context, message: Message, handler: Handler) -> Flow[Place | None]:
    """The place in its sequence of a message that was stored without one: what its order could not read then, it can
    read now. The key's cursor is there afterwards."""
    if not isinstance(handler.order, InSequence):
        return None
    place = handler.order.place(message, lambda: document_of(message))
    if place is not None:
        key, _, prev_seq = place
        yield from context.store.cursor(track_of(message, handler, key), baseline_of(handler, prev_seq))
    return place


def _is_newest(context: Context, message: Message, handler: Handler, event: Event) -> Flow[bool]:
    order = handler.order
    assert isinstance(order, Latest)
    key, at, tie = order.mark(message, lambda: document_of(message))
    if is_future(at, context.clock(), order.skew_ms):
        raise Reject(f"future_clock: its time is more than {order.skew_ms} ms ahead: what follows would seem older")
    track = track_of(message, handler, key)
    if order.on_tie == "refetch":
        newest = yield from context.store.mark(track)
        if newest is not None and newest[0] == at:
            event.tied = True
            yield from context.store.newer(track, at, tie)
            return True
    if (yield from context.store.newer(track, at, tie)):
        return True
    # The newest itself, replayed: nothing newer is there that it could overwrite.
    return (yield from context.store.mark(track)) == (at, tie)


def after(
    context: Context,
    message: Message,
    handler: Handler,
    key: str | None,
    seq: int | None,
    prev_seq: int | None,
    status: Status,
) -> Flow[None]:
    """A key that is taken in sequence moves on, and what waited for this message may be claimed."""
    if not isinstance(handler.order, InSequence) or key is None or seq is None or prev_seq is None:
        return
    track = track_of(message, handler, key)
    if status is not Status.STALE and not (yield from context.store.advance(track, prev_seq=prev_seq, seq=seq)):
        raise OutOfTurn(f"{message.event_id}: {key!r} moved while it was handled")
    yield from context.store.release(track, seq, context.clock())


def resync(order: InSequence, message: Message | None, key: str) -> Flow[None]:
    """Let the application fetch the state of *key*, in the transaction that then moves the cursor."""
    assert order.resync is not None
    fetch = order.resync
    placeholder = Event(message or _NO_MESSAGE, attempt=1, received_at=START)
    yield Handle(lambda _, tx: fetch(key, tx), placeholder)


_NO_MESSAGE = Message(source="", event_id="", type="", body=b"")
