"""A flow that has a part in a shared commit, whichever thread runs it at the moment.

Its steps between `Begin` and `Commit` are its part of a transaction, which another thread may run together with parts
of others. All the rest is done by its owner, in the thread or the event loop that waits for its result.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from hooklane.batching.threads import Waiter
from hooklane.errors import StoreError, StoreUnavailable
from hooklane.receiver.drivers import Driver
from hooklane.receiver.steps import Begin, Commit, Rollback
from hooklane.store.inbox import Flow, Shared


class Part(Waiter):
    """A flow, where it stands, and what came of it. One thread at a time has it in hand."""

    # Defaults of the class: most parts meet no other, and never set them.
    step: Any = None
    """What the flow asks for next; None when it has ended."""
    value: Any = None
    error: BaseException | None = None
    context: Context | None = None
    """Of the request, from when another thread may run it; the handler, its hooks and failpoints share it."""
    is_kept = False
    """Whether its part was run, and waits for the commit."""

    def __init__(self, flow: Flow[Any]) -> None:
        self.flow = flow
        self._go(flow.send, None)

    def _go(self, resume: Callable[[Any], Any], argument: Any) -> None:
        try:
            self.step = resume(argument)
        except StopIteration as end:
            self.step, self.value = None, end.value
        except BaseException as raised:
            self.step, self.error = None, raised

    @property
    def begins(self) -> bool:
        """Whether a transaction comes next."""
        return self.step.__class__ is Begin

    def result(self) -> Any:
        """What came of it in the end."""
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.error = None  # it holds the frames that hold this
        return self.value

    # Waiting for its turn

    def wait_in(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if self.context is None:
            self.context = copy_context()
        self.is_kept = False
        super().wait_in(loop)

    def overdue(self) -> None:
        if self.is_kept:
            raise StoreUnavailable(
                "the commit that this event shares with others has not ended yet: whether it was applied is not known"
            )

    # Steps outside of a transaction, by its owner

    def go_on(self, driver: Driver) -> None:
        """Do what it asks for next."""
        if self.context is None:
            self._go_on(driver)
        else:
            self.context.run(self._go_on, driver)

    def _go_on(self, driver: Driver) -> None:
        try:
            value = driver.perform(self.step)
        except BaseException as raised:
            self._go(self.flow.throw, raised)
        else:
            self._go(self.flow.send, value)

    # Its part of a transaction, by the thread that leads

    def play(self, driver: Driver, session: Shared, saved: bool) -> None:
        """Run the flow from its `Begin`, in its context: then its part is kept for the commit, or the flow is over."""
        self.is_kept = self.is_over = False
        flow, undo = self.flow, session.undo if saved else session.rollback
        try:
            step = flow.send(driver.is_watched)
            while step.__class__ is not Rollback:
                try:
                    if step.__class__ is Commit:
                        driver.reach("before_commit")
                        if saved:
                            session.keep()
                        self.is_kept = True
                        return
                    value = driver.perform(step)
                except BaseException as raised:
                    step = flow.throw(raised)
                else:
                    step = flow.send(value)
            undo()
        except BaseException as raised:  # it left without a word, or could not be undone: then the session is not whole
            self._go(_raise, raised)
            with contextlib.suppress(StoreError):
                undo()
        else:
            self._go(flow.send, None)
        self.is_over = True

    def committed(self) -> None:
        """Its part is durable."""
        self._go(self.flow.send, None)
        self.is_over = True

    def refused(self, error: BaseException) -> None:
        """Its part was not begun, or not committed."""
        self._go(self.flow.throw, error)
        while self.step.__class__ is Rollback:  # it is
            self._go(self.flow.send, None)
        self.is_over = True

    def cut_off(self) -> None:
        """The thread that ran this flow was interrupted: the flow is not run any more."""
        self.step = None
        self.error = StoreUnavailable("the thread that ran this together with its own was interrupted")
        self.is_over = True


def _raise(error: BaseException) -> None:
    raise error
