"""Where does a flow run? In this thread or this event loop, or, when its handler is of the other kind, in another.

A plan is a generator that yields flows to run, each for a handler (or for none) and gets their results: the parts of
the inbox that take several transactions are written as plans, once for sync and async callers.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hooklane.errors import UsageError
from hooklane.model.clock import Instant
from hooklane.model.value import value
from hooklane.receiver.drive import AsyncDriver, Driver, Failpoint
from hooklane.receiver.flows.receive import Arrival, receive
from hooklane.receiver.gather import AsyncGatherer, Gatherer
from hooklane.receiver.in_turns import InTurns
from hooklane.receiver.together import Together
from hooklane.store.inbox import Flow, InboxStore, SingleWriter

T = TypeVar("T")
THREADS = 32


@value(frozen=True, slots=True)
class Run:
    """Run *flow* in the way that the handler in it needs: *is_async* None when there is none."""

    flow: Flow[Any]
    is_async: bool | None = None


@value(frozen=True, slots=True)
class Store:
    """Store *arrivals*, in one commit with those of others who come at the same time; answers receipts."""

    arrivals: Sequence[Arrival]


Plan = Generator[Run | Store, Any, T]


class Runner:
    """Runs plans, from sync and from async code."""

    def __init__(
        self, store: InboxStore, *, outbox: Any, failpoint: Failpoint | None, clock: Callable[[], Instant]
    ) -> None:
        self._store = store
        self._outbox = outbox
        self.failpoint = failpoint
        self._portal = Portal()
        self.together = Together(store, self.driver, self._in_thread) if isinstance(store, SingleWriter) else None
        self.in_turns = InTurns(store) if isinstance(store, SingleWriter) else None
        self._gatherer = Gatherer(lambda arrivals: self._run_here(receive(store, arrivals, clock())))
        self._agatherer = AsyncGatherer(lambda arrivals: self.adriver().run(receive(store, arrivals, clock())))
        self._threads: ThreadPoolExecutor | None = None
        self._threads_pid = 0

    def run(self, plan: Plan[T]) -> T:
        """Run *plan* from sync code."""
        try:
            step = next(plan)
            while True:
                try:
                    value = self._run(step)
                except BaseException as error:
                    step = plan.throw(error)
                else:
                    step = plan.send(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def arun(self, plan: Plan[T]) -> T:
        """Run *plan* from async code."""
        try:
            step = next(plan)
            while True:
                try:
                    value = await self._arun(step)
                except BaseException as error:
                    step = plan.throw(error)
                else:
                    step = plan.send(value)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _run(self, step: Run | Store) -> Any:
        if isinstance(step, Store):
            if self._store.capabilities.sync:
                return self._gatherer.submit(step.arrivals)
            return self._portal.run(self._agatherer.submit(step.arrivals))
        if step.is_async or not self._store.capabilities.sync:
            return self._portal.run(self._arun_here(step.flow))
        return self._run_here(step.flow)

    def _run_here(self, flow: Flow[T]) -> T:
        return self.driver().run(flow) if self.together is None else self.together.run(flow)

    async def _arun_here(self, flow: Flow[T]) -> T:
        return await AsyncDriver(self.in_turns or self._store, outbox=self._outbox, failpoint=self.failpoint).run(flow)

    async def _arun(self, step: Run | Store) -> Any:
        capabilities = self._store.capabilities
        if isinstance(step, Store):
            if capabilities.native_async:
                return await self._agatherer.submit(step.arrivals)
            return await self._in_thread(self._gatherer.submit, step.arrivals)
        native = capabilities.native_async if step.is_async is None else step.is_async
        if native:
            return await self._arun_here(step.flow)
        if self.together is not None:
            return await self.together.arun(step.flow)
        return await self._in_thread(self.driver().run, step.flow)

    def driver(self) -> Driver:
        """A driver for one flow in this thread."""
        if not self._store.capabilities.sync:
            raise UsageError("a sync handler needs a sync connection, and this inbox was given an async engine or pool")
        return Driver(self._store, outbox=self._outbox, failpoint=self.failpoint)

    def adriver(self) -> AsyncDriver:
        """A driver for one flow in this event loop."""
        return AsyncDriver(self._store, outbox=self._outbox, failpoint=self.failpoint)

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call *function* in a thread of ours, to its end even when cancelled: no transaction is left half-way.

        Not asyncio's own pool: that is small and shared, and one who waits here for a lock could starve its holder.
        """
        if self._threads is None or self._threads_pid != os.getpid():
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="hooklane-inbox")
            self._threads_pid = os.getpid()
        context = contextvars.copy_context()
        task = asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(function, *arguments))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            raise

    def close(self) -> None:
        self._portal.close()
        if self.together is not None:
            self.together.close()
        if self._threads is not None and self._threads_pid == os.getpid():
            self._threads.shutdown(wait=False)
            self._threads = None


class Portal:
    """An event loop in a thread of its own, for async handlers that are called from sync code."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run *coroutine* there and wait for its result."""
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=self._loop.run_forever, name="hooklane-portal", daemon=True)
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
            if loop is not None and self._thread is not None and self._pid == os.getpid():
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join()
                loop.close()
