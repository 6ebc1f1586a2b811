"""A transaction on a connection of asyncpg: how each kind begins, and that its end is told as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from hooklane.store.caller.flow import Rows, Statement
from hooklane.store.caller.placeholders import Style, bind
from hooklane.store.postgres import commits
from hooklane.store.postgres.commits import left_to_itself
from hooklane.store.postgres.driver_errors import named

COMMAND_WAIT_S = 30.0
MIGRATION_WAIT_S = 6 * 3600.0
"""A migration may build an index over hundreds of millions of rows; a connection that is dead is given up some day."""
LOCK_WAIT_MS = 5_000

# What our sessions acknowledge is on the disk, whatever the server's or the role's default; remote_apply is stronger.
# A session of ours that stops in the middle of a transaction must not keep its row locks for ever. The isolation is the
# one for which our statements are written: where the default is stricter, publishers of one lane would fail by turns.
WRITE = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = 'on';"
    " SET LOCAL lock_timeout = '{lock_wait_ms}ms'; SET LOCAL idle_in_transaction_session_timeout = '15s'"
)
# What people ask takes one core of the database at most, and ends by itself, also where we are not there to end it.
ASK = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off; SET LOCAL statement_timeout = '{s_max}s';"
    " SET LOCAL max_parallel_workers_per_gather = 0"
)
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off"
MIGRATE = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = 'on'"
LOOK = "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL jit = off; SET LOCAL synchronous_commit = 'on'"


@asynccontextmanager
async def transaction(connection: Any, begin: str) -> AsyncIterator[None]:
    """A transaction of ours: committed at the end, undone when anything was raised, unknown when the commit failed."""
    with named():
        await connection.execute(begin, timeout=COMMAND_WAIT_S)
    try:
        with named():
            yield
    except BaseException:
        with suppress(Exception):  # the connection is thrown away if it is still inside
            if not connection.is_closed():
                await asyncio.wait_for(connection.execute("ROLLBACK"), 5.0)
        raise
    with named(unknown=True), left_to_itself(connection):
        await connection.execute("COMMIT" if "READ ONLY" in begin else commits.COMMIT)


async def execute(connection: Any, statement: Statement, wait_s: float | None = None) -> Rows:
    sql, values = bind(statement, Style.DOLLAR)
    rows: Rows = await connection.fetch(sql, *values, timeout=wait_s)
    return rows
