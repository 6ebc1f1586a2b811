"""What does a database driver's error mean for us? Any driver, also under SQLAlchemy or Django."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import assert_never

from hooklane.errors import (
    CommitRefused,
    HooklaneError,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    TransactionAborted,
)
from hooklane.model.sqlstate import Meaning
from hooklane.store.caller import causes, meanings
from hooklane.store.caller.causes import is_coded
from hooklane.store.caller.guard import CAUGHT


@contextlib.contextmanager
def faults_named(what: str) -> Iterator[None]:
    """Errors of a driver as errors of ours; errors of ours as they are."""
    try:
        yield
    except (HooklaneError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise named(error, what) from error


@contextlib.contextmanager
def commits_named(what: str) -> Iterator[None]:
    """The same for a commit, where what the handler wrote may break a rule that is checked only then, or set off a
    trigger that meets a table which is not there or not allowed."""
    try:
        with faults_named(what):
            yield
    except StoreError as error:
        if type(error) in (StoreError, StoreRefused) and any(is_coded(cause) for cause in causes(error)):
            raise CommitRefused(str(error)) from error.__cause__
        raise


def named(error: Exception, what: str) -> StoreError | TransactionAborted:
    """Whose fault *error* is, and what is true now. A driver's words of several lines become one."""
    words = " ".join(str(error).split())
    match next(meanings(error), None):
        case Meaning.ABORTED:
            return TransactionAborted(CAUGHT)
        case Meaning.FULL:
            return StoreFull(f"the disk of {what} is full: {words}")
        case Meaning.LOST_RACE:
            return StoreBusy(f"{what}: {words}")
        case Meaning.CUT_SHORT:
            return StoreUnavailable(f"{what}: {words}")
        case Meaning.SHORT_OF | Meaning.AWAY:
            return StoreUnavailable(f"{what} cannot be reached: {words}")
        case Meaning.REFUSED:
            return StoreRefused(f"{what}: {words}")
        case Meaning.BROKEN_RULE:
            return StoreError(f"{what}: {words}")
        case None:
            return _without_meaning(error, what, words)
        case other:
            assert_never(other)


def _without_meaning(error: Exception, what: str, words: str) -> StoreError:
    known = list(causes(error))
    if not any(is_coded(cause) for cause in known) and any(_is_of_a_network(cause) for cause in known):
        return StoreUnavailable(f"{what} cannot be reached: {words}")
    return StoreError(f"{what}: {type(error).__name__}: {words}")


def _is_of_a_network(error: BaseException) -> bool:
    # Every driver names a lost or refused connection so; none of them has a code for it.
    return isinstance(error, OSError) or type(error).__name__ in ("OperationalError", "InterfaceError", "PoolTimeout")
