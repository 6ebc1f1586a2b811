"""How is an event handled? Handler and completion of the claim are one transaction, the record of a failure another."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.core.admission.failures import Sentence, Transient, backoff_ms, judge_failure
from hooklane.core.admission.turns import OnDead, Turn, whose_turn
from hooklane.errors import LeaseLost, Reject, StoreError
from hooklane.model.clock import Instant
from hooklane.model.inbox import Claimed, RowId, Track
from hooklane.model.message import Message, Status
from hooklane.model.size import counted
from hooklane.receiver.arrival import track_of
from hooklane.receiver.event import Event
from hooklane.receiver.failure import failure_of, place_of, text_of, traceback_of
from hooklane.receiver.flows.context import Context
from hooklane.receiver.flows.order import OutOfTurn, after, before, late_place, resync
from hooklane.receiver.order import InSequence, Refetch
from hooklane.receiver.source import Handler
from hooklane.receiver.steps import AFTER_CLAIM, AfterCommit, Handle, HandlerFailed, Publish, transaction
from hooklane.store.inbox import Flow
from hooklane.telemetry.tracing import traced

_WAITS = "waits for its predecessor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """How a handling ended, for telemetry and the breaker."""

    status: Status
    error: str | None = None
    raised_at: str | None = None
    retry_at: Instant | None = None
    counts: bool = True
    """Whether it says something about the handler's dependencies; a poison event, a deadlock or a wait does not."""
    fenced: bool = False
    """Another worker had taken the claim over: this one's work was rolled back."""
    hook_errors: tuple[BaseException, ...] = ()


def handle(context: Context, claimed: Claimed, handler: Handler, event: Event) -> Flow[Settled]:
    """Run *handler* on what was claimed, and settle it whatever happens."""
    yield AFTER_CLAIM
    if claimed.attempts > handler.retry.attempts_max:
        # Every attempt was begun and none was ended: it kills its workers, so it is not begun once more.
        died = Reject(
            f"attempts_max: {counted(claimed.attempts - 1, 'attempt was', 'attempts were')} begun, and the last worker"
            " did not come back"
        )
        return (yield from fail(context, claimed, handler, died))
    try:
        status = yield from transaction(_apply(context, claimed, handler, event))
    except LeaseLost as lost:
        return Settled(status=Status.IN_PROGRESS, error=str(lost), counts=False, fenced=True)
    except OutOfTurn:
        return (yield from transaction(_reseat(context, claimed, handler)))
    except Exception as error:
        return (yield from fail(context, claimed, handler, error))
    errors = (yield AfterCommit(event)) if event.hooks else []
    return Settled(status=status, hook_errors=(*event.hook_errors, *errors), counts=status is Status.COMPLETED)


def _apply(context: Context, claimed: Claimed, handler: Handler, event: Event) -> Flow[Status]:
    store = context.store
    until: RowId | None = None
    place: tuple[str | None, int | None, int | None] = (claimed.key, claimed.seq, claimed.prev_seq)
    if not handler.wants(claimed.message.type):
        status = Status.IGNORED  # it only counts in this key's sequence
    else:
        if claimed.seq is None:
            place = (yield from late_place(context, claimed.message, handler)) or place
        admitted = yield from before(context, claimed.message, handler, event)
        status = Status.COMPLETED if admitted else Status.STALE
        if admitted:
            until = yield from run(context, handler, claimed.message, claimed.key, event)
    if not (yield from store.complete(claimed.id, claimed.handler, claimed.fence, status, context.clock())):
        raise LeaseLost(f"{claimed.handler} lost its claim on {claimed.message.event_id}: its work was rolled back")
    yield from after(context, claimed.message, handler, *place, status)
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
    # What an earlier run of the same attempt left was rolled back with it (inline, when the commit was refused).
    event.sent.clear()
    event.hooks.clear()
    event.is_over = False
    try:
        yield Handle(traced(handler.fn, event), event)
    finally:
        event.is_over = True
    if event.sent:
        yield Publish(event)
    return until


def _reseat(context: Context, claimed: Claimed, handler: Handler) -> Flow[Settled]:
    """Put a message that was out of turn where it belongs; no attempt is burned."""
    now = context.clock()
    if claimed.seq is None:  # its predecessor cannot release what was stored without its place, so it asks again
        due_at = Instant(now + backoff_ms(claimed.attempts + claimed.given_back, handler.retry, context.roll()))
        yield from context.fail(claimed, Status.FAILED, due_at, attempts=claimed.attempts - 1, error=_WAITS)
        return Settled(status=Status.FAILED, counts=False, retry_at=due_at)
    assert claimed.key is not None
    assert claimed.seq is not None
    assert claimed.prev_seq is not None
    track = Track(claimed.message.source, claimed.message.account, claimed.handler, claimed.key)
    applied = yield from context.store.cursor(track, claimed.prev_seq)
    turn = whose_turn(seq=claimed.seq, prev_seq=claimed.prev_seq, applied=applied)
    status = Status.HELD if turn is Turn.EARLY else Status.PENDING  # and what was passed by is found stale at once
    yield from context.fail(claimed, status, now, attempts=claimed.attempts - 1, error=_WAITS)
    return Settled(status=status, counts=False)


def fail(context: Context, claimed: Claimed, handler: Handler, raised: Exception) -> Flow[Settled]:
    """Record in a transaction of its own what went wrong, and when it is tried again, if ever."""
    now = context.clock()
    error = raised.error if isinstance(raised, HandlerFailed) else raised
    failure = failure_of(error)
    sentence = judge_failure(
        failure,
        attempts=claimed.attempts,
        received_at=Instant(claimed.received_at + now - context.believed(now)),
        now=now,
        policy=handler.retry,
        roll=context.roll(),
        given_back=claimed.given_back,
    )
    try:
        recorded = yield from transaction(_record(context, claimed, handler, sentence, error))
    except StoreError:
        raise
    except Exception as unfetched:  # the application's resync
        return (yield from _put_off(context, claimed, handler, error, unfetched))
    return Settled(
        status=sentence.status,
        error=text_of(error),
        raised_at=place_of(error),
        retry_at=sentence.due_at if sentence.status is Status.FAILED else None,
        counts=isinstance(failure, Transient) and failure.after_ms is None,
        fenced=not recorded,
    )


def _record(
    context: Context,
    claimed: Claimed,
    handler: Handler,
    sentence: Sentence,
    error: BaseException,
) -> Flow[bool]:
    reason, text = sentence.reason, text_of(error)
    recorded = yield from context.fail(
        claimed,
        sentence.status,
        sentence.due_at,
        error=text if reason is None or reason in text else f"{reason}: {text}"[:1000],  # `Reject` tells its own
        traceback=traceback_of(error),
        attempts=sentence.attempts,
    )
    if recorded and sentence.status is Status.DEAD:
        yield from after_death(context, claimed, handler)
    return recorded


def _put_off(
    context: Context, claimed: Claimed, handler: Handler, cause: BaseException, error: Exception
) -> Flow[Settled]:
    """A dead letter's resync failed: its key may not go on without it, so the event and then the resync are tried
    again later; no attempt is burned."""
    now = context.clock()
    due_at = Instant(now + backoff_ms(claimed.attempts, handler.retry, context.roll()))
    told = f"resync: {text_of(error)}; after {text_of(cause)}"[:1000]
    flow = context.fail(
        claimed, Status.FAILED, due_at, attempts=claimed.attempts - 1, error=told, traceback=traceback_of(error)
    )
    recorded = yield from transaction(flow)
    return Settled(status=Status.FAILED, error=text_of(error), retry_at=due_at, fenced=not recorded)


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
