"""The worker: claims what is due and runs its handlers, until told to stop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hooklane.core.admission.breaker import Breaker, BreakerState
from hooklane.model.clock import Instant, boot_now
from hooklane.model.inbox import Claimed
from hooklane.receiver.drive import transaction
from hooklane.receiver.event import Event
from hooklane.receiver.flows.claims import claim_due, put_back
from hooklane.receiver.flows.handle import Settled, handle
from hooklane.receiver.leases import Leases
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.source import Handler
from hooklane.receiver.threads import closing
from hooklane.telemetry.events import (
    BreakerTurned,
    CommitHookFailed,
    FenceRejected,
    Handled,
    LeaseTakenOver,
    WorkerTroubled,
    nowhere,
)

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

BATCH = 16
POLL_S = 1.0
TEND_MS = 1_000
"""However much there is to handle, so often somebody looks for gaps that are over and for what is too old."""


class Breakers:
    """The breaker of each handler of this process; a lock, because workers may be many threads."""

    def __init__(self, clock: Callable[[], Instant] = boot_now) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._of: dict[tuple[str, str], Breaker] = {}

    def room(self, handler: Handler, wanted: int) -> int:
        """How many calls of *handler* may begin."""
        with self._lock:
            breaker = self._breaker(handler)
            return wanted if breaker is None else breaker.room(self._clock(), wanted)

    def forgo(self, handler: Handler, calls: int) -> None:
        """Calls that were granted and not made."""
        with self._lock:
            breaker = self._breaker(handler)
            if breaker is not None and calls > 0:
                breaker.forgo(calls)

    def record(self, handler: Handler, ok: bool) -> BreakerState | None:
        """A call ended; the new state if it changed."""
        now = self._clock()
        with self._lock:
            breaker = self._breaker(handler)
            if breaker is None:
                return None
            before = breaker.state
            after = breaker.record(ok, now)
        return None if after is before else after

    def open_left_ms(self, handler: Handler) -> int:
        """How long *handler* stays paused; 0 unless it is."""
        breaker = self._of.get((handler.source, handler.name))
        if breaker is None or breaker.state is not BreakerState.OPEN:  # as it nearly always is: neither lock nor clock
            return 0
        with self._lock:
            return breaker.open_left_ms(self._clock())

    def states(self) -> dict[tuple[str, str], BreakerState]:
        """The state of each handler's breaker."""
        with self._lock:
            return {name: breaker.state for name, breaker in self._of.items()}

    def _breaker(self, handler: Handler) -> Breaker | None:
        name = (handler.source, handler.name)
        breaker = self._of.get(name)
        if breaker is None and handler.breaker is not None:
            breaker = self._of[name] = Breaker(handler.breaker)
        return breaker


