"""T1: the message is stored, and that insert is the dedup; only then is it acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hooklane.core.admission.copies import (
    Copy,
    conflict_variant,
    digest_of,
    is_too_old,
    judge_copy,
    state_variant,
)
from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.core.verify.document import Unreadable, read_json
from hooklane.core.verify.messages import DERIVED, Poison
from hooklane.core.verify.profile import Dedup
from hooklane.errors import Reject
from hooklane.model.clock import Instant
from hooklane.model.inbox import Identity, Known, NewHandling, NewRow, Track
from hooklane.model.message import Message, Status, Verdict
from hooklane.model.value import value
from hooklane.receiver.failure import text_of, traceback_of
from hooklane.receiver.order import InSequence, Place, Refetch
from hooklane.receiver.receipt import Receipt
from hooklane.receiver.source import Handler, Source
from hooklane.receiver.steps import transaction
from hooklane.store.inbox import Flow, InboxStore

STATE_HANDLER = ""
"""The tracks that hold an entity's current state token belong to no handler."""
KEY_CHARS_MAX = 512


@value(frozen=True, slots=True)
class Stance:
    """What a message is to one handler: where it stands in its sequence, or of which key it is a hint."""

    place: Place | None = None
    """(key, seq, prev_seq) where the handler takes it in sequence."""
    hint: str | None = None
    """The key about which it is a hint to a handler that fetches."""
    misfit: Reject | None = None
    """Why the handler, which wants it, cannot tell where it belongs: it is a dead letter of that one."""

    @property
    def key(self) -> str | None:
        """The key that the handler orders by."""
        return self.hint if self.place is None else self.place[0]


_ANYWHERE = Stance()


@value(frozen=True)
class Arrival:
    """A verified message on its way in, with what must be known to store it."""

    source: Source
    message: Message
    headers: tuple[tuple[str, str], ...]
    received_at: Instant
    poison: str | None = None
    _stances: dict[str, Stance] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What it is to each handler that was asked about."""

    @classmethod
    def of(cls, source: Source, item: Message | Poison, headers: tuple[tuple[str, str], ...], now: Instant) -> Arrival:
        if isinstance(item, Poison):
            message = Message(
                source=source.name,
                event_id=item.event_id,
                type="unknown",
                body=item.body,
                fingerprint=item.fingerprint,
                id_signed=item.id_signed,
            )
            return cls(source, message, headers, now, item.reason)
        try:
            arrival = cls(source, source.scoped(item), headers, now)
            arrival.look()
        except Exception as problem:  # the application's own function; whatever it raises is about this event
            return cls(source, item, headers, now, f"{type(problem).__name__} while looking where it belongs")
        return arrival

    def look(self) -> None:
        """Ask now what the application's functions say of it: what they cannot read must be kept, not sent again."""
        for handler in self.handlers:
            self.stance(handler)

    @cached_property
    def document(self) -> Any:
        """The JSON of the message, for orders that look into it."""
        try:
            return read_json(self.message.body)
        except Unreadable:
            return None  # a form: its fields are not looked into

    @property
    def is_guarded(self) -> bool:
        """Whether its id alone does not tell if it is new: see `guard`."""
        return not self.message.id_signed or self.source.rules.dedup is Dedup.STATE_TOKEN

    @property
    def topic(self) -> str:
        """Its type, where its id does not stand for one event: the id was not signed, or was made of the bytes."""
        is_named = self.message.id_signed and not self.message.event_id.startswith(DERIVED)
        return "" if is_named or self.poison is not None else self.message.type

    def as_copy_of(self, first: Known) -> Copy:
        """What it is beside *first*, which has its identity."""
        second = self.message.fingerprint
        return judge_copy(first=first.fingerprint, second=second, first_topic=first.type, second_topic=self.topic)

    @property
    def identity(self) -> Identity:
        return self.identity_as("")

    def identity_as(self, variant: str) -> Identity:
        """Its identity under *variant*."""
        return Identity(self.message.source, self.message.account, self.message.event_id, variant)

    @property
    def name(self) -> tuple[str, str, str]:
        """Source, account and event id."""
        return (self.message.source, self.message.account, self.message.event_id)

    @property
    def guarded_by(self) -> tuple[str, str, str]:
        """What `guard` asks by. States of one entity have the same, and are asked about as they came."""
        source, account, id = self.name
        return (source, account, id if self.entity is None else self.entity)

    @property
    def entity(self) -> str | None:
        """Whose state its id stands for, if it does."""
        by_state = self.source.rules.dedup is Dedup.STATE_TOKEN and self.poison is None
        return self.message.key if by_state else None

    def track(self, handler: Handler, key: str) -> Track:
        """Where *handler* stands with *key*."""
        return Track(self.message.source, self.message.account, handler.name, key[:KEY_CHARS_MAX])

    def standing(self) -> tuple[Status, str | None]:
        """The status of a row that no handler will see, or `pending`."""
        if self.poison is not None:
            return Status.DEAD, f"poison: {self.poison}"
        rules = self.source.rules
        if is_too_old(self.message.event_time, now=self.received_at, age_ms_max=rules.event_age_ms_max):
            return Status.TOO_OLD, "the event is older than the window in which duplicates are recognised"
        return Status.PENDING, None

    @property
    def handlers(self) -> list[Handler]:
        """The handlers that must see it: by their pattern, or because they count this key's events without gaps."""
        found: list[Handler] | None = self.__dict__.get("_handlers")
        if found is None:
            type = self.message.type
            found = [
                handler
                for handler in self.source.handlers.values()
                if handler.wants(type) or (isinstance(handler.order, InSequence) and self.stance(handler).place)
            ]
            self.__dict__["_handlers"] = found  # as `cached_property` does, without its lock
        return found

    def stance(self, handler: Handler) -> Stance:
        """What it is to *handler*; the application's functions are asked once."""
        found = self._stances.get(handler.name)
        if found is None:
            found = self._stances[handler.name] = self._ask(handler)
        return found

    def _ask(self, handler: Handler) -> Stance:
        order = handler.order
        try:
            if isinstance(order, InSequence):
                place = order.place(self.message, lambda: self.document)
                return _ANYWHERE if place is None else Stance(place)
            if isinstance(order, Refetch):
                return Stance(hint=order.hint(self.message, lambda: self.document))
        except Reject as misfit:
            # A function that was written for the types of its handler may raise on every other: no place there.
            if handler.wants(self.message.type):
                return Stance(misfit=misfit)
        return _ANYWHERE


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
