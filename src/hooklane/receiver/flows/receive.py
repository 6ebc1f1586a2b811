"""How is an arrival stored? In one transaction whose insert is the deduplication; only then is it acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hooklane.core.admission.copies import Copy, conflict_variant, digest_of, state_variant
from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.errors import Reject
from hooklane.model.clock import Instant
from hooklane.model.inbox import Known, NewHandling, NewRow, Track
from hooklane.model.message import Status, Verdict
from hooklane.model.value import value
from hooklane.receiver.arrival import Arrival
from hooklane.receiver.failure import text_of, traceback_of
from hooklane.receiver.order import InSequence
from hooklane.receiver.receipt import Receipt
from hooklane.receiver.source import Handler
from hooklane.receiver.steps import transaction
from hooklane.store.inbox import Flow, InboxStore

STATE_HANDLER = ""
"""The tracks that hold an entity's current state token belong to no handler."""


@value(frozen=True, slots=True)
class _Standing:
    """A handling as planned, and what it says to the sender."""

    handling: NewHandling
    verdict: Verdict


_VERDICT_OF_ROW = {Status.DEAD: Verdict.REJECTED, Status.TOO_OLD: Verdict.TOO_OLD, Status.IGNORED: Verdict.IGNORED}


def receive(store: InboxStore, arrivals: Sequence[Arrival], now: Instant) -> Flow[list[Receipt]]:
    """Store every arrival in one transaction; a receipt for each, in order."""
    return (yield from transaction(_receive(store, arrivals, now)))


