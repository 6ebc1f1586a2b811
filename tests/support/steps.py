"""Two transactions, statement by statement: a test says whose turn it is, so that each interleaving can be tried."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Generic, TypeVar

import asyncpg

from hooklane.store.caller import Rows
from hooklane.store.postgres.outbox.statements import statement_of
from hooklane.store.postgres.transactions import READ, WRITE, execute
from hooklane.store.sql.outbox.steps import Flow

T = TypeVar("T")
BLOCKED_MS = 150
"""How long a statement must not come back for us to say that it waits for a lock."""


class Stepped(Generic[T]):
    """One flow in one open transaction. `step` runs its next statement; `finish` runs the rest and commits."""

    def __init__(self, connection: Any, flow: Flow[T]) -> None:
        self._connection = connection
        self._flow = flow
        self._rows: Rows | None = None
        self._waiting: asyncio.Task[bool] | None = None
        self.result: T

    async def step(self, many: int = 1) -> bool:
        """Run the next statements; False when the flow has ended."""
        while many:
            try:
                statement = statement_of(next(self._flow) if self._rows is None else self._flow.send(self._rows))
            except StopIteration as end:
                self.result = end.value
                return False
            self._rows = ()
            if statement is not None:
                self._rows = await execute(self._connection, statement)
                many -= 1
        return True

    async def step_and_wait(self) -> None:
        """Run the next statement and see that it waits for somebody's lock."""
        self._waiting = asyncio.create_task(self.step())
        done, _ = await asyncio.wait([self._waiting], timeout=BLOCKED_MS / 1000)
        assert not done, "the statement did not wait"

    async def finish(self) -> T:
        if self._waiting is not None:
            await self._waiting
        while await self.step():
            pass
        await self._connection.execute("COMMIT")
        return self.result

    async def abandon(self) -> None:
        await self._connection.execute("ROLLBACK")


class Steps:
    """Opens a connection for each flow that is begun."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Steps:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def begin(self, flow: Flow[T], *, begin: str = WRITE.format(lock_wait_ms=5_000)) -> Stepped[T]:
        connection = await asyncpg.connect(self._url)
        self._stack.push_async_callback(connection.close)
        await connection.execute(begin)
        return Stepped(connection, flow)

    async def begin_read(self, flow: Flow[T]) -> Stepped[T]:
        return await self.begin(flow, begin=READ)
