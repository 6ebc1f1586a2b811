"""The steps that a flow of the receiver asks for: begin, commit, call the handler, wait …

A flow is a generator that yields steps. These are the receiver's own; every other step is the store's and goes to the
session that is open. `drivers.py` performs them, in a thread or in an event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from hooklane.model.value import value
from hooklane.receiver.event import Event
from hooklane.store.inbox import Flow

P = ParamSpec("P")
T = TypeVar("T")


@value(frozen=True, slots=True)
class Begin:
    """Open a transaction; until it ends every other step of the store goes to it. Answers whether a failpoint wants to
    be told of what is reached."""

    wait_ms: int | None = None


@value(frozen=True, slots=True)
class Commit:
    """Make it durable."""


@value(frozen=True, slots=True)
class Rollback:
    pass


@value(frozen=True, slots=True)
class Handle:
    """Call *fn* with the event and the transaction, guarded against ending it."""

    fn: Callable[[Event, Any], Any]
    event: Event


class HandlerFailed(Exception):
    """A handler raised *error*, which would otherwise be taken for an error of the inbox's own store, or for the end of
    this thread or task."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(type(error).__name__)  # its text may be one that cannot be had
        self.error = error


@dataclass(frozen=True, slots=True)
class Publish:
    """Write what the event sends into the outbox of the same database, in the open transaction."""

    event: Event


@dataclass(frozen=True, slots=True)
class AfterCommit:
    """Call what was left with `event.on_commit`; answers the errors."""

    event: Event


@dataclass(frozen=True, slots=True)
class Wait:
    """Let *ms* pass."""

    ms: int


@dataclass(frozen=True, slots=True)
class Reached:
    """The flow is at a point where a crash is worth a test; `Handle` and `Commit` have such points within them."""

    point: str


COMMIT = Commit()
ROLLBACK = Rollback()
AFTER_CLAIM = Reached("after_claim")
AFTER_COMMIT = Reached("after_commit")

RECEIVER_STEPS = frozenset((Begin, Commit, Rollback, Handle, Publish, AfterCommit, Wait, Reached))


def transaction(body: Flow[T], *, wait_ms: int | None = None) -> Flow[T]:
    """Run *body* in one transaction: committed when it returns, rolled back when it raises."""
    watched = yield Begin(wait_ms)
    try:
        result = yield from body
        yield COMMIT
    except BaseException:
        yield ROLLBACK
        raise
    if watched:
        yield AFTER_COMMIT
    return result


def transactional(body: Callable[P, Flow[T]]) -> Callable[P, Flow[T]]:
    """A flow that is a transaction of its own."""

    @wraps(body)
    def flow(*args: P.args, **kwargs: P.kwargs) -> Flow[T]:
        return transaction(body(*args, **kwargs))

    return flow
