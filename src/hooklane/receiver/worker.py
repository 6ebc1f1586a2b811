"""The worker: claims what is due and runs its handlers, until told to stop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hooklane.batching.locks import open_in_forks
from hooklane.model.clock import boot_now, wall_now
from hooklane.model.inbox import Claimed
from hooklane.receiver.breakers import Breakers
from hooklane.receiver.event import Event
from hooklane.receiver.failure import text_of
from hooklane.receiver.flows.claims import claim_due, put_back
from hooklane.receiver.flows.handle import Settled, handle
from hooklane.receiver.leases import Leases
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.source import Handler
from hooklane.receiver.steps import transaction
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
"""However much there is to handle, so often the worker looks for gaps that are over and for what is too old."""


@dataclass(frozen=True, slots=True)
class Work:
    """What was claimed, for which handler, and in which turn of its breaker."""

    handler: Handler
    claimed: Claimed
    turn: int


class Worker:
    """One inbox's worker. `plan` is one pass; threads or a task of an event loop repeat it."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        # The host's wall clock may be set, and no breaker minds; a clock of the caller's own is the time of everything.
        self.breakers = Breakers(boot_now if inbox.clock.clock is wall_now else inbox.clock)
        self._stopping = open_in_forks(threading.Event())
        self._leases = Leases(inbox)
        self._starting = open_in_forks(threading.Lock())
        self._threads: list[threading.Thread] = []
        self._task: asyncio.Task[None] | None = None
        self._pid = 0
        self._tended_at = boot_now()

    # One pass

    def round(self, limit: int, stopping: threading.Event | None = None, for_ms: int | None = None) -> Plan[int]:
        """`plan`; and what an inbox needs besides, when there is nothing to handle or it has been a while."""
        yield from self._inbox.maintenance.keep_clock()
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
            self._leases.hold([work.claimed for work in claimed])
            try:
                while claimed and not stopping.is_set():
                    yield from self._handle(claimed[0])
                    self._leases.let_go(claimed.pop(0).claimed)
                    done += 1
                for work in claimed:
                    yield Run(transaction(put_back(self._inbox.context, work.claimed)))
            finally:
                for work in claimed:
                    self._leases.let_go(work.claimed)
                    self.breakers.forgo(work.handler, 1, work.turn)
        return done

    def _claim(self, *, expired: bool, wanted: int) -> Plan[list[Work]]:
        rooms = {handler: self.breakers.room(handler, wanted) for handler in self._handlers()}
        named = {(handler.source, handler.name): handler for handler in rooms}
        taken: list[Work] = []
        # A handler whose breaker lets only a few probes through is asked for alone, so that the others get their share.
        open_wide = [handler for handler, (room, _) in rooms.items() if room >= wanted]
        narrow = [handler for handler, (room, _) in rooms.items() if 0 < room < wanted]
        try:
            for group, limit in [(open_wide, wanted), *(([handler], rooms[handler][0]) for handler in narrow)]:
                if group:
                    for each in (yield from self._take(group, expired, limit)):
                        handler = named[each.message.source, each.handler]
                        taken.append(Work(handler, each, rooms[handler][1]))
        finally:
            for handler, (room, turn) in rooms.items():
                self.breakers.forgo(handler, room - sum(work.handler is handler for work in taken), turn)
        return taken

    def _take(self, group: list[Handler], expired: bool, limit: int) -> Plan[list[Claimed]]:
        inbox = self._inbox
        flow = claim_due(inbox.context, group, expired=expired, lease_ms=inbox.lease_ms, limit=limit)
        claimed: list[Claimed] = yield Run(flow)
        return claimed

    def _handle(self, work: Work) -> Plan[None]:
        inbox = self._inbox
        handler, claimed = work.handler, work.claimed
        message = claimed.message
        if claimed.taken_over:
            inbox.tell(LeaseTakenOver(source=message.source, event_id=message.event_id, handler=handler.name))
        event = handler.event(
            message,
            claimed.received_at,
            can_send=inbox.can_send,
            attempt=claimed.attempts,
            variant=claimed.variant,
            headers=claimed.headers,
        )
        began = boot_now()
        settled: Settled = yield Run(handle(inbox.context, claimed, handler, event), handler.is_async)
        self.note(handler, event, settled, boot_now() - began, work.turn)

    def note(self, handler: Handler, event: Event, settled: Settled, took_ms: float, turn: int) -> None:
        """Tell the breaker and the world how a handler ended."""
        emit = self._inbox.emit
        if settled.counts:
            turned = self.breakers.record(handler, settled.error is None, turn)
            if turned is not None:
                emit(BreakerTurned(source=event.source, handler=handler.name, state=turned))
        else:
            self.breakers.forgo(handler, 1, turn)
        if emit is nowhere and settled.error is None and not settled.hook_errors:
            return
        source, event_id = event.source, event.id
        if settled.fenced:
            self._inbox.tell(FenceRejected(source=source, event_id=event_id, handler=handler.name))
            return
        self.tell_hooks(event, settled)
        now = self._inbox.clock()
        handled = Handled(
            source=source,
            account=event.account,
            event_id=event_id,
            type=event.type,
            handler=handler.name,
            attempt=event.attempt,
            status=settled.status,
            took_ms=took_ms,
            lag_ms=max(0, now - event.received_at),
            error=settled.error,
            raised_at=settled.raised_at,
            retry_in_ms=None if settled.retry_at is None else max(0, settled.retry_at - now),
        )
        if settled.error is None:
            emit(handled)
        else:
            self._inbox.tell(handled)

    def tell_hooks(self, event: Event, settled: Settled) -> None:
        """Tell which functions failed that were left for after the commit."""
        for error in settled.hook_errors:
            failed = CommitHookFailed(
                source=event.source, event_id=event.id, handler=event.handler, error=text_of(error)
            )
            self._inbox.tell(failed)

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
            if self.is_running and not self._stopping.is_set():  # one that was told to stop has no more than it holds
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
        if self.is_running and not self._stopping.is_set():
            return
        self._forget_parent()
        self._task = asyncio.get_running_loop().create_task(self._awork(), name="hooklane worker")

    def _forget_parent(self) -> None:
        self._pid = os.getpid()
        self._stopping = open_in_forks(threading.Event())
        self._threads, self._task = [], None

    def stop(self, timeout_s: float | None = 30.0) -> None:
        """Finish what is in hand and end; whatever is not done in time is taken over when its lease ends."""
        self._stopping.set()
        self._inbox.arrived.set()
        for thread in self._threads:
            thread.join(timeout_s)
        self._leases.stop()

    async def astop(self, timeout_s: float | None = 30.0) -> None:
        """`stop`, from async code."""
        self._stopping.set()
        self._inbox.arrived.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_s)
        for thread in self._threads:
            await asyncio.to_thread(thread.join, timeout_s)
        self._leases.stop()

    def _work(self) -> None:
        inbox, stopping = self._inbox, self._stopping  # the next worker has another one
        while not stopping.is_set():
            inbox.arrived.clear()
            try:
                done = inbox.runner.run(self.round(1000, stopping, TEND_MS))
            except Exception as error:  # the store is away, as a rule: nothing is lost, so wait and go on
                inbox.tell(WorkerTroubled(error=text_of(error)))
                stopping.wait(POLL_S)
                continue
            if not done:
                inbox.arrived.wait(POLL_S)

    async def _awork(self) -> None:
        inbox, stopping = self._inbox, self._stopping
        while not stopping.is_set():
            inbox.arrived.clear()
            try:
                done = await inbox.runner.arun(self.round(1000, stopping, TEND_MS))
            except Exception as error:  # as above
                inbox.tell(WorkerTroubled(error=text_of(error)))
                await asyncio.sleep(POLL_S)
                continue
            if not done:
                await inbox.arrived.wait_async(POLL_S)
