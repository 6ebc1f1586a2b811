"""T1: the message is stored, and that insert is the dedup; only then is it acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from hooklane.core.verify import Dedup, Poison
from hooklane.core.verify.document import Unreadable, read_json
from hooklane.model.clock import Instant
from hooklane.model.inbox import Identity, Known, NewHandling, NewRow, RowId, Track
from hooklane.model.message import Message, Status, Verdict
from hooklane.receiver.drive import transaction
from hooklane.receiver.order import InSequence, Refetch, key_of
from hooklane.receiver.receipt import Receipt
from hooklane.receiver.source import Handler, Source
from hooklane.store.inbox import Flow, InboxStore

STATE_HANDLER = ""
"""The tracks that hold an entity's current state token belong to no handler."""
KEY_CHARS_MAX = 512


@dataclass(frozen=True)
class Arrival:
    """A verified message on its way in, with what must be known to store it."""

    source: Source
    message: Message
    headers: tuple[tuple[str, str], ...]
    received_at: Instant
    poison: str | None = None

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
        return cls(source, source.scoped(item), headers, now)

    @cached_property
    def document(self) -> Any:
        """The JSON of the message, for orders that look into it."""
        try:
            return read_json(self.message.body)
        except Unreadable:
            return None  # a form: its fields are not looked into

    @property
    def identity(self) -> Identity:
        return Identity(self.message.source, self.message.tenant, self.message.event_id)

    def track(self, handler: Handler, key: str) -> Track:
        """Where *handler* stands with *key*."""
        return Track(self.message.source, self.message.tenant, handler.name, key[:KEY_CHARS_MAX])

    def standing(self) -> tuple[Status, str | None]:
        """The status of a row that no handler will see, or `pending`."""
        if self.poison is not None:
            return Status.DEAD, f"poison: {self.poison}"
        rules = self.source.rules
        if is_too_old(self.message.event_time, now=self.received_at, age_ms_max=rules.event_age_ms_max):
            return Status.TOO_OLD, "the event is older than the window in which duplicates are recognised"
        return Status.PENDING, None

    def handlers(self) -> list[Handler]:
        """Who must see it: those whose pattern matches, and those who count this key's events without gaps."""
        message = self.message
        return [
            handler
            for handler in self.source.handlers.values()
            if handler.wants(message.type) or self.sequence_of(handler) is not None
        ]

    def sequence_of(self, handler: Handler) -> tuple[str, int, int] | None:
        """(key, seq, prev_seq) where *handler* takes this message in sequence."""
        if not isinstance(handler.order, InSequence):
            return None
        return handler.order.place(self.message, lambda: self.document)


@dataclass(frozen=True, slots=True)
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
    rows: dict[int, NewRow] = {}
    verdicts: dict[int, Verdict] = {}
    for number, arrival in enumerate(arrivals):
        variant = yield from guard(store, arrival, now)
        if variant is None:
            receipts[number] = Receipt(message=arrival.message, verdict=Verdict.DUPLICATE)
            continue
        status, reason = arrival.standing()
        planned: list[_Standing] = []
        if status is Status.PENDING:
            planned = yield from _plan(store, arrival, rows, now)
            status = Status.PENDING if planned else Status.IGNORED
        verdicts[number] = _VERDICT_OF_ROW.get(status) or _verdict(planned)
        rows[number] = NewRow(
            message=arrival.message,
            received_at=arrival.received_at,
            variant=variant,
            status=status,
            reason=reason,
            headers=arrival.headers,
            handlings=tuple(each.handling for each in planned),
        )
    ids = (yield from store.insert(list(rows.values()))) if rows else []
    copies: list[int] = []
    for number, id in zip(rows, ids, strict=True):
        if id is None:
            copies.append(number)
        else:
            receipts[number] = Receipt(message=arrivals[number].message, verdict=verdicts[number], id=id)
    if copies:
        known = yield from store.known([arrivals[number].identity for number in copies])
        for number, first in zip(copies, known, strict=True):
            receipts[number] = yield from judge(store, arrivals[number], first)
    return [receipts[number] for number in range(len(arrivals))]


