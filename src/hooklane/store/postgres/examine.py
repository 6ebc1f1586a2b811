"""What is true of a PostgreSQL server that an operator should know? Facts; others decide whether they are fine."""

from __future__ import annotations

import time
from dataclasses import dataclass

from hooklane.store.caller.flow import Flow, Statement
from hooklane.store.postgres.database import Database
from hooklane.store.sql.queries import queries_of

_SQL = queries_of("hooklane.store.postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresFacts:
    """As the server says; *skew_ms* is how far its clock is ahead of ours, to within half a round trip."""

    skew_ms: float
    is_standby: bool
    synchronous_commit: str
    standby_names: str
    standbys: int


async def examine(url: str) -> PostgresFacts:
    """Ask the server at *url*; nothing is changed."""
    database = Database(url, size=1)
    await database.open()
    try:
        await database.read(_ask)  # the first one also prepares the connection, which takes its time
        began = time.time()
        clock, standby, commit, names, standbys = await database.read(_ask)
        middle = (began + time.time()) / 2 * 1000
    finally:
        await database.close()
    return PostgresFacts(
        skew_ms=clock - middle,
        is_standby=standby,
        synchronous_commit=commit,
        standby_names=names,
        standbys=standbys,
    )


def _ask() -> Flow[tuple[float, bool, str, str, int]]:
    (row,) = yield Statement(_SQL["examine"])
    clock, standby, commit, names, standbys = row
    return float(clock), bool(standby), str(commit), str(names), int(standbys)
