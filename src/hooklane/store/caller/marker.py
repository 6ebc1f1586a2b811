"""A step in a caller's transaction that can be undone alone."""

from __future__ import annotations

from hooklane.errors import UsageError
from hooklane.store.caller.flow import Flow, Statement, T

_SAVE = Statement("SAVEPOINT hooklane_step")
_KEEP = Statement("RELEASE SAVEPOINT hooklane_step")
_UNDO = Statement("ROLLBACK TO SAVEPOINT hooklane_step")


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
