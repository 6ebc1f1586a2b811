"""When may a commit, or what was seen of others' commits, be told? Once the synchronous standby has it.

PostgreSQL makes a commit wait for the standby only if its transaction has a number and wrote to the log. One that only
looked does not wait, although what it saw may be on the primary alone: a commit is visible before the standby has it
when its wait was cancelled, or when the primary came back from a crash. So a transaction that looks, to tell or to send
what it finds, writes a few bytes to the log after the look: to wait for those is to wait for all that was seen.

A request to cancel does not undo a COMMIT. It ends the wait, and shows all sessions what the standby may not have. So a
COMMIT that takes too long is left to itself: its connection is closed, and its outcome is not known.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hooklane.errors import StoreUnconfirmed
from hooklane.store.caller.flow import Statement
from hooklane.store.caller.standby_wait import standby_waited_for
from hooklane.store.sql.queries import queries_of

if TYPE_CHECKING:
    import psycopg

COMMIT_WAIT_S = 30.0
ENDED = ("08", "57P")
"""How the SQLSTATEs begin by which a server ends a session: what it was committing may be committed."""
WAIT_FOR_STANDBY = Statement(queries_of("hooklane.store.postgres")["wait_for_standby"])
COMMIT = f"{WAIT_FOR_STANDBY.sql}; COMMIT"


@contextmanager
def left_to_itself(connection: Any) -> Iterator[None]:
    """Round one call of asyncpg that may commit: it is never cancelled, and after a while it is not waited for.

    asyncpg asks the server to cancel when a time of its own is over or its task is cancelled. So there is no such time
    on these calls, and a connection whose task is cancelled is closed before the request goes out.
    """
    is_late = False

    def leave() -> None:
        nonlocal is_late
        is_late = True
        connection.terminate()

    timer = asyncio.get_running_loop().call_later(COMMIT_WAIT_S, leave)
    try:
        with standby_waited_for(connection):
            yield
    except asyncio.CancelledError:
        connection.terminate()
        raise
    except Exception as error:
        if is_late:
            raise unconfirmed() from error
        raise
    finally:
        timer.cancel()


def commit_psycopg(connection: psycopg.Connection[Any]) -> None:
    """Commit, on a connection of ours; it is closed when the answer takes too long, or the wait is interrupted."""
    from psycopg import errors, pq

    deadline = time.monotonic() + COMMIT_WAIT_S
    server, failed = connection.pgconn, None
    with standby_waited_for(connection):
        try:
            server.send_query(b"COMMIT")
            server.flush()
            while (result := _result(server, deadline)) is not None:
                if result.status == pq.ExecStatus.FATAL_ERROR and failed is None:
                    failed = errors.error_from_result(result, encoding="utf-8")
        except BaseException:
            server.finish()
            raise
        if failed is not None:
            raise failed


def _result(server: Any, deadline: float) -> Any:
    """The next result of what was sent; psycopg's own wait would cancel it when interrupted."""
    while server.is_busy():  # not when the last answer brought it along
        with selectors.DefaultSelector() as selector:
            selector.register(server.socket, selectors.EVENT_READ)
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not selector.select(left_s):
                raise unconfirmed()
        server.consume_input()
    return server.get_result()


def unconfirmed() -> StoreUnconfirmed:
    return StoreUnconfirmed(
        f"PostgreSQL has not answered a COMMIT within {COMMIT_WAIT_S:g} s (its synchronous standby may be away):"
        " it was left to itself, and may happen yet"
    )
