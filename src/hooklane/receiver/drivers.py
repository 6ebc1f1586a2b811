"""Drivers run a flow: `Driver` in a thread for sync handlers, `AsyncDriver` in an event loop for async ones.

The two are all that differs between a thread and an event loop; what is decided is in the flow.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

from hooklane.errors import StoreError, UsageError
from hooklane.receiver.event import Event
from hooklane.receiver.steps import (
    RECEIVER_STEPS,
    AfterCommit,
    Begin,
    Commit,
    Handle,
    HandlerFailed,
    Publish,
    Reached,
    Rollback,
    Wait,
)
from hooklane.store.caller.the_end import is_the_end
from hooklane.store.inbox import AsyncSession, Flow, Session

T = TypeVar("T")

Failpoint = Callable[[str], None]
"""Called with `after_claim`, `after_handler`, `before_commit` or `after_commit`: tests crash or stall there."""


class SyncBeginner(Protocol):
    """What opens transactions for flows in a thread: the store, or `SharedCommits` before it."""

    def begin(self, *, wait_ms: int | None = None) -> Session: ...


class Driver:
    """Runs flows in this thread, on sync sessions."""

    def __init__(self, store: SyncBeginner, *, outbox: Any = None, failpoint: Failpoint | None = None) -> None:
        self._store = store
        self._outbox = outbox
        self._failpoint = failpoint
        self.session: Session | None = None

    @property
    def is_watched(self) -> bool:
        """Whether a failpoint wants to be told of what was reached."""
        return self._failpoint is not None

    def run(self, flow: Flow[T]) -> T:
        """Run *flow* to its end."""
        _, value = self.resume(flow, None, None, pause=False)
        return value  # type: ignore[no-any-return]

    def resume(
        self, flow: Generator[Any, Any, Any], value: Any, error: BaseException | None, *, pause: bool
    ) -> tuple[bool, Any]:
        """Run *flow* until it ends (True, its result) or, with *pause*, until the handler's turn (False, the tx)."""
        try:
            step = flow.send(value) if error is None else flow.throw(error)
            while not (pause and step.__class__ is Handle):
                try:
                    value = self.perform(step)
                except BaseException as raised:
                    step = flow.throw(raised)
                else:
                    step = flow.send(value)
            assert self.session is not None
            _hand_over(step, self.session)
            return False, self.session.tx
        except StopIteration as end:
            return True, end.value
        except BaseException:
            self._release()
            raise

    def taking_back(self, error: BaseException | None) -> None:
        """End of the pause that `resume` made for the handler."""
        if self.session is not None:
            self.session.taking_back(error)
            if error is None:
                self.reach("after_handler")

    def perform(self, step: Any) -> Any:
        """Do what a flow asks for with *step*; the answer to it."""
        kind, session = step.__class__, self.session
        # By class, for what each event takes: a match looks at every step up to eight times.
        if kind is Reached:
            self.reach(step.point)
        elif kind is Begin:
            self.session = self._store.begin(wait_ms=step.wait_ms)
            return self.is_watched
        elif kind in RECEIVER_STEPS:
            return self._act(step, session)
        else:
            assert session is not None, f"{step} outside a transaction"
            return session.perform(step)
        return None

    def _act(self, step: Any, session: Session | None) -> Any:
        match step:
            case Handle():
                assert session is not None
                _hand_over(step, session)
                try:
                    _must_be_done(step.fn(step.event, session.tx), "the handler")
                except BaseException as error:
                    session.taking_back(error)
                    blame_handler(error)
                    raise
                session.taking_back()
                self.reach("after_handler")
            case Commit():
                assert session is not None
                self.reach("before_commit")
                session.commit()
                self._release()
            case Rollback():
                if session is not None:
                    try:
                        session.rollback()
                    finally:
                        self._release()
            case Publish(event):
                assert session is not None
                for sent in event.sent:
                    self._outbox.publish(sent.type, sent.data, key=sent.key, tx=session.tx)
            case AfterCommit(event):
                return _call_all(event)
            case Wait(ms):
                time.sleep(ms / 1000)
        return None

    def reach(self, point: str) -> None:
        """A flow is at *point*."""
        if self._failpoint is not None:
            self._failpoint(point)

    def _release(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.close()


def _hand_over(step: Handle, session: Session) -> None:
    session.handing_over()
    step.event.hook_errors = getattr(session, "hook_errors", ())


class Beginner(Protocol):
    """What opens transactions for async flows: the store, or `TaskCommits` before it."""

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncSession: ...


class AsyncDriver:
    """Runs flows on async sessions, for async handlers: what `Driver` is for sync ones."""

    def __init__(self, store: Beginner, *, outbox: Any = None, failpoint: Failpoint | None = None) -> None:
        self._store = store
        self._outbox = outbox
        self._failpoint = failpoint
        self._session: AsyncSession | None = None

    async def run(self, flow: Flow[T]) -> T:
        """Run *flow* to its end."""
        _, value = await self.resume(flow, None, None, pause=False)
        return value  # type: ignore[no-any-return]

    async def resume(
        self, flow: Generator[Any, Any, Any], value: Any, error: BaseException | None, *, pause: bool
    ) -> tuple[bool, Any]:
        """Run *flow* until it ends (True, its result) or, with *pause*, until the handler's turn (False, the tx)."""
        try:
            step = flow.send(value) if error is None else flow.throw(error)
            while not (pause and step.__class__ is Handle):
                try:
                    value = await self._perform(step)
                except BaseException as raised:
                    step = flow.throw(raised)
                else:
                    step = flow.send(value)
            assert self._session is not None
            await self._session.handing_over()
            return False, self._session.tx
        except StopIteration as end:
            return True, end.value
        except BaseException:
            await self._release()
            raise

    async def taking_back(self, error: BaseException | None) -> None:
        """End of the pause that `resume` made for the handler."""
        if self._session is not None:
            await self._session.taking_back(error)
            if error is None:
                self._reach("after_handler")

    async def _perform(self, step: Any) -> Any:
        session = self._session
        if step.__class__ not in RECEIVER_STEPS:
            assert session is not None, f"{step} outside a transaction"
            return await session.perform(step)
        match step:
            case Reached(point):
                self._reach(point)
            case Begin(wait_ms):
                self._session = await self._store.abegin(wait_ms=wait_ms)
                return self._failpoint is not None
            case Commit():
                assert session is not None
                self._reach("before_commit")
                await session.commit()
                await self._release()
            case Rollback():
                if session is not None:
                    try:
                        await session.rollback()
                    finally:
                        await self._release()
            case Handle(fn, event):
                assert session is not None
                await session.handing_over()
                try:
                    _must_be_done(await fn(event, session.tx), "the handler", "await it")
                except BaseException as error:
                    await session.taking_back(error)
                    blame_handler(error)
                    raise
                await session.taking_back()
                self._reach("after_handler")
            case Publish(event):
                assert session is not None
                for sent in event.sent:
                    published = self._outbox.publish(sent.type, sent.data, key=sent.key, tx=session.tx)
                    if asyncio.iscoroutine(published) or asyncio.isfuture(published):
                        await published
            case AfterCommit(event):
                return await _await_all(event)
            case Wait(ms):
                await asyncio.sleep(ms / 1000)
        return None

    def _reach(self, point: str) -> None:
        if self._failpoint is not None:
            self._failpoint(point)

    async def _release(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def blame_handler(error: BaseException) -> None:
    """Raise `HandlerFailed` where *error* is the handler's, although its type says otherwise: an outbox that it uses is
    away, a task that it awaited was cancelled, a library that it called has called `sys.exit`, has panicked (Rust's) or
    has timed out (gevent's)."""
    if isinstance(error, StoreError) or not (isinstance(error, Exception) or is_the_end(error)):
        raise HandlerFailed(error) from error


def _must_be_done(result: Any, what: str, advice: str = "make it async def") -> None:
    """A function that gives back what another one promised (a decorator, a lambda, a `return` without `await`) has done
    nothing yet, and is not awaited here; nor has one with a `yield` in it."""
    if result is None:
        return
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise UsageError(f"{what} gave back something to await, so none of its work was done: {advice}")
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise UsageError(f"{what} gave back a generator, so none of its work was done: it must not yield")


def _call_all(event: Event) -> list[BaseException]:
    errors: list[BaseException] = []
    for hook in event.hooks:
        try:
            _must_be_done(hook(), "a function of event.on_commit")
        except BaseException as error:  # committed already: the error is told, the event is not run again
            if is_the_end(error):
                raise
            errors.append(error)
    return errors


async def _await_all(event: Event) -> list[BaseException]:
    errors: list[BaseException] = []
    for hook in event.hooks:
        try:
            result = hook()
            if asyncio.iscoroutine(result):
                _must_be_done(await result, "a function of event.on_commit", "await it")
        except BaseException as error:  # as above
            if is_the_end(error):
                raise
            errors.append(error)
    return errors
