"""The dashboard's questions of a SQL store, each on one snapshot, beside what delivers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

from hooklane.model.audit import Act, AuditLine
from hooklane.model.clock import Instant
from hooklane.model.event import Event
from hooklane.model.lane import LaneId, LaneState
from hooklane.model.plan import Job, JobState
from hooklane.store.budget import LEDGER_S_MAX
from hooklane.store.dashboard import (
    AuditFilter,
    BreakerTurn,
    Cause,
    Cells,
    EventSearch,
    Failure,
    LetterFilter,
    PlaceHistory,
    SeriesRow,
    Survey,
)
from hooklane.store.reads import DeadLetter, LaneView, Page
from hooklane.store.sql.outbox import (
    audit,
    board,
    event_reads,
    health,
    jobs,
    leases,
    letter_reads,
    series,
    stories,
    survey,
)
from hooklane.store.sql.outbox.running import RunsFlows

T = TypeVar("T")


class SqlDashboard(RunsFlows):
    """`DashboardReads`."""

    async def survey(self, tenant: str) -> Survey:
        return await self._ask(lambda: survey.survey(tenant), s_max=LEDGER_S_MAX)

    async def workers(self) -> Mapping[str, int]:
        return (await self._ask(leases.roster)).owned

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
        return await self._ask(lambda: board.attention(tenant, states, endpoint_id, text, cursor, limit))

    async def lanes_named(self, tenant: str, lanes: Sequence[tuple[str, str]]) -> Sequence[LaneView]:
        return await self._ask(lambda: board.lanes_named(tenant, lanes))

    async def cells(self, lanes: Sequence[LaneView], settled: int) -> Mapping[LaneId, Cells]:
        return await self._ask(lambda: board.cells(lanes, settled))

    async def said_in_lane(self, lane_id: LaneId, first: int, last: int) -> Sequence[tuple[int, str]]:
        return await self._ask(lambda: board.said_in_lane(lane_id, first, last))

    async def failures(self, tenant: str, endpoint_id: str | None, limit: int) -> Sequence[Failure]:
        return await self._ask(lambda: stories.failures(tenant, endpoint_id, limit))

    async def history(self, places: Sequence[tuple[LaneId, int]]) -> Mapping[LaneId, PlaceHistory]:
        return await self._ask(lambda: stories.history(places))

    async def search_events(self, tenant: str, wanted: EventSearch, cursor: str | None, limit: int) -> Page[Event]:
        return await self._ask(lambda: event_reads.search(tenant, wanted, cursor, limit))

    @abstractmethod
    async def inbox_of_late(self, since: Instant) -> Mapping[str, tuple[int, int]]:
        """As `DashboardReads` says."""

    async def search_letters(
        self, tenant: str, wanted: LetterFilter, cursor: str | None, limit: int
    ) -> Page[DeadLetter]:
        return await self._ask(lambda: letter_reads.search(tenant, wanted, cursor, limit))

    async def newest_letters(self, tenant: str, after: tuple[int, str], limit: int) -> Sequence[DeadLetter]:
        return await self._ask(lambda: letter_reads.newest(tenant, after, limit))

    async def last_words(self, letters: Sequence[DeadLetter]) -> Mapping[str, str | None]:
        return await self._ask(lambda: letter_reads.words(letters))

    async def causes(self, tenant: str) -> Sequence[Cause]:
        return await self._ask(lambda: letter_reads.causes(tenant))

    async def assign(self, tenant: str, dead_letter_id: str, assignee: str, *, act: Act) -> bool:
        return await self._write(lambda: letter_reads.assign(tenant, dead_letter_id, assignee, act))

    async def jobs(
        self, tenant: str, *, run: bool, states: Sequence[JobState] | None, cursor: str | None, limit: int
    ) -> Page[Job]:
        return await self._ask(lambda: jobs.page(tenant, run, states, cursor, limit))

    async def search_audit(self, tenant: str, wanted: AuditFilter, cursor: str | None, limit: int) -> Page[AuditLine]:
        return await self._ask(lambda: audit.search(tenant, wanted, cursor, limit))

    async def breaker_turns(
        self, tenant: str, endpoint_id: str | None, since: Instant, limit: int
    ) -> Sequence[BreakerTurn]:
        return await self._ask(lambda: health.breaker_turns(tenant, endpoint_id, since, limit))

    async def keep_series(self, rows: Sequence[SeriesRow], *, before: Mapping[int, Instant]) -> None:
        await self._write(lambda: series.keep(rows, before))

    async def series(self, tenant: str, by: Sequence[str], step_s: int, since: Instant) -> Sequence[SeriesRow]:
        return await self._ask(lambda: series.read(tenant, by, step_s, since))
