"""What is a message that has just arrived? Its identity, and its place in the order of each handler.

`flows/receive.py` stores it.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

from hooklane.core.admission.copies import Copy, is_too_old, judge_copy
from hooklane.core.verify.document import Unreadable, read_json
from hooklane.core.verify.messages import DERIVED, Poison
from hooklane.errors import Reject
from hooklane.model.clock import Instant
from hooklane.model.inbox import Identity, Known, Track
from hooklane.model.message import Message, Status
from hooklane.model.value import value
from hooklane.receiver.order import InSequence, Place, Refetch
from hooklane.receiver.source import Handler, Source


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
_AWAITED: tuple[Status, str | None] = (Status.PENDING, None)


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
        """Ask the application's order functions now: a message that they cannot read must be kept, not sent again."""
        for handler in self.handlers:
            self.stance(handler)

    @cached_property
    def document(self) -> Any:
        """The JSON of the message, for orders that look into it."""
        return document_of(self.message)

    @property
    def is_guarded(self) -> bool:
        """Whether its id alone does not tell if it is new: see `guard`."""
        return not self.message.id_signed or self.source.by_state

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
        """What a batch is sorted by before `guard` is asked: equal for all states of an entity, which stay in order."""
        source, account, id = self.name
        return (source, account, id if self.entity is None else self.entity)

    @property
    def entity(self) -> str | None:
        """The entity whose current state the event id stands for; None where the id stands for one event."""
        return self.message.key if self.source.by_state and self.poison is None else None

    def track(self, handler: Handler, key: str) -> Track:
        """Where *handler* stands with *key*."""
        return track_of(self.message, handler, key)

    def standing(self) -> tuple[Status, str | None]:
        """The status of a row that no handler will see, or `pending`."""
        if self.poison is not None:
            return Status.DEAD, f"poison: {self.poison}"
        rules = self.source.rules
        if is_too_old(self.message.event_time, now=self.received_at, age_ms_max=rules.event_age_ms_max):
            return Status.TOO_OLD, "the event is older than the window in which duplicates are recognised"
        return _AWAITED

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


def track_of(message: Message, handler: Handler, key: str) -> Track:
    """Where *handler* stands with *key*."""
    return Track(message.source, message.account, handler.name, key)


def document_of(message: Message) -> Any:
    """The JSON of *message*; None for a form, whose fields are not looked into."""
    try:
        return read_json(message.body)
    except Unreadable:
        return None
