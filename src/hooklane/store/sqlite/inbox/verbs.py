"""What does SQLite do in its own way? A handling that is settled in the commit that stores its row is told by the row.

That is what inline mode does with nearly every event, and it saves a statement, a page and five indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.inbox import NewHandling, NewRow, RowId
from hooklane.model.message import Status
from hooklane.store.inbox import Flow
from hooklane.store.sql.inbox import SqlInbox
from hooklane.store.sql.queries import Many, Sql
from hooklane.store.sql.rows import handling_params, row_params
from hooklane.store.sqlite.rows import blob

_FOLDED = (Status.COMPLETED, Status.STALE, Status.IGNORED)
_UNFOLDED: dict[str, Any] = {"settled_by": None, "settled_as": None, "settled_at": None}


class SqliteVerbs(SqlInbox):
    """The verbs on the tables of `migrations`, on our connections and on the application's own."""

    def insert(self, rows: Sequence[NewRow]) -> Flow[list[RowId | None]]:
        params: list[dict[str, Any]] = []
        apart: list[tuple[NewHandling, ...]] = []
        for row in rows:
            handlings = row.handlings
            folds = bool(handlings) and _folds(handlings[0])
            params.append(_params(row) | (_folded(handlings[0]) if folds else _UNFOLDED))
            apart.append(handlings[1:] if folds else handlings)
        answers = yield Many("insert_row", params)
        ids: list[RowId | None] = [lines[0][0] if lines else None for lines in answers]
        owed = [
            handling_params(id, row, handling)
            for id, row, handlings in zip(ids, rows, apart, strict=True)
            if id is not None
            for handling in handlings
        ]
        if owed:
            yield Many("insert_handling", owed)
        return ids

    def reopen(self, id: RowId, handler: str, *, now: Instant) -> Flow[bool]:
        if (yield Sql("unfold", {"row_id": id, "handler": handler})):
            yield Sql("unfolded", {"row_id": id})
        return (yield from super().reopen(id, handler, now=now))

    def prune(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        yield Sql("keep_last", {})
        return (yield from super().prune(before=before, source=source, limit=limit))


def _params(row: NewRow) -> dict[str, Any]:
    params = row_params(row)
    params["fingerprint"], params["body"] = blob(row.message.fingerprint), blob(row.message.body)
    return params


def _folds(handling: NewHandling) -> bool:
    """Whether the row can tell all of it: settled at once, and in nobody's order."""
    return (
        handling.status in _FOLDED
        and handling.attempts == (handling.status is Status.COMPLETED)
        and handling.settled_at == handling.due_at
        and handling.fence == 0
        and handling.key is None
        and handling.seq is None
        and handling.prev_seq is None
        and handling.error is None
        and handling.traceback is None
    )


def _folded(handling: NewHandling) -> dict[str, Any]:
    return {
        "settled_by": handling.handler,
        "settled_as": str(handling.status),
        "settled_at": handling.settled_at,
    }