def _receive(store: InboxStore, arrivals: Sequence[Arrival], now: Instant) -> Flow[list[Receipt]]:
    receipts: dict[int, Receipt] = {}
    variants: dict[int, str] = {}
    # In one order that all use: two batches with the same events would otherwise wait for each other.
    for number in sorted(range(len(arrivals)), key=lambda number: arrivals[number].guarded_by):
        guarded = yield from guard(store, arrivals[number], now)
        if guarded.fresh:
            variants[number] = guarded.variant
        else:
            receipts[number] = yield from judge_repeat(store, arrivals[number], guarded)
    fresh = [number for number in range(len(arrivals)) if number in variants]
    lines = yield from _lines(store, [arrivals[number] for number in fresh])
    rows: list[NewRow] = []
    verdicts: list[Verdict] = []
    for number in fresh:
        row, verdict = _row(arrivals[number], variants[number], lines, now)
        rows.append(row)
        verdicts.append(verdict)
    ids = (yield from store.insert(rows)) if rows else []
    copies: list[int] = []
    for number, id, verdict in zip(fresh, ids, verdicts, strict=True):
        if id is None:
            copies.append(number)
        else:
            receipts[number] = Receipt(message=arrivals[number].message, verdict=verdict, id=id)
    if copies:
        known = yield from store.known([arrivals[number].identity for number in copies])
        for number, first in zip(copies, known, strict=True):
            receipts[number] = yield from judge(store, arrivals[number], first)
    return [receipts[number] for number in range(len(arrivals))]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where the keys of a batch stand: the last applied seq of each track, and which predecessors are here."""

    applied: Mapping[Track, int]
    here: frozenset[tuple[Track, int]]


def _lines(store: InboxStore, arrivals: Sequence[Arrival]) -> Flow[_Lines]:
    """What must be known about the keys of *arrivals* that handlers take in sequence, locked until the commit."""
    baselines: dict[Track, int] = {}
    places: list[tuple[Track, int, int]] = []
    for arrival in arrivals:
        if arrival.standing()[0] is not Status.PENDING:
            continue
        for handler in arrival.handlers:
            place = arrival.stance(handler).place
            if place is not None:
                key, seq, prev_seq = place
                track = arrival.track(handler, key)
                places.append((track, seq, prev_seq))
                # The first sight of a key is where it begins, and of several in a batch the earliest.
                baseline = baseline_of(handler, prev_seq)
                baselines[track] = min(baseline, baselines.get(track, baseline))
    if not places:
        return _Lines({}, frozenset())
    applied = yield from store.cursors(baselines)
    missing = sorted(
        {(track, prev_seq) for track, seq, prev_seq in places if _turn(seq, prev_seq, applied[track]) is Turn.EARLY},
        key=str,
    )
    arrived = (yield from store.arrived(missing)) if missing else []
    here = {place for place, is_here in zip(missing, arrived, strict=True) if is_here}
    return _Lines(applied, frozenset(here | {(track, seq) for track, seq, _ in places}))


def _row(arrival: Arrival, variant: str, lines: _Lines, now: Instant) -> tuple[NewRow, Verdict]:
    """The row to insert, and the verdict if it is new."""
    status, reason = arrival.standing()
    planned = _plan(arrival, lines, now) if status is Status.PENDING else []
    if status is Status.PENDING and not planned:
        status = Status.IGNORED
    row = NewRow(
        message=arrival.message,
        received_at=arrival.received_at,
        variant=variant,
        status=status,
        reason=reason,
        headers=arrival.headers,
        handlings=tuple([each.handling for each in planned]),
    )
    return row, _VERDICT_OF_ROW.get(status) or _verdict(planned)


@dataclass(frozen=True, slots=True)
class Guarded:
    """Under which variant a message is kept; not *fresh*: its content was here before, if not its id."""

    variant: str
    fresh: bool
    earlier: str | None = None
    """The id under which its bytes came first."""


FRESH = Guarded("", True)


def guard(store: InboxStore, arrival: Arrival, now: Instant) -> Flow[Guarded]:
    """What an id alone does not tell: the bytes were here under another id, or the entity is in this state already."""
    message = arrival.message
    if arrival.entity is not None:
        # No tombstone here: a state that returns has the bytes that it had before.
        track = Track(message.source, message.account, STATE_HANDLER, arrival.entity)
        generation, turned = yield from store.turn(track, message.event_id)
        return Guarded(state_variant(generation, arrival.entity), turned)
    if not message.id_signed:
        token = message.delivery_id if arrival.source.profile.single_use else None
        digest = digest_of(message.body, message.type) if token is None else digest_of(token.encode())
        earlier = yield from store.remember(message.source, message.account, digest, message.event_id, now)
        return Guarded("", earlier is None, earlier)
    return FRESH


def judge_repeat(store: InboxStore, arrival: Arrival, guarded: Guarded) -> Flow[Receipt]:
    """A message that is not fresh. Under the id that its bytes first came with it is a copy. Under another id it may be
    a captured request, and it may be a second event that says the same: a person decides, so it is kept apart."""
    message, earlier = arrival.message, guarded.earlier
    if earlier is None:  # the state that its entity is in
        return Receipt(message=message, verdict=Verdict.DUPLICATE)
    if earlier == message.event_id:
        (first,) = yield from store.known([arrival.identity])
        return (yield from judge(store, arrival, first))
    return (yield from _keep_apart(store, arrival, f"the same was received before under the id {earlier}"))


def judge(store: InboxStore, arrival: Arrival, first: Known | None) -> Flow[Receipt]:
    """A message whose identity was there: the same again, or another body or topic under its id: kept apart."""
    message = arrival.message
    id = None if first is None else first.id
    if first is None or arrival.as_copy_of(first) is Copy.DUPLICATE:
        return Receipt(message=message, verdict=Verdict.DUPLICATE, id=id)
    other = "body" if first.fingerprint != message.fingerprint else "topic"
    return (yield from _keep_apart(store, arrival, f"another {other} arrived before under this id"))


def _keep_apart(store: InboxStore, arrival: Arrival, reason: str) -> Flow[Receipt]:
    """Keep the message with its bytes and apply it to nothing; a person may replay it."""
    message = arrival.message
    row = NewRow(
        message=message,
        received_at=arrival.received_at,
        variant=conflict_variant(message.fingerprint, arrival.topic),
        status=Status.CONFLICT,
        reason=reason,
        headers=arrival.headers,
    )
    (kept,) = yield from store.insert([row])
    return Receipt(message=message, verdict=Verdict.CONFLICT, id=kept)


def _plan(arrival: Arrival, lines: _Lines, now: Instant) -> list[_Standing]:
    """What each handler owes to the message, and since when."""
    planned: list[_Standing] = []
    for handler in arrival.handlers:
        stance = arrival.stance(handler)
        place = stance.place
        if place is not None:
            standing = _in_sequence(arrival.track(handler, place[0]), place, handler.name, lines, now)
            wanted = handler.wants(arrival.message.type)
            planned.append(standing if wanted else replace(standing, verdict=Verdict.IGNORED))
            continue
        if stance.misfit is not None:
            planned.append(_Standing(dead_from_the_start(handler, stance.misfit, now), Verdict.REJECTED))
            continue
        handling = NewHandling(handler=handler.name, due_at=now, key=stance.hint)
        planned.append(_Standing(handling, Verdict.STORED))
    return planned


def dead_from_the_start(handler: Handler, misfit: Reject, now: Instant) -> NewHandling:
    """What *handler* has of an event that it wants and cannot place: a dead letter, with the reason."""
    return NewHandling(
        handler=handler.name,
        status=Status.DEAD,
        due_at=now,
        settled_at=now,
        error=text_of(misfit),
        traceback=traceback_of(misfit),
    )


def _in_sequence(track: Track, place: tuple[str, int, int], handler: str, lines: _Lines, now: Instant) -> _Standing:
    _, seq, prev_seq = place
    handling = NewHandling(handler=handler, due_at=now, key=track.key, seq=seq, prev_seq=prev_seq)
    match _turn(seq, prev_seq, lines.applied[track]):
        case Turn.READY:
            return _Standing(handling, Verdict.STORED)
        case Turn.PAST:
            return _Standing(replace(handling, status=Status.STALE, settled_at=now), Verdict.STALE)
        case Turn.EARLY:
            # Its turn comes when its predecessor is applied. Only if that is not even here is there a gap to tell of.
            here = (track, prev_seq) in lines.here
            return _Standing(replace(handling, status=Status.HELD), Verdict.STORED if here else Verdict.HELD)


def _turn(seq: int, prev_seq: int, applied: int) -> Turn:
    return whose_turn(seq=seq, prev_seq=prev_seq, applied=applied)


def baseline_of(handler: Handler, prev_seq: int) -> int:
    """Where a key that was never seen begins: right before its first message, or at the very start."""
    assert isinstance(handler.order, InSequence)
    return prev_seq if handler.order.baseline == "any" else 0


def _verdict(planned: Sequence[_Standing]) -> Verdict:
    verdicts = {each.verdict for each in planned}
    for verdict in (Verdict.REJECTED, Verdict.HELD, Verdict.STORED, Verdict.STALE):
        if verdict in verdicts:
            return verdict
    return Verdict.IGNORED
