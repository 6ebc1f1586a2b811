"""The inbox in the sender's database, on the sender's connections: the verbs of the inbox as flows of the outbox."""

from __future__ import annotations

from typing import TypeVar

from hooklane.model.clock import Instant
from hooklane.store.caller.flow import Rows, Statement
from hooklane.store.colocated_inbox import COMPONENT, Change, ColocatedVerbs, Question, is_there
from hooklane.store.inbox import Flow as InboxFlow
from hooklane.store.sql.borrowed import Verbs
from hooklane.store.sql.migration import newest_of, version_of
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox.steps import Flow, sql
from hooklane.store.sql.queries import Many

T = TypeVar("T")
LATE_MAX = 50_000
"""Rows that are looked at for what came of late."""


class InboxFlows:
    """Questions to the inbox beside the outbox, and changes of it; None where no inbox is."""

    def __init__(self, dialect: Verbs, verbs: ColocatedVerbs) -> None:
        self.kind = dialect.capabilities.name
        self._dialect = dialect
        self._verbs = verbs

    def asked(self, question: Question[T]) -> Flow[T | None]:
        return (yield from self._stated(question(self._verbs))) if (yield from self._is_there()) else None

    def changed(self, change: Change[T]) -> Flow[T | None]:
        if not (yield from self._is_there()):
            return None
        changed = yield from self._stated(change(self._verbs))
        if changed.act is not None:
            yield from audit.append(changed.act)  # last: the next append waits for this commit
        return changed.result

    def of_late(self, since: Instant) -> Flow[dict[str, tuple[int, int]]]:
        """By source: rows that came since then, and copies of them besides."""
        if not (yield from self._is_there()):
            return {}
        rows = yield sql("inbox_of_late", since=since, window=LATE_MAX)
        return {source: (many, copies) for source, many, copies in rows}

    def _is_there(self) -> Flow[bool]:
        version = yield from version_of(self._dialect.dialect, COMPONENT)
        return is_there(version, newest_of(self._dialect.migrations))

    def _stated(self, flow: InboxFlow[T]) -> Flow[T]:
        """A flow of the inbox's named steps as one of statements."""
        try:
            step = next(flow)
            while True:
                text = self._dialect.queries[step.name]
                if isinstance(step, Many):
                    step = flow.send((yield from _each(text, step)))
                else:
                    step = flow.send((yield Statement(text, step.params)))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def _each(text: str, many: Many) -> Flow[list[Rows]]:
    answers: list[Rows] = []
    for params in many.params:
        rows = yield Statement(text, params)
        answers.append(rows)
    return answers
