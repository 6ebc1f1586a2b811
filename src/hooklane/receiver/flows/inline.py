"""Inline mode: store, handle and complete in one transaction, the application's; only a failure needs a second one.

A duplicate is never told that all is well while its owner has not committed: it waits a little, then is sent away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hooklane.core.admission.copies import Copy
from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.errors import CommitRefused, LeaseLost, StoreBusy, StoreError, TransactionMisused
from hooklane.model.clock import Instant, boot_now
from hooklane.model.inbox import SETTLED, Claimed, Handling, Known, NewHandling, NewRow, RowId
from hooklane.model.message import Status, Verdict
from hooklane.model.value import value
from hooklane.receiver.arrival import Arrival
from hooklane.receiver.event import Event
from hooklane.receiver.failure import failure_of
from hooklane.receiver.flows.context import Context
from hooklane.receiver.flows.handle import Settled, fail, run
from hooklane.receiver.flows.order import OutOfTurn, after, before
from hooklane.receiver.flows.receive import FRESH, baseline_of, guard, judge, judge_repeat
from hooklane.receiver.order import Latest, Refetch
from hooklane.receiver.receipt import Receipt
from hooklane.receiver.source import Handler
from hooklane.receiver.steps import AFTER_CLAIM, AFTER_COMMIT, COMMIT, ROLLBACK, AfterCommit, Begin, Wait, transaction
from hooklane.store.inbox import Flow

POLL_MS = 40
# Names of this module: in Python 3.11 a member that is looked up in its enum takes ten times as long as a name.
COMPLETED, PENDING, APPLIED = Status.COMPLETED, Status.PENDING, Verdict.APPLIED


@dataclass(frozen=True, slots=True, kw_only=True)
class Inline:
    """How inline mode waits and for how long its failures are leased."""

    wait_ms: int = 2_000
    lease_ms: int = 60_000


@value(frozen=True, slots=True)
class Outcome:
    """The receipt of one handler's turn; *settled* when the handler ran, *error* when its work was rolled back."""

    receipt: Receipt
    settled: Settled | None = None
    error: Exception | None = None


class _Busy(Exception):
    """Another request or worker is at work on this message; *retry_after_s* when it is known until when at most."""

    def __init__(self, retry_after_s: int = 1) -> None:
        super().__init__()
        self.retry_after_s = retry_after_s


def _as_often_as_it_takes() -> bool:
    return False


def apply(
    context: Context,
    arrival: Arrival,
    handler: Handler,
    event: Event,
    rules: Inline,
    is_over: Callable[[], bool] = _as_often_as_it_takes,
) -> Flow[Outcome]:
    """Take *arrival* through *handler*, or find that this was done; wait for another copy that is at it.

    *is_over*: whether a handler that cannot be called again, the block of a claim by hand, has had its turn. What was
    in the way of its commit is raised then.
    """
    deadline = boot_now() + rules.wait_ms
    while True:
        try:
            return (yield from _attempt(context, arrival, handler, event, rules))
        except _Busy as busy:
            if is_over():
                lost = f"{handler.name} lost its claim on {arrival.message.event_id}: its work was rolled back"
                raise LeaseLost(lost) from None
            if boot_now() >= deadline:
                return Outcome(_receipt(arrival, Verdict.BUSY, retry_after_s=busy.retry_after_s))
            yield Wait(POLL_MS)
        except StoreBusy:
            # A writer is busy with other handlers; nothing was stored.
            if is_over():
                raise
            if boot_now() >= deadline:
                return Outcome(_receipt(arrival, Verdict.BUSY, retry_after_s=1))
            yield Wait(POLL_MS)


