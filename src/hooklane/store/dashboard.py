"""What the dashboard asks of the sender's store beside `OutboxReads`: figures over time, and lanes as a board.

Each question is bounded in rows, and is asked beside what delivers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneId, LaneState
from hooklane.store.reads import LaneView, Page


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


class DashboardReads(Protocol):
    """Questions of the dashboard, and the ring of figures that only it reads."""

    async def survey(self, tenant: str) -> Survey: ...

    async def workers(self) -> Mapping[str, int]:
        """The workers that are alive, and how many partitions each owns."""

    async def attention(
        self,
        tenant: str,
        *,
        states: Sequence[LaneState] | None,
        endpoint_id: str | None,
        text: str | None,
        cursor: str | None,
        limit: int,
    ) -> Page[LaneView]:
        """Lanes as a board shows them: blocked ones, the longest first, then retrying, paused and active ones.

        Idle lanes only where *states* names them.
        """

    async def lanes_named(self, tenant: str, lanes: Sequence[tuple[str, str]]) -> Sequence[LaneView]:
        """Those of *lanes* (endpoint, key) that are there."""

    async def cells(self, lanes: Sequence[LaneView], settled: int) -> Mapping[LaneId, Cells]:
        """What is drawn beside each lane, with up to *settled* events before its head."""

    async def said_in_lane(self, lane_id: LaneId, first: int, last: int) -> Sequence[tuple[int, str]]:
        """(seq, what the receiver says that it did) of the attempts between two seqs, in order."""

    async def keep_series(self, rows: Sequence[SeriesRow], *, before: Mapping[int, Instant]) -> None:
        """Write rows, each in the place of an earlier one of its process; drop those *before* a time, by step."""

    async def series(self, tenant: str, by: Sequence[str], step_s: int, since: Instant) -> Sequence[SeriesRow]:
        """The rows of slots that began at *since* or later, oldest first, those of each *by*."""
