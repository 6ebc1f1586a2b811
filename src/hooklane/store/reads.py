"""What people look at: reads of the sender's store for API, CLI and page, apart from the write path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.health import Health
from hooklane.model.lane import DeliveryState, LaneId, LaneState

PAGE_MAX = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event at one endpoint, as it stands now."""

    event_id: str
    endpoint_id: str
    lane_id: LaneId
    key: str | None
    seq: int | None
    state: DeliveryState
    attempts: int = 0
    next_at: Instant | None = None
    reason: str | None = None
    dead_letter_id: str | None = None
    type: str | None = None
    """The event's, where the deliveries of a lane were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """A lane for people; *waiting* counts what stands behind the head."""

    lane_id: LaneId
    endpoint_id: str
    key: str
    state: LaneState
    head: int
    tail: int
    attempts: int
    next_at: Instant | None
    since: Instant | None
    reason: str | None
    dead_letter_id: str | None = None
    head_event_id: str | None = None
    head_type: str | None = None
    head_created_at: Instant | None = None

    @property
    def waiting(self) -> int:
        return max(0, self.tail - self.head)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """An event that will not be tried again at one endpoint, unless a person says so."""

    id: str
    event_id: str
    type: str
    endpoint_id: str
    lane_id: LaneId
    key: str | None
    seq: int | None
    attempts: int
    reason: str
    died_at: Instant
    waiting: int
    note: str = ""
    assignee: str = ""
    event_at: Instant | None = None
    """When its event was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One try as it was logged: slim for a success, in full for a failure."""

    id: str
    event_id: str
    endpoint_id: str
    seq: int | None
    attempt: int
    started_at: Instant
    took_ms: float
    outcome: str
    status: int | None = None
    failure: str | None = None
    detail: Mapping[str, object] = field(default_factory=dict)
    """Request and response heads, body excerpt, phases: what the log kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    type: str | None = None
    key: str | None = None
    endpoint_id: str | None = None
    state: DeliveryState | None = None
    after: Instant | None = None
    before: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which open dead letters: all that fit."""

    endpoint_id: str | None = None
    key: str | None = None
    type: str | None = None
    """With `*` for any run of characters."""
    reason: str | None = None
    """With `*` for any run and `?` for any one character."""
    after: Instant | None = None
    before: Instant | None = None
    """When it died: from *after* on, and before *before*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFilter:
    """Which lanes: all that fit."""

    states: Sequence[LaneState] | None = None
    endpoint_id: str | None = None
    text: str | None = None
    """In the key."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Up to a page of items, and where the next one starts; None when this was the last.

    A search that has looked at enough ends its page early: it may hold fewer items, even none, and go on all the same.
    """

    items: Sequence[T]
    next: str | None


class OutboxReads(Protocol):
    """Questions that people ask. Cursors are opaque text made by the store."""

    async def endpoint(self, tenant: str, endpoint_id: str) -> Endpoint | None: ...

    async def health(self, tenant: str | None = None) -> Mapping[str, Health]:
        """Breakers by endpoint; one that never turned is left out."""

    async def event(self, tenant: str, event_id: str) -> Event | None: ...

    async def events(self, tenant: str, wanted: EventFilter, cursor: str | None, limit: int) -> Page[Event]:
        """Events that fit, the newest first; a store with a dashboard takes its `EventSearch` as well."""

    async def deliveries(self, tenant: str, event_ids: Sequence[str]) -> Mapping[str, Sequence[Delivery]]: ...

    async def attempts(self, tenant: str, event_id: str) -> Sequence[AttemptRow]: ...

    async def lane(self, tenant: str, endpoint_id: str, key: str) -> LaneView | None: ...

    async def lane_deliveries(self, lane_id: LaneId, from_seq: int, limit: int) -> Sequence[Delivery]: ...

    async def lanes(self, tenant: str, wanted: LaneFilter, cursor: str | None, limit: int) -> Page[LaneView]: ...

    async def dead_letters(self, tenant: str, wanted: LetterFilter, cursor: str | None, limit: int) -> Page[DeadLetter]:
        """Open dead letters that fit, the oldest first."""

    async def dead_letter(self, tenant: str, dead_letter_id: str) -> DeadLetter | None: ...

    async def set_note(self, tenant: str, dead_letter_id: str, note: str, *, act: Act | None = None) -> bool:
        """Write on a letter that is still dead; *act* goes on record in the same commit."""

    async def ledger(self, tenant: str | None, endpoint_id: str | None = None) -> Mapping[DeliveryState | str, int]:
        """Of one tenant, or of all: `accepted`, and how many deliveries are in each state (in flight is queued)."""

    async def lane_counts(self, tenant: str | None = None) -> Mapping[LaneState, int]: ...

    async def oldest_pending_at(self, tenant: str | None = None) -> Instant | None: ...

    async def size_bytes(self) -> int:
        """How much room the store takes: what an operator watches grow, or not."""
