"""Is this still the transaction we entered? A savepoint lives exactly as long as its transaction."""

from __future__ import annotations

from hooklane.errors import UsageError
from hooklane.store.caller.flow import Flow, Statement, T

_SET = Statement("SAVEPOINT hooklane_marker")
_RELEASE = Statement("RELEASE SAVEPOINT hooklane_marker")
_SAVE = Statement("SAVEPOINT hooklane_step")
_KEEP = Statement("RELEASE SAVEPOINT hooklane_step")
_UNDO = Statement("ROLLBACK TO SAVEPOINT hooklane_step")


def mark() -> Flow[None]:
    """Mark the open transaction, before the application's own code gets the connection."""
    yield _SET


def confirm() -> Flow[None]:
    """Refuse when the marked transaction is gone: somebody has committed it or rolled it back."""
    try:
        yield _RELEASE
    except Exception as error:
        if _is_gone(error):
            raise UsageError(
                "the handler has committed or rolled back tx itself: hooklane does it, when it returns"
            ) from error
        raise


def undoable(flow: Flow[T]) -> Flow[T]:
    """Run *flow* so that an error of ours leaves no trace, also when the caller catches it and commits."""
    yield _SAVE
    try:
        value = yield from flow
    except UsageError:
        yield _UNDO
        yield _KEEP
        raise
    yield _KEEP
    return value


def _is_gone(error: BaseException) -> bool:
    from hooklane.store.caller.base import sqlstate

    code = sqlstate(error)
    # PostgreSQL: no such savepoint, or no transaction at all. SQLite has no codes, only words.
    return code in ("3B001", "25P01") or (code is None and "no such savepoint" in str(error))
