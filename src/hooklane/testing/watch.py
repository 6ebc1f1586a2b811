"""What did the inbox under test do? Counts what took effect, and lets it die where a test wants it to."""

from __future__ import annotations

import functools
import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Literal, get_args

from hooklane.errors import UsageError
from hooklane.receiver.event import Event
from hooklane.receiver.inbox import Inbox
from hooklane.receiver.source import Handler
from hooklane.telemetry.events import InboxEvent, Received

CrashPoint = Literal["after_claim", "after_handler", "before_commit", "after_commit"]
POINTS: tuple[str, ...] = get_args(CrashPoint)

Name = tuple[str, str, str]
"""Source, account and event id."""

_log = logging.getLogger("hooklane.testing")

# Of this thread or task: the copy that is being delivered, and the handler's turn that has begun and not ended.
_delivering: ContextVar[tuple[str, ...] | None] = ContextVar("delivering", default=None)
_begun: ContextVar[bool] = ContextVar("begun", default=False)
_running: ContextVar[Name | None] = ContextVar("running", default=None)


class Crashed(BaseException):
    """The process "died" here. Not an Exception: no code may catch it and go on, as after kill -9."""


class Watch:
    """Watches one inbox until `restore`: its handlers, its failpoints, and what it tells."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.runs: Counter[Name] = Counter()
        self.commits: Counter[Name] = Counter()
        self._seen_as: dict[tuple[str, ...], set[Name]] = {}
        self._lock = threading.Lock()
        self._own: dict[tuple[str, str], tuple[Handler, Handler]] = {}
        self._emit, self._failpoint = inbox.emit, inbox.runner.failpoint
        self._crash_at: str | None = None
        inbox.emit = self._told
        inbox.runner.failpoint = self._reached

    def restore(self) -> None:
        """Leave the inbox as it was."""
        self.inbox.emit, self.inbox.runner.failpoint = self._emit, self._failpoint
        for (source, name), (handler, watched) in self._own.items():
            handlers = self.inbox.sources[source].handlers
            if handlers.get(name) is watched:
                handlers[name] = handler
        self._own.clear()

    # What took effect

    def handlers(self) -> None:
        """Watch the handlers that there are by now."""
        for source in self.inbox.sources.values():
            for name, handler in source.handlers.items():
                known = self._own.get((source.name, name))
                if known is None or known[1] is not handler:
                    watched = replace(handler, fn=self._watched(handler))
                    self._own[source.name, name] = (handler, watched)
                    source.handlers[name] = watched

    def names(self, copy: tuple[str, ...]) -> set[Name]:
        """Under which names the inbox has seen the events of *copy*."""
        with self._lock:
            return set(self._seen_as.get(copy, ()))

    @contextmanager
    def delivering(self, copy: tuple[str, ...]) -> Iterator[None]:
        """What the inbox tells in here is about *copy*."""
        token = _delivering.set(copy)
        try:
            yield
        finally:
            _delivering.reset(token)

    def _told(self, event: InboxEvent) -> None:
        if isinstance(event, Received):
            self._saw((event.source, event.account, event.event_id))
        self._emit(event)

    def _saw(self, name: Name) -> None:
        copy = _delivering.get()
        if copy is not None:
            with self._lock:
                self._seen_as.setdefault(copy, set()).add(name)

    def _watched(self, handler: Handler) -> Any:
        fn = handler.fn
        if handler.is_async:

            @functools.wraps(fn)
            async def awatched(event: Event, tx: Any) -> Any:
                with self._turn(handler, event):
                    return await fn(event, tx)

            return awatched

        @functools.wraps(fn)
        def watched(event: Event, tx: Any) -> Any:
            with self._turn(handler, event):
                return fn(event, tx)

        return watched

    @contextmanager
    def _turn(self, handler: Handler, event: Event) -> Iterator[None]:
        self._begins(event)
        try:
            yield
        except Exception:
            # The inbox keeps the error with the event; the reader of a failed test finds it in the captured log.
            _log.warning("%s raised on %r", handler.name, event, exc_info=True)
            raise

    def _begins(self, event: Event) -> None:
        name = (event.source, event.account, event.id)
        _running.set(name)
        self._saw(name)  # inline, it may die before it tells
        with self._lock:
            self.runs[name] += 1
        event.on_commit(lambda: self._committed(name))

    def _committed(self, name: Name) -> None:
        with self._lock:
            self.commits[name] += 1

    # Where it dies

    @contextmanager
    def crashing(self, point: str) -> Iterator[None]:
        """The next handler's turn that comes to *point* ends there. Its lease is over by the time of a redelivery."""
        if point not in POINTS:
            raise UsageError(f"a crash point is one of {', '.join(POINTS)}, got {point!r}")
        inbox = self.inbox
        lease_ms, inline = inbox.lease_ms, inbox.inline
        inbox.lease_ms, inbox.inline = 0, replace(inbox.inline, lease_ms=0)
        self._crash_at = point
        try:
            yield
        finally:
            self._crash_at = None
            inbox.lease_ms, inbox.inline = lease_ms, inline

    def _reached(self, point: str) -> None:
        if self._failpoint is not None:
            self._failpoint(point)
        if point == "after_claim":
            _begun.set(True)
            _running.set(None)
        # Other transactions (storing, claiming) pass "before_commit" too; a handler's turn begins with its claim.
        if not _begun.get():
            return
        if point == "after_commit":
            _begun.set(False)
        if point == self._crash_at:
            self._crash_at = None
            _begun.set(False)
            name = _running.get()
            if point == "after_commit" and name is not None:
                self._committed(name)  # its hooks will not run, but it is done
            raise Crashed(point)
