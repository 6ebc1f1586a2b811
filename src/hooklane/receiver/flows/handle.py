"""T2: the handler and the completion of its claim are one transaction. T3: a failure is recorded in one of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hooklane.core.admission.failures import Transient, judge_failure
from hooklane.core.admission.freshness import is_future
from hooklane.core.admission.turns import OnDead, Turn, whose_turn
from hooklane.core.verify.document import Unreadable, read_json
from hooklane.errors import HooklaneError, LeaseLost, Reject
from hooklane.model.clock import Instant
from hooklane.model.inbox import Claimed, RowId, Track
from hooklane.model.message import Message, Status
from hooklane.receiver.drive import AfterCommit, Handle, Publish, Reached, transaction
from hooklane.receiver.event import Event
from hooklane.receiver.failure import failure_of, text_of, traceback_of
from hooklane.receiver.order import InSequence, Latest, NoOrder, Refetch
from hooklane.receiver.source import Handler
from hooklane.store.inbox import Flow, InboxStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a flow needs besides its message: the store, the time, and chance."""

    store: InboxStore
    clock: Callable[[], Instant]
    roll: Callable[[], float]
    can_send: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How a handling ended, for telemetry and the breaker."""

    status: Status
    error: str | None = None
    retry_at: Instant | None = None
    counts: bool = True
    """Whether it says something about the handler's dependencies; a poison event does not."""
    fenced: bool = False
    """Another worker had taken the claim over: this one's work was rolled back."""
    hook_errors: tuple[Exception, ...] = ()


class OutOfTurn(HooklaneError):
    """The key moved on (or back) since this message was claimed; nothing was applied."""


def claim_due(
    context: Context, handlers: Sequence[Handler], *, expired: bool, owner: str, lease_ms: int, limit: int
) -> Flow[list[Claimed]]:
    """Claim what is due for *handlers*, in a transaction of its own."""
    return (
        yield from transaction(
            _claim_due(context, handlers, expired=expired, owner=owner, lease_ms=lease_ms, limit=limit)
        )
    )


def _claim_due(
    context: Context, handlers: Sequence[Handler], *, expired: bool, owner: str, lease_ms: int, limit: int
) -> Flow[list[Claimed]]:
    names = [(handler.source, handler.name) for handler in handlers]
    claimed = yield from context.store.claim(
        names, expired=expired, owner=owner, now=context.clock(), lease_ms=lease_ms, limit=limit
    )
    # Of several hints about one key one is enough: its fetch covers the others, unless they are in somebody's hand.
    thin = {(handler.source, handler.name) for handler in handlers if isinstance(handler.order, Refetch)}
    kept: dict[object, Claimed] = {}
    for each in claimed:
        hint = (each.message.source, each.message.tenant, each.handler, each.key)
        is_thin = hint[3] is not None and (each.message.source, each.handler) in thin
        if not is_thin or hint not in kept:
            kept[hint if is_thin else (each.id, each.handler)] = each
        else:
            yield from put_back(context, each)
    return list(kept.values())


def put_back(context: Context, claimed: Claimed) -> Flow[None]:
    """Let go of a claim that was not used; no attempt is burned."""
    now = context.clock()
    yield from context.store.fail(
        claimed.id,
        claimed.handler,
        claimed.fence,
        status=Status.PENDING,
        due_at=now,
        error="",
        traceback="",
        now=now,
        attempts=claimed.attempts - 1,
    )


def renew_all(context: Context, claims: Sequence[Claimed], lease_ms: int) -> Flow[None]:
    """Longer leases for what is still in hand."""
    for each in claims:
        yield from context.store.renew(each.id, each.handler, each.fence, now=context.clock(), lease_ms=lease_ms)


