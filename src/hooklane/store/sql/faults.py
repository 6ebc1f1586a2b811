"""What does a database driver's error mean for us? Any driver, also under SQLAlchemy or Django."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator

from hooklane.errors import (
    HooklaneError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    TransactionMisused,
)
from hooklane.store.caller import sqlstate

_BUSY = ("40001", "40P01", "55P03")
_AWAY = ("08", "57P0", "53")
_REFUSED = ("28", "3D", "3F", "42501", "42P01")


@contextlib.contextmanager
def faults_named(what: str) -> Iterator[None]:
    """Errors of a driver as errors of ours; errors of ours as they are."""
    try:
        yield
    except (HooklaneError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise named(error, what) from error


def named(error: Exception, what: str) -> StoreError | TransactionMisused:
    """Whose fault *error* is, and what is true now."""
    state = sqlstate(error)
    if state is None:
        return _without_state(error, what)
    if state == "25P02":
        return TransactionMisused(
            "an error of the database was caught inside the handler, and its transaction is aborted:"
            " let the error through, or use a savepoint around what may fail"
        )
    if state == "53100":
        return StoreFull(f"the disk of {what} is full: {error}")
    if state.startswith(_BUSY):
        return StoreBusy(f"{what}: {error}")
    if state.startswith(_AWAY):
        return StoreUnavailable(f"{what} cannot be reached: {error}")
    if state.startswith(_REFUSED):
        return StoreRefused(f"{what}: {error}")
    return StoreError(f"{what}: {error}")


def _without_state(error: Exception, what: str) -> StoreError:
    # What SQLite itself says comes first: Django and SQLAlchemy wrap it in an error that only has a name.
    for cause in _chain(error):
        code = getattr(cause, "sqlite_errorcode", None)
        if code is not None:
            busy = code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            full = code & 0xFF == sqlite3.SQLITE_FULL
            return (StoreBusy if busy else StoreFull if full else StoreError)(f"{what}: {error}")
    for cause in _chain(error):
        # Every driver names a lost or refused connection so; none of them has a SQLSTATE for it.
        if isinstance(cause, OSError) or type(cause).__name__ in ("OperationalError", "InterfaceError", "PoolTimeout"):
            return StoreUnavailable(f"{what} cannot be reached: {error}")
    return StoreError(f"{what}: {type(error).__name__}: {error}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(6):
        if error is None:
            return
        yield error
        error = getattr(error, "orig", None) or error.__cause__
