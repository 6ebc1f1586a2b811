"""How SQLite stores a handling that is settled in the commit that stores its row: in columns of the row itself.

In inline mode nearly every event is such a case, and it saves a statement, a page and five indexes.
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

_COMPLETED = Status.COMPLETED
_FOLDED = (_COMPLETED, Status.STALE, Status.IGNORED)
_NOTHING_ELSE = (0, None, None, None, None)


class SqliteVerbs(SqlInbox):
    """The verbs on the tables of `migrations`, on our connections and on the application's own."""

    def insert(self, rows: Sequence[NewRow]) -> Flow[list[RowId | None]]:
        params: list[dict[str, Any]] = []
        apart: list[tuple[NewHandling, ...]] = []
        for row in rows:
            handlings = row.handlings
            settled = handlings[0] if handlings and _folds(handlings[0]) else None
            params.append(_params(row, settled))
            apart.append(handlings if settled is None else handlings[1:])
        answers = yield Many("insert_row", params)
        ids: list[RowId | None] = [lines[0][0] if lines else None for lines in answers]
        if any(apart):
            owed = [
                handling_params(id, row, handling)
                for id, row, handlings in zip(ids, rows, apart, strict=True)
                if id is not None
                for handling in handlings
            ]
            if owed:
                yield Many("insert_handling", owed)
        return ids

    def reopen(self, id: RowId, handler: str, *, now: Instant, was: Status | None = None) -> Flow[bool]:
        if (yield Sql("unfold", {"row_id": id, "handler": handler})):
            yield Sql("unfolded", {"row_id": id})
        return (yield from super().reopen(id, handler, now=now, was=was))

    def prune(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        yield Sql("keep_last", {})
        return (yield from super().prune(before=before, source=source, limit=limit))


def _params(row: NewRow, settled: NewHandling | None) -> dict[str, Any]:
    """The parameters of *row*, which tells of the handling that was *settled* with it."""
    params = row_params(row)
    params["fingerprint"], params["body"] = blob(row.message.fingerprint), blob(row.message.body)
    params["settled_by"] = params["settled_as"] = params["settled_at"] = None
    if settled is not None:
        params["settled_by"], params["settled_as"] = settled.handler, str(settled.status)
        params["settled_at"] = settled.settled_at
    return params


def _folds(handling: NewHandling) -> bool:
    """Whether the row can tell all of it: settled at once, and in no order."""
    return (
        handling.status in _FOLDED
        and handling.key is None
        and handling.settled_at == handling.due_at
        and handling.attempts == (handling.status is _COMPLETED)
        and (handling.fence, handling.seq, handling.prev_seq, handling.error, handling.traceback) == _NOTHING_ELSE
    )
