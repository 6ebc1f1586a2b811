"""The dashboard's questions of a SQL store, each on one snapshot, beside what delivers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from hooklane.model.clock import Instant
from hooklane.model.lane import LaneId, LaneState
from hooklane.store.budget import SEARCH_S_MAX
from hooklane.store.dashboard import Cells, SeriesRow, Survey
from hooklane.store.reads import LaneView, Page
from hooklane.store.sql.outbox import board, leases, series, survey
from hooklane.store.sql.outbox.steps import Flow

T = TypeVar("T")


class SqlDashboard(ABC):
    """`DashboardReads`; and in which kind of transaction the flows of an outbox run."""

    @abstractmethod
    async def _write(self, flow: Callable[[], Flow[T]]) -> T:
        """Run a flow and commit it durably; it is made anew for each try."""

    @abstractmethod
    async def _ask(self, flow: Callable[[], Flow[T]], *, s_max: float | None = SEARCH_S_MAX) -> T:
        """Run a flow that only reads, on one snapshot, for people and beside what delivers; no *s_max* for a chore
        that must be read to its end."""

    async def survey(self, tenant: str) -> Survey:
        return await self._ask(lambda: survey.survey(tenant))

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

    async def keep_series(self, rows: Sequence[SeriesRow], *, before: Mapping[int, Instant]) -> None:
        await self._write(lambda: series.keep(rows, before))

    async def series(self, tenant: str, by: Sequence[str], step_s: int, since: Instant) -> Sequence[SeriesRow]:
        return await self._ask(lambda: series.read(tenant, by, step_s, since))
