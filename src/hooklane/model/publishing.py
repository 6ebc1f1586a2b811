"""What is handed to a store to publish, and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.lane import Grown
from hooklane.model.owning import Span

UNKNOWN_ENDPOINT = "unknown_endpoint"
BATCH_END = "batch:"
"""How the name of a batch begins, which its last event has before that of its place."""

# The three below are made for every event, and a frozen dataclass takes three times as long to make.


@dataclass(slots=True)
class Draft:
    """An admitted event on its way in. *names* are what may not be used twice: an idempotency key, an own id."""

    event: Event
    asked: tuple[str, ...] | None = None
    """Explicit endpoints, instead of those whose filter matches."""
    names: tuple[str, ...] = ()
    digest: bytes = b""
    """A hash of type, key, endpoints and data: the same name with another digest is a conflict."""
    former: str | None = None
    """What an older hooklane called the first name: the same content under it is the same event."""

    @property
    def has_own_id(self) -> bool:
        """Whether the caller chose the id. It may be one that we gave to an earlier event, which has no name then."""
        return f"id:{self.event.id}" in self.names

    def repeats(self, found: Sequence[Holder | None]) -> Holder | Refused | None:
        """The event that it repeats, by who has each of its names; None where all of them are free.

        The names that are taken must be those of one event with this content and, where the caller chose one, this id.
        """
        taken = [one for one in found if one is not None]
        if not taken:
            return None
        first = taken[0]
        if any(one.digest != self.digest or one.n != first.n for one in taken):
            return OTHER_CONTENT
        if self.has_own_id and first.event_id not in (self.event.id, None):
            return OTHER_CONTENT
        if self.names[0].startswith(BATCH_END) and found[0] is not None and found[1] is None:
            return OTHER_CONTENT  # the end of its batch is taken, but not its place: the batch has grown
        return first

    def is_same(self, type_: str, key: str | None, data: bytes, endpoints: Iterable[str]) -> bool:
        """Whether it has the content of an event that is stored, and of which no digest was kept."""
        event = self.event
        is_where_asked = self.asked is None or set(self.asked) == set(endpoints)
        return is_where_asked and (event.type, event.key, event.data) == (type_, key, data)


class Holder(NamedTuple):
    """An event that has a name: the content that it was published with, its row, its id and when it was made."""

    digest: bytes
    n: Any
    """As the store numbers it."""
    event_id: str | None
    """None where the event is pruned and its answer was not kept."""
    created_at: Instant


class Stamp(NamedTuple):
    """The place that a published event got at one endpoint; a loose delivery has no seq."""

    endpoint_id: str
    seq: int | None


@dataclass(slots=True)
class Published:
    """The event is durable. When *repeated*, an earlier publish under the same name made it."""

    event_id: str
    type: str
    key: str | None
    created_at: Instant
    stamps: tuple[Stamp, ...]
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """This one draft was not stored; *code* is stable (`idempotency_conflict`, `unknown_endpoint`, …)."""

    code: str
    detail: str
    retry_after_s: int | None = None
    """When it may be worth another try, where that is known."""


OTHER_CONTENT = Refused("idempotency_conflict", "this idempotency key or id was used for an event with other content")
FORGOTTEN = Refused("idempotency_conflict", "this idempotency key or id was used, and its answer is not known any more")
"""A name without its event and without the answer that it gave: nothing of another event is told instead."""

BUSY = "busy"
"""The code of a refusal that only time can lift: a transaction elsewhere holds the lane; publish it again shortly."""


@dataclass(frozen=True, slots=True)
class PublishReport:
    """One result per draft, in order, and the news for the lanes of this process."""

    results: Sequence[Published | Refused]
    grown: Sequence[Grown] = ()
    span: Span | None = None
    """Where a back-end numbers what is published: the numbers of this one, so that no poll need read them again."""
