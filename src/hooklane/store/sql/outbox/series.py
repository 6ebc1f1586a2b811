"""The ring of figures over time: rows by slot and process, the old ones dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hooklane.model.clock import Instant
from hooklane.store.dashboard import SeriesRow
from hooklane.store.sql.outbox.steps import Batch, Flow, sql

COLUMNS = ("tenant", "step_s", "by", "at", "process", "doc")
ROWS_MAX = 20_000
"""Read at most: the ring of one endpoint has about 1,500 slots, and few processes write each."""


def keep(rows: Sequence[SeriesRow], before: Mapping[int, Instant]) -> Flow[None]:
    yield Batch("keep_series", [{name: getattr(row, name) for name in COLUMNS} for row in rows])
    for step_s, at in before.items():
        yield sql("drop_series", step_s=step_s, before=at)


def read(tenant: str, by: Sequence[str], step_s: int, since: Instant) -> Flow[list[SeriesRow]]:
    rows = yield sql("series", tenant=tenant, by=list(by), step_s=step_s, since=since, limit=ROWS_MAX)
    return [SeriesRow(tenant, step_s, one, Instant(at), process, bytes(doc)) for one, at, process, doc in rows]
