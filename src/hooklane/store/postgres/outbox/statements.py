"""What does PostgreSQL run for a step of the sender's store? Lists as arrays, a batch as one array a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hooklane.model.jumps import JUMP_MS
from hooklane.model.redelivery import REDELIVERIES
from hooklane.store.caller.flow import Statement
from hooklane.store.sql.outbox.steps import Batch, Pattern
from hooklane.store.sql.queries import Sql, queries_of

SQL = queries_of(
    "hooklane.store.sql.outbox", "hooklane.store.postgres.outbox", redeliveries=REDELIVERIES, jump_ms=JUMP_MS
)


def statement_of(step: Sql | Batch | Statement) -> Statement | None:
    """The statement of *step*; None where there is nothing to do."""
    match step:
        case Statement():
            return step
        case Sql(name=name, params=params):
            return Statement(text, _bound(params)) if (text := SQL[name]) else None
        case Batch(name=name, rows=rows, common=common):
            if not rows or not (text := SQL[name]):
                return None
            return Statement(text, {**common, **{column: [row[column] for row in rows] for column in rows[0]}})


def _bound(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.like if isinstance(value, Pattern) else value for name, value in params.items()}
