"""The inbox in the same PostgreSQL database, on the sender's pool."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import TypeVar

from hooklane.store.beside import COMPONENT, Change, Question, is_there
from hooklane.store.caller.flow import Flow, Rows, Statement
from hooklane.store.inbox import Flow as InboxFlow
from hooklane.store.postgres.database import Database
from hooklane.store.postgres.inbox.store import VERBS, PostgresVerbs
from hooklane.store.postgres.outbox import audit
from hooklane.store.postgres.schema import migrations_of, version_of
from hooklane.store.sql.queries import Many

T = TypeVar("T")
LOOKS_MAX = 2
_VERBS = PostgresVerbs()


class PostgresBeside:
    """`InboxBeside`: of the connections that deliver, long lists take a few at most."""

    db: Database
    inbox_kind = "postgresql"
    _looks: asyncio.Semaphore | None = None

    async def ask_inbox(self, question: Question[T]) -> T | None:
        if self._looks is None:
            self._looks = asyncio.Semaphore(LOOKS_MAX)
        async with self._looks:
            return await self.db.read(lambda: _asked(question))

    async def change_inbox(self, change: Change[T]) -> T | None:
        return await self.db.write(lambda: _changed(change))


def _asked(question: Question[T]) -> Flow[T | None]:
    if not is_there((yield from version_of(COMPONENT)), _newest()):
        return None
    return (yield from _statements(question(_VERBS)))


def _changed(change: Change[T]) -> Flow[T | None]:
    if not is_there((yield from version_of(COMPONENT)), _newest()):
        return None
    changed = yield from _statements(change(_VERBS))
    if changed.act is not None:
        yield from audit.append(changed.act)  # last: whoever appends next waits for this commit
    return changed.result


def _statements(flow: InboxFlow[T]) -> Flow[T]:
    """A flow of the inbox's named steps as one of statements."""
    try:
        step = next(flow)
        while True:
            sql = VERBS.queries[step.name]
            if isinstance(step, Many):
                step = flow.send((yield from _each(sql, step)))
            else:
                step = flow.send((yield Statement(sql, step.params)))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _each(sql: str, many: Many) -> Flow[list[Rows]]:
    answers: list[Rows] = []
    for params in many.params:
        rows = yield Statement(sql, params)
        answers.append(rows)
    return answers


@cache
def _newest() -> int:
    return len(migrations_of(VERBS.migrations))
