"""What the dashboard asks of the sender's store beside `OutboxReads`: figures over time, and lanes as a board.

Each question is bounded in rows, and is asked beside what delivers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.health import BreakerState
from hooklane.model.lane import DeliveryState, LaneId, LaneState
from hooklane.model.plan import Job, JobState
from hooklane.store.reads import AttemptRow, DeadLetter, EventFilter, LaneFilter, LaneView, Page


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """What one process counted in one slot: *step_s* long, from *at* on; *by* is an endpoint or empty."""

    tenant: str
    step_s: int
    by: str
    at: Instant
    process: str
    doc: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStanding:
    """How the lanes and loose deliveries of one endpoint stand."""

    lanes: Mapping[LaneState, int]
    """Without `paused`, which is the endpoint's state and not the lanes'."""
    ledger: Mapping[DeliveryState, int]
    accepted: int
    waiting_behind_blocked: int

    @property
    def backlog(self) -> int:
        """Deliveries that are owed and not dead."""
        return sum(self.ledger.get(state, 0) for state in (DeliveryState.QUEUED, DeliveryState.RETRYING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """How everything of a tenant stands, counted in one snapshot."""

    endpoints: Mapping[str, EndpointStanding] = field(default_factory=dict)
    oldest_pending_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class Cells:
    """What the board draws beside a lane: how the events before its head were settled, and the endpoint's words."""

    settled: Sequence[tuple[int, DeliveryState]] = ()
    """(seq, state), oldest first."""
    head_said: str | None = None
    """What the endpoint answered to the last attempt of the head."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The last attempt at a head that is not well, with what is known of its event."""

    attempt: AttemptRow
    type: str
    key: str


@dataclass(frozen=True, slots=True)
class Passing:
    """A lane passed an event over: who did that, when and why."""

    kind: str
    note: str
    actor: str
    at: Instant


@dataclass(frozen=True, slots=True)
class PlaceHistory:
    """What is on record of one place of a lane beside its attempts."""

    passing: Passing | None = None
    free_at: Instant | None = None
    """When the event before it was settled."""
    prev_seq: int = 0
    """The largest seq below that was not passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSearch(EventFilter):
    """Which events: all that fit, by themselves, by one of their deliveries, or by one of its attempts."""

    text: str | None = None
    """In the key or the type, or at the beginning of the id."""
    id: str | None = None
    seq: int | None = None
    attempts_min: int | None = None
    http: str | None = None
    """A status, with `?` for any one digit."""
    reason: str | None = None
    """A status or a failure, with `*` and `?`."""

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing but what any `EventFilter` can."""
        return not self.by_attempt and (self.text, self.id, self.seq) == (None, None, None)

    @property
    def by_attempt(self) -> bool:
        return (self.attempts_min, self.http, self.reason) != (None, None, None)

    @property
    def by_delivery(self) -> bool:
        return self.by_attempt or (self.endpoint_id, self.state, self.seq) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Cause:
    """Letters that died at one endpoint for one reason."""

    endpoint_id: str
    reason: str
    letters: int
    keys: int
    holds_back: int
    first_at: Instant
    last_at: Instant


@dataclass(frozen=True, slots=True)
class BreakerTurn:
    """A change of an endpoint's breaker, and when it was written."""

    endpoint_id: str
    turn: int
    state: BreakerState
    until: Instant
    at: Instant
    by: str


class DashboardReads(Protocol):
    """Questions of the dashboard, and the ring of figures that only it reads."""

    async def survey(self, tenant: str) -> Survey: ...

    async def workers(self) -> Mapping[str, int]:
        """The workers that are alive, and how many partitions each owns."""

    async def attention(self, tenant: str, wanted: LaneFilter, cursor: str | None, limit: int) -> Page[LaneView]:
        """Lanes as a board shows them: blocked ones, the longest first, then retrying, paused and active ones.

        Idle lanes only where *wanted* names that state.
        """

    async def lanes_named(self, tenant: str, lanes: Sequence[tuple[str, str]]) -> Sequence[LaneView]:
        """Those of *lanes* (endpoint, key) that are there."""

    async def cells(self, lanes: Sequence[LaneView], settled: int) -> Mapping[LaneId, Cells]:
        """What is drawn beside each lane, with up to *settled* events before its head."""

    async def said_in_lane(self, lane_id: LaneId, first: int, last: int) -> Sequence[tuple[int, str]]:
        """(seq, what the receiver says that it did) of the attempts between two seqs, in order."""

    async def failures(self, tenant: str, endpoint_id: str | None, limit: int) -> Sequence[Failure]:
        """The last attempts of heads that failed lately, in any order."""

    async def history(self, places: Sequence[tuple[LaneId, int]]) -> Mapping[LaneId, PlaceHistory]:
        """What is on record of each place (lane, seq)."""

    async def inbox_of_late(self, since: Instant) -> Mapping[str, tuple[int, int]]:
        """By source: rows of the inbox in the same database that came since then, and copies of them besides."""

    async def newest_letters(self, tenant: str, after: tuple[int, str], limit: int) -> Sequence[DeadLetter]:
        """Open dead letters that died after (when, id), the newest first."""

    async def last_words(self, letters: Sequence[DeadLetter]) -> Mapping[str, str | None]:
        """What the endpoint answered to the last attempt of each, by the id of the letter."""

    async def causes(self, tenant: str) -> Sequence[Cause]:
        """Why the open letters died, those with most letters first."""

    async def assign(self, tenant: str, dead_letter_id: str, assignee: str, *, act: Act) -> bool:
        """Give an open letter to a person, or with empty text to none; *act* goes on record in the same commit."""

    async def jobs(
        self, tenant: str, *, run: bool, states: Sequence[JobState] | None, cursor: str | None, limit: int
    ) -> Page[Job]:
        """Plans, or with *run* those that became jobs, the newest first."""

    async def breaker_turns(
        self, tenant: str, endpoint_id: str | None, since: Instant, limit: int
    ) -> Sequence[BreakerTurn]:
        """The turns of one breaker, or of all of the tenant, the newest first."""

    async def breaker_turns_of(
        self, tenant: str, endpoint_ids: Sequence[str], since: Instant, limit: int
    ) -> Sequence[BreakerTurn]:
        """The turns of some breakers from *since* on and the one before, of each the last *limit*, oldest first."""

    async def keep_series(self, rows: Sequence[SeriesRow], *, before: Mapping[int, Instant]) -> None:
        """Write rows, each in the place of an earlier one of its process; drop those *before* a time, by step."""

    async def series(self, tenant: str, by: Sequence[str], step_s: int, since: Instant) -> Sequence[SeriesRow]:
        """The rows of slots that began at *since* or later, oldest first, those of each *by*."""