class Worker:
    """One inbox's worker. `plan` is one pass; threads or a task of an event loop repeat it."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.breakers = Breakers()
        self._stopping = threading.Event()
        self._leases = Leases(inbox)
        self._starting = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._task: asyncio.Task[None] | None = None
        self._pid = 0
        self._tended_at = boot_now()

    # One pass

    def round(self, limit: int, stopping: threading.Event | None = None, for_ms: int | None = None) -> Plan[int]:
        """`plan`; and what an inbox needs besides, when there is nothing to handle or it has been a while."""
        done = yield from self.plan(limit, stopping, for_ms)
        if done and boot_now() - self._tended_at < TEND_MS:
            return done
        self._tended_at = boot_now()
        freed = yield from self._inbox.tend()
        if freed and not done:
            done = yield from self.plan(limit, stopping)
        return done

    def plan(self, limit: int, stopping: threading.Event | None = None, for_ms: int | None = None) -> Plan[int]:
        """Handle up to *limit* due handlings, fewer when *stopping* is set or *for_ms* have passed; how many were."""
        done = 0
        stopping = stopping or threading.Event()
        until = None if for_ms is None else boot_now() + for_ms
        while done < limit and not stopping.is_set() and (until is None or boot_now() < until):
            # What a dead worker left behind is taken one at a time: if it kills its workers, it kills no other.
            claimed = yield from self._claim(expired=True, wanted=1)
            if not claimed:
                claimed = yield from self._claim(expired=False, wanted=min(BATCH, limit - done))
            if not claimed:
                break
            self._leases.hold([each for _, each in claimed])
            try:
                while claimed and not stopping.is_set():
                    yield from self._handle(claimed[0])
                    self._leases.let_go(claimed.pop(0)[1])
                    done += 1
                for _, each in claimed:
                    yield Run(transaction(put_back(self._inbox.context, each)))
            finally:
                for _, each in claimed:
                    self._leases.let_go(each)
        return done

    def _claim(self, *, expired: bool, wanted: int) -> Plan[list[tuple[Handler, Claimed]]]:
        inbox = self._inbox
        rooms = {handler: self.breakers.room(handler, wanted) for handler in self._handlers()}
        taken: list[tuple[Handler, Claimed]] = []
        # A handler whose breaker lets only a few probes through is asked for alone, so that the others get their share.
        open_wide = [handler for handler, room in rooms.items() if room >= wanted]
        narrow = [handler for handler, room in rooms.items() if 0 < room < wanted]
        for group, limit in [(open_wide, wanted), *(([handler], rooms[handler]) for handler in narrow)]:
            if not group:
                continue
            claimed = yield Run(
                claim_due(
                    inbox.context, group, expired=expired, owner=inbox.owner, lease_ms=inbox.lease_ms, limit=limit
                )
            )
            by_name = {(handler.source, handler.name): handler for handler in group}
            taken += [(by_name[each.message.source, each.handler], each) for each in claimed]
        for handler, room in rooms.items():
            self.breakers.forgo(handler, room - sum(other is handler for other, _ in taken))
        return taken

    def _handle(self, work: tuple[Handler, Claimed]) -> Plan[None]:
        inbox = self._inbox
        handler, claimed = work
        message = claimed.message
        if claimed.taken_over:
            inbox.emit(LeaseTakenOver(source=message.source, event_id=message.event_id, handler=handler.name))
        event = Event(
            message,
            attempt=claimed.attempts,
            received_at=claimed.received_at,
            handler=handler.name,
            variant=claimed.variant,
            headers=claimed.headers,
            data_path=inbox.sources[message.source].profile.data,
            can_send=inbox.can_send,
        )
        began = boot_now()
        settled: Settled = yield Run(handle(inbox.context, claimed, handler, event), handler.is_async)
        self.note(handler, event, settled, boot_now() - began)

    def note(self, handler: Handler, event: Event, settled: Settled, took_ms: float) -> None:
        """Tell the breaker and the world how a handler ended."""
        emit = self._inbox.emit
        if settled.counts:
            turned = self.breakers.record(handler, settled.error is None)
            if turned is not None:
                emit(BreakerTurned(source=event.source, handler=handler.name, state=turned))
        else:
            self.breakers.forgo(handler, 1)
        if emit is nowhere:
            return
        source, event_id = event.source, event.id
        if settled.fenced:
            emit(FenceRejected(source=source, event_id=event_id, handler=handler.name))
            return
        for error in settled.hook_errors:
            emit(CommitHookFailed(source=source, event_id=event_id, handler=handler.name, error=repr(error)[:1000]))
        now = self._inbox.clock()
        emit(
            Handled(
                source=source,
                tenant=event.tenant,
                event_id=event_id,
                type=event.type,
                handler=handler.name,
                attempt=event.attempt,
                status=settled.status,
                took_ms=took_ms,
                lag_ms=now - event.received_at,
                error=settled.error,
                retry_in_ms=None if settled.retry_at is None else settled.retry_at - now,
            )
        )

    def _handlers(self) -> Iterator[Handler]:
        for source in self._inbox.sources.values():
            yield from source.handlers.values()

    # Repeating it

    @property
    def is_running(self) -> bool:
        """Whether this process has a worker: a fork does not inherit its parent's."""
        if self._pid != os.getpid():
            return False
        if any(thread.is_alive() for thread in self._threads):
            return True
        # A loop that was closed under its task never ends it.
        task = self._task
        return task is not None and not task.done() and not task.get_loop().is_closed()

    def start(self, threads: int = 1) -> None:
        """Work in *threads* threads of this process."""
        with self._starting:  # the first requests of a process come together, and one worker is enough
            if self.is_running:
                return
            self._forget_parent()
            self._threads = [
                threading.Thread(target=closing(self._work), name=f"hooklane-worker-{number}", daemon=True)
                for number in range(threads)
            ]
            for thread in self._threads:
                thread.start()

    def start_task(self) -> None:
        """Work in this event loop."""
        if self.is_running:
            return
        self._forget_parent()
        self._task = asyncio.get_running_loop().create_task(self._awork(), name="hooklane worker")

    def _forget_parent(self) -> None:
        self._pid = os.getpid()
        self._stopping = threading.Event()
        self._threads, self._task = [], None

    def stop(self, timeout_s: float | None = 30.0) -> None:
        """Finish what is in hand and end; whatever is not done in time is taken over when its lease ends."""
        self._stopping.set()
        self._inbox.arrived.set()
        for thread in self._threads:
            thread.join(timeout_s)
        self._leases.stop()

    async def astop(self, timeout_s: float | None = 30.0) -> None:
        """The same from async code."""
        self._stopping.set()
        self._inbox.arrived.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_s)
        for thread in self._threads:
            await asyncio.to_thread(thread.join, timeout_s)
        self._leases.stop()

    def _work(self) -> None:
        inbox = self._inbox
        while not self._stopping.is_set():
            inbox.arrived.clear()
            try:
                done = inbox.runner.run(self.round(1000, self._stopping, TEND_MS))
            except Exception as error:  # the store is away, as a rule: nothing is lost, so wait and go on
                inbox.emit(WorkerTroubled(error=repr(error)[:1000]))
                self._stopping.wait(POLL_S)
                continue
            if not done:
                inbox.arrived.wait(POLL_S)

    async def _awork(self) -> None:
        inbox = self._inbox
        while not self._stopping.is_set():
            inbox.arrived.clear()
            try:
                done = await inbox.runner.arun(self.round(1000, self._stopping, TEND_MS))
            except Exception as error:  # as above
                inbox.emit(WorkerTroubled(error=repr(error)[:1000]))
                await asyncio.sleep(POLL_S)
                continue
            if not done:
                await inbox.arrived.wait_async(POLL_S)