def _attempt(context: Context, arrival: Arrival, handler: Handler, event: Event, rules: Inline) -> Flow[Outcome]:
    watched = yield Begin(rules.wait_ms)
    try:
        receipt = yield from _within(context, arrival, handler, event, rules, watched)
        yield COMMIT
    except OutOfTurn:
        yield ROLLBACK
        return (yield from transaction(_gap(context, arrival, handler)))
    except CommitRefused as error:
        yield ROLLBACK
        return (yield from _fail(context, arrival, handler, error, rules))
    except (_Busy, StoreError):
        yield ROLLBACK
        raise
    except Exception as error:
        yield ROLLBACK
        return (yield from _fail(context, arrival, handler, error, rules))
    except BaseException:
        yield ROLLBACK
        raise
    if watched:
        yield AFTER_COMMIT
    if receipt.verdict is not APPLIED:
        return Outcome(receipt)
    if not event.hooks and not event.hook_errors:
        return Outcome(receipt, _COMPLETED)
    errors = yield AfterCommit(event)
    return Outcome(receipt, Settled(status=Status.COMPLETED, hook_errors=(*event.hook_errors, *errors)))


def _within(
    context: Context, arrival: Arrival, handler: Handler, event: Event, rules: Inline, watched: bool
) -> Flow[Receipt]:
    store, now = context.store, context.clock()
    if store.capabilities.locks and not (yield from store.try_lock(arrival.identity)):
        raise _Busy
    leased = not store.capabilities.transactional
    if watched and not leased:
        yield AFTER_CLAIM
    is_latest, stance = isinstance(handler.order, Latest), arrival.stance(handler)
    if is_latest or stance.misfit is not None or not arrival.message.id_signed:
        # Look first: the mark of the newest, or a tombstone, would take a retried message for its own duplicate; and a
        # copy of one that could not be placed is not told so again.
        (known,) = yield from store.known([arrival.identity])
        if known is not None:
            return (yield from _again(context, arrival, handler, event, known, rules))
    guarded = (yield from guard(store, arrival, now)) if arrival.is_guarded else FRESH
    if not guarded.fresh:
        # The state that the entity is in may be the one that another handler, or another attempt, has still to apply.
        (known,) = yield from store.known([arrival.identity_as(guarded.variant)])
        if known is not None:
            return (yield from _again(context, arrival, handler, event, known, rules))
        return (yield from judge_repeat(store, arrival, guarded))
    event.variant = guarded.variant
    # Applied when it comes, whatever came before.
    is_unordered = stance.place is None and stance.misfit is None and not is_latest
    admitted = is_unordered or (yield from _admit(context, arrival, handler, event))
    status = _status(arrival, handler, admitted)
    row = _row(arrival, guarded.variant, handler, status, now, rules)
    (id,) = yield from store.insert([_leased(row, now, rules) if leased else row])
    if id is None:
        (known,) = yield from store.known([arrival.identity_as(guarded.variant)])
        if known is None:
            raise _Busy
        return (yield from _again(context, arrival, handler, event, known, rules))
    if watched and leased:
        yield AFTER_CLAIM
    if status is COMPLETED:
        yield from _run(context, arrival, handler, event)
    if leased and not (yield from store.complete(id, handler.name, 1, status, context.clock())):
        raise LeaseLost(f"{handler.name} lost its claim on {arrival.message.event_id}")
    if stance.place is not None:
        yield from _move_on(context, arrival, handler, status)
    return Receipt(message=arrival.message, verdict=_VERDICTS[status], id=id)


def _again(
    context: Context, arrival: Arrival, handler: Handler, event: Event, known: Known, rules: Inline
) -> Flow[Receipt]:
    """The row is there: a duplicate, a conflict, a failure to try again, or a handler that has not seen it yet."""
    store, now = context.store, context.clock()
    if arrival.as_copy_of(known) is Copy.CONFLICT:
        return (yield from judge(store, arrival, known))
    handling = known.of(handler.name)
    if handling is None or handling.status in SETTLED:
        return _receipt(arrival, Verdict.DUPLICATE, id=known.id)
    claimed = yield from store.claim_one(known.id, handler.name, now=now, lease_ms=rules.lease_ms)
    if claimed is None:
        raise _Busy(_left_s(handling, now))
    event.attempt, event.variant = claimed.attempts, claimed.variant
    if not store.capabilities.transactional:
        yield AFTER_CLAIM
    admitted = yield from _admit(context, arrival, handler, event)
    status = _status(arrival, handler, admitted)
    if status is COMPLETED:
        yield from _run(context, arrival, handler, event)
    if not (yield from store.complete(known.id, handler.name, claimed.fence, status, context.clock())):
        raise _Busy
    yield from _move_on(context, arrival, handler, status)
    return _receipt(arrival, _VERDICTS[status], id=known.id)