def handle(context: Context, claimed: Claimed, handler: Handler, event: Event) -> Flow[Settled]:
    """Run *handler* on what was claimed, and settle it whatever happens."""
    yield Reached("after_claim")
    if claimed.attempts > handler.retry.attempts_max:
        # Every attempt was begun and none was ended: it kills its workers, so it is not begun once more.
        died = Reject(
            f"attempts_max: {claimed.attempts - 1} attempts were begun, and the last worker did not come back"
        )
        return (yield from fail(context, claimed, handler, died))
    try:
        status = yield from transaction(_apply(context, claimed, handler, event))
    except LeaseLost as lost:
        return Settled(status=Status.IN_PROGRESS, error=str(lost), counts=False, fenced=True)
    except OutOfTurn:
        return (yield from transaction(_reseat(context, claimed)))
    except Exception as error:
        return (yield from fail(context, claimed, handler, error))
    errors = (yield AfterCommit(event)) if event.hooks else []
    return Settled(status=status, hook_errors=tuple(errors), counts=status is Status.COMPLETED)


def _apply(context: Context, claimed: Claimed, handler: Handler, event: Event) -> Flow[Status]:
    store = context.store
    until: RowId | None = None
    if not handler.wants(claimed.message.type):
        status = Status.IGNORED  # it only counts in this key's sequence
    else:
        admitted = yield from before(context, claimed.message, handler, event)
        status = Status.COMPLETED if admitted else Status.STALE
        if admitted:
            until = yield from run(context, handler, claimed.message, claimed.key, event)
    if not (yield from store.complete(claimed.id, claimed.handler, claimed.fence, status, context.clock())):
        raise LeaseLost(f"{claimed.handler} lost its claim on {claimed.message.event_id}: its work was rolled back")
    yield from after(context, claimed.message, handler, claimed.key, claimed.seq, claimed.prev_seq, status)
    if until is not None:
        assert claimed.key is not None
        yield from store.coalesce(track_of(claimed.message, handler, claimed.key), until, context.clock())
    return status


def run(context: Context, handler: Handler, message: Message, key: str | None, event: Event) -> Flow[RowId | None]:
    """Call the handler; for thin events, the last row that its fetch will cover."""
    until: RowId | None = None
    if isinstance(handler.order, Refetch) and key is not None:
        yield from context.store.touch(track_of(message, handler, key))
        until = yield from context.store.latest_row()
    yield Handle(handler.fn, event)
    yield Reached("after_handler")
    if event.sent:
        yield Publish(event)
    return until


def before(context: Context, message: Message, handler: Handler, event: Event) -> Flow[bool]:
    """Whether the message may be applied now: False when something newer was. `OutOfTurn` when it must wait."""
    match handler.order:
        case InSequence():
            return (yield from _its_turn(context, message, handler))
        case Latest():
            return (yield from _is_newest(context, message, handler, event))
        case Refetch() | NoOrder():
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


def _is_newest(context: Context, message: Message, handler: Handler, event: Event) -> Flow[bool]:
    order = handler.order
    assert isinstance(order, Latest)
    key, at, tie = order.mark(message, lambda: document_of(message))
    if is_future(at, context.clock(), order.skew_ms):
        raise Reject(f"future_clock: the event's time is more than {order.skew_ms} ms ahead, and would win for ever")
    track = track_of(message, handler, key)
    if order.on_tie == "refetch":
        newest = yield from context.store.mark(track)
        if newest is not None and newest[0] == at:
            event.tied = True
            yield from context.store.newer(track, at, tie)
            return True
    return (yield from context.store.newer(track, at, tie))


def after(
    context: Context,
    message: Message,
    handler: Handler,
    key: str | None,
    seq: int | None,
    prev_seq: int | None,
    status: Status,
) -> Flow[None]:
    """A key that is taken in sequence moves on, and who waited for this message may be claimed."""
    if not isinstance(handler.order, InSequence) or key is None or seq is None or prev_seq is None:
        return
    track = track_of(message, handler, key)
    if status is not Status.STALE and not (yield from context.store.advance(track, prev_seq=prev_seq, seq=seq)):
        raise OutOfTurn(f"{message.event_id}: {key!r} moved while it was handled")
    yield from context.store.release(track, seq, context.clock())


