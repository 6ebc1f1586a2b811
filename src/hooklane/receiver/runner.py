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

from hooklane.batching.locks import open_in_forks
from hooklane.errors import UsageError
from hooklane.model.clock import Instant
from hooklane.model.value import value
from hooklane.receiver.arrival import Arrival
from hooklane.receiver.drivers import AsyncDriver, Driver, Failpoint
from hooklane.receiver.flows.receive import receive
from hooklane.receiver.insert_batches import AsyncInsertBatches, InsertBatches
from hooklane.receiver.shared_commit.tasks import TaskCommits
from hooklane.receiver.shared_commit.threads import SharedCommits
from hooklane.store.inbox import Flow, InboxStore, Session, SingleWriter

T = TypeVar("T")
THREADS = 32


@value(frozen=True, slots=True)
class Run:
    """Run *flow* in the way that the handler in it needs: *is_async* None when there is none."""

    flow: Flow[Any]
    is_async: bool | None = None
    reads: bool = False
    """It writes nothing, so it needs no turn."""


@value(frozen=True, slots=True)
class Insert:
    """Store *arrivals*, in one commit with those of requests that come at the same time; answers receipts."""

    arrivals: Sequence[Arrival]


Plan = Generator[Run | Insert, Any, T]


class Looking:
    """A single writer's store for flows that only read: they wait for no writer."""

    def __init__(self, store: SingleWriter) -> None:
        self._store = store

    def begin(self, *, wait_ms: int | None = None) -> Session:
        return self._store.begin_look()


class Runner:
    """Runs plans, from sync and from async code."""

    def __init__(
        self, store: InboxStore, *, outbox: Any, failpoint: Failpoint | None, clock: Callable[[], Instant]
    ) -> None:
        self._store = store
        self._outbox = outbox
        self.failpoint = failpoint
        self._portal = Portal()
        self.shared_commits = (
            SharedCommits(store, self.driver, self._in_thread) if isinstance(store, SingleWriter) else None
        )
        self.task_commits = TaskCommits(store) if isinstance(store, SingleWriter) else None
        self._looking = Looking(store) if isinstance(store, SingleWriter) else None
        self._inserts = InsertBatches(lambda arrivals: self._run_here(receive(store, arrivals, clock())))
        self._ainserts = AsyncInsertBatches(lambda arrivals: self.adriver().run(receive(store, arrivals, clock())))
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

    def _run(self, step: Run | Insert) -> Any:
        if isinstance(step, Insert):
            if self._store.capabilities.sync:
                return self._inserts.submit(step.arrivals)
            return self._portal.run(self._ainserts.submit(step.arrivals))
        if step.reads and self._looking is not None:
            return Driver(self._looking).run(step.flow)
        if step.is_async or not self._store.capabilities.sync:
            return self._portal.run(self._arun_here(step.flow))
        return self._run_here(step.flow)

    def _run_here(self, flow: Flow[T]) -> T:
        return self.driver().run(flow) if self.shared_commits is None else self.shared_commits.run(flow)

    async def _arun_here(self, flow: Flow[T]) -> T:
        return await AsyncDriver(self.task_commits or self._store, outbox=self._outbox, failpoint=self.failpoint).run(
            flow
        )

    async def _arun(self, step: Run | Insert) -> Any:
        capabilities = self._store.capabilities
        if isinstance(step, Insert):
            if capabilities.native_async:
                return await self._ainserts.submit(step.arrivals)
            return await self._in_thread(self._inserts.submit, step.arrivals)
        if step.reads and self._looking is not None:
            return await self._in_thread(Driver(self._looking).run, step.flow)
        native = capabilities.native_async if step.is_async is None else step.is_async
        if native:
            return await self._arun_here(step.flow)
        if self.shared_commits is not None:
            return await self.shared_commits.arun(step.flow)
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

        Not asyncio's own pool: that is small and shared, and a thread that waits for a lock could starve its holder.
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
        if self.shared_commits is not None:
            self.shared_commits.close()
        if self._threads is not None and self._threads_pid == os.getpid():
            self._threads.shutdown(wait=False)
            self._threads = None


class Portal:
    """An event loop in a thread of its own, for async handlers that are called from sync code."""

    def __init__(self) -> None:
        self._lock = open_in_forks(threading.Lock())
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