_COMPLETED = Settled(status=Status.COMPLETED)

_VERDICTS = {
    Status.COMPLETED: Verdict.APPLIED,
    Status.STALE: Verdict.STALE,
    Status.IGNORED: Verdict.IGNORED,
}


def _status(arrival: Arrival, handler: Handler, admitted: bool) -> Status:
    """How the handling ends if nothing goes wrong. A message out of its time is stale, also for a handler that only
    counts its key's events."""
    if not admitted:
        return Status.STALE
    return COMPLETED if handler.wants(arrival.message.type) else Status.IGNORED


def _admit(context: Context, arrival: Arrival, handler: Handler, event: Event) -> Flow[bool]:
    stance = arrival.stance(handler)
    if stance.misfit is not None:
        raise stance.misfit
    if stance.place is not None:
        key, _, prev_seq = stance.place
        yield from context.store.cursor(arrival.track(handler, key), baseline_of(handler, prev_seq))
    return (yield from before(context, arrival.message, handler, event))


def _run(context: Context, arrival: Arrival, handler: Handler, event: Event) -> Flow[RowId | None]:
    if not isinstance(handler.order, Refetch):
        return run(context, handler, arrival.message, None, event)
    return _refetch(context, arrival, handler, event)


def _refetch(context: Context, arrival: Arrival, handler: Handler, event: Event) -> Flow[RowId | None]:
    key = arrival.stance(handler).hint
    until = yield from run(context, handler, arrival.message, key, event)
    if until is not None and key is not None:
        yield from context.store.coalesce(arrival.track(handler, key), until, context.clock())
    return until


def _move_on(context: Context, arrival: Arrival, handler: Handler, status: Status) -> Flow[None]:
    place = arrival.stance(handler).place
    if place is not None:
        key, seq, prev_seq = place
        yield from after(context, arrival.message, handler, key, seq, prev_seq, status)


def _gap(context: Context, arrival: Arrival, handler: Handler) -> Flow[Outcome]:
    """Out of turn and nothing stored: the sender is told which seq is next."""
    place = arrival.stance(handler).place
    assert place is not None
    key, seq, prev_seq = place
    applied = yield from context.store.cursor(arrival.track(handler, key), baseline_of(handler, prev_seq))
    if whose_turn(seq=seq, prev_seq=prev_seq, applied=applied) is Turn.EARLY:
        return Outcome(_receipt(arrival, Verdict.HELD, expected_seq=applied + 1))
    # The key moved on meanwhile: by the next delivery it is this message's turn, or past it.
    return Outcome(_receipt(arrival, Verdict.BUSY, retry_after_s=1))


def _fail(context: Context, arrival: Arrival, handler: Handler, error: Exception, rules: Inline) -> Flow[Outcome]:
    """After the handler's work was rolled back: keep the message with its error; the sender's answer depends on it."""
    claimed = yield from transaction(_claim_failed(context, arrival, handler, error, rules))
    if claimed is None:  # another copy got through, or is at it
        return Outcome(_receipt(arrival, Verdict.BUSY, retry_after_s=1), error=error)
    settled = yield from fail(context, claimed, handler, error)
    if settled.status is Status.DEAD:
        return Outcome(_receipt(arrival, Verdict.REJECTED, id=claimed.id), settled, error)
    wait_ms = max(1, (settled.retry_at or context.clock()) - context.clock())
    asked = getattr(failure_of(error), "after_ms", None)
    seconds = math.ceil((wait_ms if asked is None else asked) / 1000)
    receipt = _receipt(arrival, Verdict.BUSY, id=claimed.id, retry_after_s=max(1, seconds))
    return Outcome(receipt, settled, error)


