"""What is true when a call of asyncpg fails? Each error of the driver as one of ours, with a meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hooklane.errors import (
    HooklaneError,
    MissingExtra,
    StoreError,
    StoreUnavailable,
    TransactionAborted,
)
from hooklane.store.postgres import commits
from hooklane.store.postgres.address import address, unread
from hooklane.store.sql import faults

try:
    import asyncpg
except ImportError as missing:
    raise MissingExtra("asyncpg", "postgres") from missing

RACES = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError)
"""What any statement may be answered, even one that only reads: the database may be set to a stricter isolation, or to
a limit on waiting for locks."""
_CALLERS = ("40001", "40P01", "55P03", "23505", "22012")
"""Left as they are, for the caller, which knows what to do: lost a race, a lock is held, a unique name is taken, or a
statement of ours found that what it relies on is not so (and divided by zero)."""


_LOST = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncio.IncompleteReadError)
"""A TimeoutError is an OSError; the third is what asyncpg says on a session that the server ended between two
statements, before it has seen the end itself."""


class Unknown(StoreError):
    """The connection was lost while the commit was under way: it may have happened. Repeating it is safe."""


@contextmanager
def named(*, unknown: bool = False) -> Iterator[None]:
    """Errors of the driver as errors of ours. When *unknown*, a lost connection leaves the outcome open."""
    try:
        yield
    except HooklaneError:
        raise
    except asyncpg.PostgresError as error:
        if error.sqlstate in _CALLERS:
            raise
        raise _named(error, unknown) from error
    except _LOST as error:
        raise _lost(error, unknown) from error


def _named(error: Any, unknown: bool) -> StoreError | TransactionAborted:
    if unknown and str(error.sqlstate or "").startswith(commits.ENDED):
        return _lost(error, unknown)
    return faults.named(error, "PostgreSQL")


def _lost(error: BaseException, unknown: bool) -> StoreError:
    words = str(error) or type(error).__name__
    if unknown:
        return Unknown(f"the connection to PostgreSQL was lost during a commit: {words}")
    return StoreUnavailable(f"PostgreSQL cannot be reached: {words}")


@contextmanager
def opening(url: str) -> Iterator[None]:
    """What goes wrong at the start is told in one line with the address, never the password."""
    try:
        with named():
            yield
    except StoreError as error:
        raise type(error)(f"{address(url)}: {error}") from error
    except asyncpg.LockNotAvailableError as error:
        raise StoreUnavailable(
            f"{address(url)}: another process is migrating it, or a transaction that is still open (a backup?) holds a"
            " table that must be changed: nothing was, try again when it has ended"
        ) from error
    except ValueError as error:
        raise unread(url, error) from None