def _reseat(context: Context, claimed: Claimed) -> Flow[Settled]:
    """Put a message that was out of turn where it belongs; no attempt is burned."""
    store, now = context.store, context.clock()
    assert claimed.key is not None
    assert claimed.seq is not None
    assert claimed.prev_seq is not None
    track = Track(claimed.message.source, claimed.message.tenant, claimed.handler, claimed.key)
    applied = yield from store.cursor(track, claimed.prev_seq)
    turn = whose_turn(seq=claimed.seq, prev_seq=claimed.prev_seq, applied=applied)
    if turn is Turn.PAST:
        yield from store.complete(claimed.id, claimed.handler, claimed.fence, Status.STALE, now)
        return Settled(status=Status.STALE, counts=False)
    status = Status.HELD if turn is Turn.EARLY else Status.PENDING
    yield from store.fail(
        claimed.id,
        claimed.handler,
        claimed.fence,
        status=status,
        due_at=now,
        error="waits for its predecessor" if turn is Turn.EARLY else "",
        traceback="",
        now=now,
        attempts=claimed.attempts - 1,
    )
    return Settled(status=status, counts=False)


def fail(context: Context, claimed: Claimed, handler: Handler, error: Exception) -> Flow[Settled]:
    """T3: what went wrong, and when it is tried again, if ever."""
    now = context.clock()
    failure = failure_of(error)
    sentence = judge_failure(
        failure,
        attempts=claimed.attempts,
        received_at=claimed.received_at,
        now=now,
        policy=handler.retry,
        roll=context.roll(),
    )
    recorded = yield from transaction(
        _record(context, claimed, handler, sentence.status, sentence.due_at, error, sentence.reason, now)
    )
    return Settled(
        status=sentence.status,
        error=text_of(error),
        retry_at=sentence.due_at if sentence.status is Status.FAILED else None,
        counts=isinstance(failure, Transient),
        fenced=not recorded,
    )


def _record(
    context: Context,
    claimed: Claimed,
    handler: Handler,
    status: Status,
    due_at: Instant,
    error: Exception,
    reason: str | None,
    now: Instant,
) -> Flow[bool]:
    recorded = yield from context.store.fail(
        claimed.id,
        claimed.handler,
        claimed.fence,
        status=status,
        due_at=due_at,
        error=text_of(error) if reason is None else f"{reason}: {text_of(error)}"[:1000],
        traceback=traceback_of(error),
        now=now,
    )
    if recorded and status is Status.DEAD:
        yield from after_death(context, claimed, handler)
    return recorded


def after_death(context: Context, claimed: Claimed, handler: Handler) -> Flow[None]:
    """What a dead letter does to its key, by the handler's policy; the default is nothing: the key waits."""
    order = handler.order
    if not isinstance(order, InSequence) or order.on_dead == OnDead.BLOCK:
        return
    if claimed.key is None or claimed.seq is None or claimed.prev_seq is None:
        return
    if order.on_dead == OnDead.RESYNC:
        yield from resync(order, claimed.message, claimed.key)
    track = track_of(claimed.message, handler, claimed.key)
    if (yield from context.store.advance(track, prev_seq=claimed.prev_seq, seq=claimed.seq)):
        yield from context.store.release(track, claimed.seq, context.clock())


def resync(order: InSequence, message: Message | None, key: str) -> Flow[None]:
    """Let the application fetch the state of *key*, in the transaction that then moves the cursor."""
    assert order.resync is not None
    fetch = order.resync
    placeholder = Event(message or _NOBODY, attempt=1, received_at=Instant(0))
    yield Handle(lambda _, tx: fetch(key, tx), placeholder)


_NOBODY = Message(source="", event_id="", type="", body=b"")


def track_of(message: Message, handler: Handler, key: str) -> Track:
    """Where *handler* stands with *key*."""
    return Track(message.source, message.tenant, handler.name, key[:512])


def document_of(message: Message) -> Any:
    """The JSON of *message*; None for a form."""
    try:
        return read_json(message.body)
    except Unreadable:
        return None


__all__ = ["Context", "OutOfTurn", "Settled", "after", "before", "fail", "handle", "run", "track_of"]