def _claim_failed(
    context: Context, arrival: Arrival, handler: Handler, error: Exception, rules: Inline
) -> Flow[Claimed | None]:
    store, now = context.store, context.clock()
    (known,) = yield from store.known([arrival.identity])
    guarded = FRESH
    if known is None:
        guarded = yield from guard(store, arrival, now)
        (known,) = yield from store.known([arrival.identity_as(guarded.variant)])
    if known is None:
        if not guarded.fresh:
            return None
        (id,) = yield from store.insert([_row(arrival, guarded.variant, handler, Status.PENDING, now, rules)])
        if id is None:
            return None
    else:
        id = known.id
        if isinstance(error, TransactionMisused):
            # The handler committed, and our row with it, as if all were well: that must not stand.
            yield from store.reopen(id, handler.name, now=now)
    return (yield from store.claim_one(id, handler.name, now=now, lease_ms=rules.lease_ms))


def _row(arrival: Arrival, variant: str, handler: Handler, status: Status, now: Instant, rules: Inline) -> NewRow:
    """The row to insert: this handler's handling as it will be at the commit, those of the other handlers as owed.

    The others' turn comes right after; they are due only later, so that a worker takes them only if we die.
    """
    handlings: tuple[NewHandling, ...] = (_handling(arrival, handler, status, now),)
    if len(arrival.handlers) > 1:
        later = Instant(now + rules.lease_ms)
        others = [other for other in arrival.handlers if other.name != handler.name]
        handlings += tuple(_handling(arrival, other, Status.PENDING, later) for other in others)
    return NewRow(
        message=arrival.message,
        received_at=arrival.received_at,
        variant=variant,
        headers=arrival.headers,
        handlings=handlings,
    )


def _leased(row: NewRow, now: Instant, rules: Inline) -> NewRow:
    """*row* as it must be written where it is seen before the commit: its first handling claimed, not settled."""
    lease = Instant(now + rules.lease_ms)
    mine = replace(row.handlings[0], status=Status.IN_PROGRESS, due_at=lease, attempts=1, fence=1, settled_at=None)
    return replace(row, handlings=(mine, *row.handlings[1:]))


def _handling(arrival: Arrival, handler: Handler, status: Status, due_at: Instant) -> NewHandling:
    stance = arrival.stance(handler)
    _, seq, prev_seq = stance.place or (None, None, None)
    return NewHandling(
        handler=handler.name,
        status=status,
        due_at=due_at,
        attempts=1 if status is COMPLETED else 0,
        key=stance.key,
        seq=seq,
        prev_seq=prev_seq,
        settled_at=None if status is PENDING else due_at,
    )


def _receipt(
    arrival: Arrival,
    verdict: Verdict,
    *,
    id: int | str | None = None,
    retry_after_s: int | None = None,
    expected_seq: int | None = None,
) -> Receipt:
    return Receipt(
        message=arrival.message, verdict=verdict, id=id, retry_after_s=retry_after_s, expected_seq=expected_seq
    )


def _left_s(handling: Handling, now: Instant) -> int:
    return max(1, math.ceil((handling.due_at - now) / 1000))


def loudest(outcomes: Sequence[Outcome]) -> Receipt:
    """One receipt for a message that several handlers saw: what must be sent again speaks first."""
    receipts = [outcome.receipt for outcome in outcomes]
    for receipt in receipts:
        if receipt.retry_after_s is not None or receipt.expected_seq is not None:
            return receipt
    for verdict in _SPEAKS:
        for receipt in receipts:
            if receipt.verdict is verdict:
                return receipt
    return receipts[0]


_SPEAKS = (
    Verdict.CONFLICT,
    Verdict.REJECTED,
    Verdict.APPLIED,
    Verdict.STALE,
    Verdict.DUPLICATE,
    Verdict.IGNORED,
)
