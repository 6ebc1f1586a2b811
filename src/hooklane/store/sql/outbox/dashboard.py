"""The dashboard's questions of a SQL store, each on one snapshot, beside what delivers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TypeVar

from hooklane.model.clock import Instant
from hooklane.store.budget import LEDGER_S_MAX
from hooklane.store.sql.outbox import board, health, leases, letter_reads, stories
from hooklane.store.sql.outbox import jobs as job_flows
from hooklane.store.sql.outbox import series as series_flows
from hooklane.store.sql.outbox import survey as survey_flows
from hooklane.store.sql.outbox.running import RunsFlows, asking, writing, writing_often

T = TypeVar("T")


class SqlDashboard(RunsFlows):
    """`DashboardReads`."""

    survey = asking(survey_flows.survey, s_max=LEDGER_S_MAX)

    async def workers(self) -> Mapping[str, int]:
        return (await self._ask(leases.roster)).owned

    attention = asking(board.attention)
    lanes_named = asking(board.lanes_named)
    cells = asking(board.cells)
    said_in_lane = asking(board.said_in_lane)
    failures = asking(stories.failures)
    history = asking(stories.history)

    @abstractmethod
    async def inbox_of_late(self, since: Instant) -> Mapping[str, tuple[int, int]]:
        """As `DashboardReads` says."""

    newest_letters = asking(letter_reads.newest)
    last_words = asking(letter_reads.words)
    causes = asking(letter_reads.causes)
    assign = writing(letter_reads.assign)
    jobs = asking(job_flows.page)
    breaker_turns = asking(health.breaker_turns)
    breaker_turns_of = asking(health.breaker_turns_of)
    keep_series = writing_often(series_flows.keep)
    series = asking(series_flows.read)