def guard(store: InboxStore, arrival: Arrival, now: Instant) -> Flow[str | None]:
    """The variant under which the message is kept, or None when it is a duplicate although its id may be new."""
    message = arrival.message
    by_state = arrival.source.rules.dedup is Dedup.STATE_TOKEN and message.key is not None and arrival.poison is None
    if not message.id_signed and not by_state:  # a state that returns has the bytes that it had before
        digest = digest_of(message.body)
        earlier = yield from store.remember(message.source, message.tenant, digest, message.event_id, now)
        if earlier is not None:
            return None
    if by_state:
        assert message.key is not None
        track = Track(message.source, message.tenant, STATE_HANDLER, message.key)
        generation = yield from store.turn(track, message.event_id)
        return None if generation is None else state_variant(generation)
    return ""


def judge(store: InboxStore, arrival: Arrival, first: Known | None) -> Flow[Receipt]:
    """A message whose identity was there: the same again, or another body under the same id, which is kept apart."""
    message = arrival.message
    id = None if first is None else first.id
    if first is None or judge_copy(first=first.fingerprint, second=message.fingerprint) is Copy.DUPLICATE:
        return Receipt(message=message, verdict=Verdict.DUPLICATE, id=id)
    row = NewRow(
        message=message,
        received_at=arrival.received_at,
        variant=conflict_variant(message.fingerprint),
        status=Status.CONFLICT,
        reason="another body arrived before under this id",
        headers=arrival.headers,
    )
    (kept,) = yield from store.insert([row])
    return Receipt(message=message, verdict=Verdict.CONFLICT, id=kept)


def _plan(store: InboxStore, arrival: Arrival, batch: dict[int, NewRow], now: Instant) -> Flow[list[_Standing]]:
    planned: list[_Standing] = []
    for handler in arrival.handlers():
        wanted = handler.wants(arrival.message.type)
        handling = NewHandling(handler=handler.name, due_at=now)
        place = arrival.sequence_of(handler)
        if place is not None:
            standing = yield from _in_sequence(store, arrival, handler, place, handling, batch, now)
            planned.append(standing if wanted else replace(standing, verdict=Verdict.IGNORED))
            continue
        if isinstance(handler.order, Refetch):
            key = key_of(handler.order.key, arrival.message, lambda: arrival.document)
            handling = replace(handling, key=None if key is None else key[:KEY_CHARS_MAX])
        planned.append(_Standing(handling, Verdict.STORED))
    return planned


def _in_sequence(
    store: InboxStore,
    arrival: Arrival,
    handler: Handler,
    place: tuple[str, int, int],
    handling: NewHandling,
    batch: dict[int, NewRow],
    now: Instant,
) -> Flow[_Standing]:
    key, seq, prev_seq = place
    track = arrival.track(handler, key)
    applied = yield from store.cursor(track, baseline_of(handler, prev_seq))
    handling = replace(handling, key=track.key, seq=seq, prev_seq=prev_seq)
    match whose_turn(seq=seq, prev_seq=prev_seq, applied=applied):
        case Turn.READY:
            return _Standing(handling, Verdict.STORED)
        case Turn.PAST:
            return _Standing(replace(handling, status=Status.STALE, settled_at=now), Verdict.STALE)
        case Turn.EARLY:
            # Its turn comes when its predecessor is applied. Only if that is not even here is there a gap to tell of.
            here = _in_batch(batch, track, prev_seq) or (yield from store.arrived(track, prev_seq))
            return _Standing(replace(handling, status=Status.HELD), Verdict.STORED if here else Verdict.HELD)


def baseline_of(handler: Handler, prev_seq: int) -> int:
    """Where a key that was never seen begins: right before its first message, or at the very start."""
    assert isinstance(handler.order, InSequence)
    return prev_seq if handler.order.baseline == "any" else 0


def _in_batch(batch: dict[int, NewRow], track: Track, seq: int) -> bool:
    return any(
        row.message.source == track.source
        and row.message.tenant == track.tenant
        and any(
            each.handler == track.handler and each.key == track.key and each.seq == seq and each.status in _WAITING
            for each in row.handlings
        )
        for row in batch.values()
    )


_WAITING = (Status.PENDING, Status.HELD)


def _verdict(planned: Sequence[_Standing]) -> Verdict:
    verdicts = {each.verdict for each in planned}
    for verdict in (Verdict.HELD, Verdict.STORED, Verdict.STALE):
        if verdict in verdicts:
            return verdict
    return Verdict.IGNORED


def seen(store: InboxStore, arrivals: Sequence[Arrival]) -> Flow[list[Known | None]]:
    """What is known already: a look that changes nothing."""
    return (yield from store.known([arrival.identity for arrival in arrivals]))


__all__ = ["Arrival", "RowId", "baseline_of", "guard", "judge", "receive", "seen"]
