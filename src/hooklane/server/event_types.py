"""Which types of events are enforced, and does an event keep its schema? Where none is enforced, nothing is done."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from hooklane.core.event_type import InvalidSchema
from hooklane.model.event import Event
from hooklane.server.places import Places
from hooklane.server.problem import Problem
from hooklane.server.repeating import repeat
from hooklane.server.schema_check import Violation, keeps, violations, weight_of_schema
from hooklane.store.types import TypeStore

LOOK_S = 1.0
"""How often the revision is read: a type that another process enforces is enforced here so much later at most."""
INLINE_MAX = 400_000
"""Bytes of an event times keywords of its schema that are checked at once: some milliseconds for the worst of them.

What is more is checked in a process of its own: the checker holds the interpreter, so a thread would stop the server.
"""
TOLD_INLINE_MAX = 4_000
"""The same for telling what is wrong: of alternatives the checker notes everything that each of them lacks."""
ASIDE_S_MAX = 2.0
ASIDE_MAX = 16
"""So many wait for that process at most, of one tenant half of them: the others wait for 16 s at the very worst."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What the events of one type must keep."""

    schema: bytes
    weight: int


class TypeRules:
    """The enforced types of all tenants, as of the last look."""

    def __init__(self, store: TypeStore) -> None:
        self._store = store
        self._rev: int | None = None
        self.enforced: dict[tuple[str, str], Rule] = {}
        """By (tenant, type). Empty on most servers: then a publish asks no more than that."""
        self._aside = Aside()
        self._places = Places(ASIDE_MAX, "checks of large events")
        self._stopping = asyncio.Event()

    async def look(self) -> None:
        if await self._store.type_revision() == self._rev:
            return
        self._rev, found = await self._store.enforced_types()
        self.enforced = {
            (one.tenant, one.type): Rule(one.schema, _weight(one.schema)) for one in found if one.schema is not None
        }

    async def run(self) -> None:
        await repeat(self.look, LOOK_S, self._stopping, "event types cannot be read")
        self._aside.close()

    def stop(self) -> None:
        self._stopping.set()

    def judge(self, event: Event) -> Problem | Awaitable[Problem | None] | None:
        """None where *event* may be published, the Problem where not; large ones are checked aside, to be awaited."""
        rule = self.enforced.get((event.tenant, event.type))
        if rule is None:
            return None
        work = len(event.data) * rule.weight
        if work > INLINE_MAX:
            return self._judge_aside(event, rule)
        if keeps(rule.schema, event.data):
            return None
        if work > TOLD_INLINE_MAX:
            return self._tell_aside(event, rule)
        return _problem(event.type, violations(rule.schema, event.data))

    async def check(self, event: Event) -> None:
        """Raise the Problem where *event* may not be published: `judge`, for a call that can wait."""
        verdict = self.judge(event) if self.enforced else None
        problem = verdict if verdict is None or isinstance(verdict, Problem) else await verdict
        if problem is not None:
            raise problem

    async def _judge_aside(self, event: Event, rule: Rule) -> Problem | None:
        try:
            with self._places.taken(event.tenant):
                return _problem(event.type, await self._aside.violations(rule.schema, event.data))
        except TimeoutError:
            text = f"the event is too large for its schema: the check was given up after {ASIDE_S_MAX:g} s"
            return Problem("schema_violation", text)
        except BrokenProcessPool:
            return Problem("unavailable", "the check of the schema was interrupted; nothing was stored, send it again")

    async def _tell_aside(self, event: Event, rule: Rule) -> Problem | None:
        """The Problem of an event that is known to break its schema, without the details where those take too long."""
        try:
            with self._places.taken(event.tenant):
                found = await self._aside.violations(rule.schema, event.data)
        except (TimeoutError, BrokenProcessPool, Problem):
            found = [("", "it does not keep the schema; where, takes too long to tell")]
        return _problem(event.type, found)


class Aside:
    """A process that checks what is large. One that takes too long is ended, and the next check starts another."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._turn = asyncio.Lock()

    async def violations(self, schema: bytes, data: bytes) -> list[Violation]:
        async with self._turn:  # one at a time: so the time counts for this one alone
            return await self._run(schema, data)

    async def _run(self, schema: bytes, data: bytes) -> list[Violation]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
            await asyncio.wrap_future(self._pool.submit(violations, b"true", b"1"))  # it has started when this is over
        checking = asyncio.wrap_future(self._pool.submit(violations, schema, data))
        try:
            async with asyncio.timeout(ASIDE_S_MAX):
                return await checking
        except (TimeoutError, BrokenProcessPool):
            self.close()
            raise

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            for process in list((pool._processes or {}).values()):
                process.kill()  # a check cannot be interrupted in any other way
            pool.shutdown(wait=False, cancel_futures=True)


def _weight(schema: bytes) -> int:
    """What a check weighs. A schema that was kept before a rule became stricter is always checked aside."""
    try:
        return weight_of_schema(schema)
    except InvalidSchema:
        return INLINE_MAX + 1


def _problem(type: str, found: list[Violation]) -> Problem | None:
    if not found:
        return None
    path, text = found[0]
    return Problem(
        "schema_violation",
        f"data{path} of an event {type}: {text}",
        errors=[{"path": f"/data{path}", "detail": detail} for path, detail in found],
    )
