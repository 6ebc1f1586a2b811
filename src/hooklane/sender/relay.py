"""The deliver role: the asyncio shell of the engine. It does what the engine asks and tells it how that went."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from hooklane.core.engine import (
    Committed,
    Draining,
    Dropped,
    Effects,
    EndpointChanged,
    Engine,
    Fetch,
    Fetched,
    HealthSeen,
    Input,
    LeaseSet,
    Reloaded,
    Settled,
)
from hooklane.errors import ConfigError, StoreError
from hooklane.model.attempt import Delivered, Retry, Send, Settlement, Write
from hooklane.model.clock import FOREVER, Instant, boot_now, wall_now
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Target, Timings
from hooklane.model.health import Health
from hooklane.model.lane import LaneId
from hooklane.sender.failpoints import Failpoints
from hooklane.sender.letter import Letters
from hooklane.sender.ownership import Ownership
from hooklane.sender.pump import Pump
from hooklane.store.outbox import CommitReport, OutboxStore, PublishReport
from hooklane.telemetry.deliveries import Fenced, Listener, Queued, Recorded, Sent

log = logging.getLogger("hooklane.relay")

IN_FLIGHT_MAX = 2_048
COMMIT_MAX = 2_000
FETCH_LANES_MAX = 256
RETRY_MS_MAX = 2_000
CLOCK_SLACK_MS = 100
SENDS_AT_ONCE = 8
PATIENT_MS = 250
"""Whoever is tried again no sooner than this does not mind when the outcome is made durable a moment later."""


class Courier(Protocol):
    """What carries requests to their targets: the transport, or what stands where it stands."""

    @property
    def connections_max(self) -> int:
        """How many requests can be under way at once."""

    def send(self, target: Target, headers: bytes, body: bytes, done: Callable[[Result], None]) -> None:
        """POST *body*; *done* is called exactly once, later, from the loop."""

    async def close(self, grace_ms: int) -> None:
        """Take nothing new, and end what is under way within *grace_ms*."""


class Relay:
    """Delivers what is owed in the partitions that its worker owns, until it is stopped."""

    def __init__(
        self,
        store: OutboxStore,
        transport: Courier,
        *,
        listener: Listener | None = None,
        lease_ms: int = 30_000,
        poll_ms: int = 250,
        grace_ms: int = 10_000,
        roll: Callable[[], float] = random.random,
        failpoints: Failpoints | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._store = store
        self._transport = transport
        self._listener = listener
        self._poll_ms = poll_ms
        self._grace_ms = grace_ms
        self._roll = roll
        self._hit = (failpoints or Failpoints.from_environment()).hit
        # No more than there are connections: what waits for one inside the transport waits behind whoever is slow.
        in_flight_max = min(IN_FLIGHT_MAX, transport.connections_max)
        self.engine = engine if engine is not None else Engine(in_flight_max=in_flight_max)
        self._letters = Letters()
        self._inputs: list[Input] = []
        self._turn_is_set = False
        self._timer: asyncio.TimerHandle | None = None
        self._skew: int = wall_now() - boot_now()
        self._own = Ownership(store, self, lease_ms)
        self._commits: Pump[Write] = Pump(self._commit, COMMIT_MAX, can_wait=_can_wait)
        self._fetches: Pump[Fetch] = Pump(self._fetch, FETCH_LANES_MAX)
        self._reloads: Pump[LaneId] = Pump(self._reload, FETCH_LANES_MAX)
        self._turned: Pump[Health] = Pump(self._note_health, FETCH_LANES_MAX)
        self._outgoing: list[Send] = []
        self._is_sending = False
        self._lease_until = FOREVER
        self._unsigned: set[str] = set()
        self._stopping = asyncio.Event()
        self._nudged = asyncio.Event()
        self._quiet = asyncio.Event()
        self._owns = asyncio.Event()

    # --- what others call ---

    async def run(self) -> None:
        """Deliver until `stop`, then let what is in flight end, make its outcome durable and give everything back."""
        self._loop = asyncio.get_running_loop()
        await self._own.begin()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._own.keep(), name="keep the lease"),
                    group.create_task(self._poll(), name="poll for news"),
                    group.create_task(self._commits.run(), name="group commit of outcomes"),
                    group.create_task(self._fetches.run(), name="fetch events"),
                    group.create_task(self._reloads.run(), name="reload lanes"),
                    group.create_task(self._turned.run(), name="share breakers"),
                ]
                self._owns.set()
                await self._stopping.wait()
                await self._drain()
                for task in tasks:
                    task.cancel()
        finally:
            if self._timer is not None:
                self._timer.cancel()
        await self._own.end()

    def stop(self) -> None:
        """Begin to stop; `run` returns when the last outcome is settled."""
        self._stopping.set()

    async def ready(self) -> None:
        """Returns once partitions are owned and loaded."""
        await self._owns.wait()

    @property
    def is_ready(self) -> bool:
        return self._owns.is_set() and not self._stopping.is_set()

    def feed(self, published: PublishReport) -> None:
        """News of this process's own publishes, straight after their commit."""
        self.put(*published.grown)
        self._own.fed(published.span)
        if self._listener is not None:
            self._listener(Queued(published.grown))

    def wake(self, lane_ids: Sequence[LaneId]) -> None:
        """Lanes were recovered: look at them again."""
        self._reloads.add(lane_ids)

    def nudge(self) -> None:
        """Something changed in the store: do not wait for the next poll."""
        self._nudged.set()

    # --- the engine's turns ---

    def now(self) -> Instant:
        """The store's time, carried on by a clock that never jumps."""
        return Instant(boot_now() + self._skew)

    def set_time(self, store_now: Instant) -> None:
        skew = store_now - boot_now()
        # The answer was on its way for a while, so small differences mean nothing; followed, they would make waits
        # a little shorter than the schedule.
        if abs(skew - self._skew) > CLOCK_SLACK_MS:
            self._skew = skew

    def put(self, *inputs: Input) -> None:
        """Tell the engine; it takes its next turn with everything that gathers until then."""
        self._inputs.extend(inputs)
        if not self._turn_is_set:
            self._turn_is_set = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_set = False
        inputs, self._inputs = self._inputs, []
        self._perform(self.engine.step(self.now(), inputs))
        if self._stopping.is_set() and self.engine.in_flight == 0 and self._commits.is_idle and not self._inputs:
            self._quiet.set()

    def _perform(self, effects: Effects) -> None:
        if effects.writes:
            self._commits.add(effects.writes)
        if effects.fetches:
            self._fetches.add(effects.fetches)
        if effects.reloads:
            self._reloads.add(effects.reloads)
        if effects.health:
            self._turned.add(effects.health)
        if effects.sends:
            self._outgoing.extend(effects.sends)
            if not self._is_sending:
                self._send_some()
        self._set_timer(effects.wake_at)

    def _set_timer(self, at: Instant) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at < FOREVER:
            self._timer = self._loop.call_later(max(0, at - self.now()) / 1000, self.put)

    def _send_some(self) -> None:
        """Send a few, and the others after a look at what has come in.

        Who publishes is kept waiting for less, and the store writes while the rest goes out: in one piece, the loop
        would send while the store has nothing to do, and then wait for the store with nothing to send.
        """
        self._is_sending = False
        if self.now() >= self._lease_until:
            return  # after a stall, others may own these lanes by now: `lease` goes on with them, or `drop` ends them
        some, self._outgoing = self._outgoing[:SENDS_AT_ONCE], self._outgoing[SENDS_AT_ONCE:]
        self._send(some)
        if self._outgoing:
            self._is_sending = True
            self._loop.call_soon(self._send_some)

    def _send(self, sends: Sequence[Send]) -> None:
        now = wall_now()
        for send in sends:
            if self._hit is not None:
                self._hit("before_send", send.event.id)
            try:
                target, headers, body = self._letters.write(send, now)
            except ConfigError as error:
                # One endpoint whose key cannot sign must not stop the others.
                if send.endpoint.id not in self._unsigned:
                    self._unsigned.add(send.endpoint.id)
                    log.error("nothing can be sent to endpoint %s, all of it is held: %s", send.endpoint.id, error)
                failed = NoAnswer(Failure.ABORTED, Timings(0.0), str(error))
                self._loop.call_soon(self._done, send, failed)
                continue
            self._transport.send(target, headers, body, partial(self._done, send))
        if self._listener is not None:
            self._listener(Sent(sends))

    def _done(self, send: Send, result: Result) -> None:
        if self._hit is not None and isinstance(result, Answer) and 200 <= result.status < 300:
            self._hit("after_2xx")
        self._inputs.append(Settled(send, result, self._roll()))
        if not self._turn_is_set:
            self._turn_is_set = True
            self._loop.call_soon(self._turn)

    # --- the store ---

    async def _commit(self, writes: list[Write]) -> None:
        """Make outcomes durable. A failed commit is unknown, not "no": the same one is repeated until it is known."""
        if self._hit is not None:
            self._hit("before_commit")
        for write in writes:
            if isinstance(write, Settlement) and not isinstance(write.outcome, Delivered):
                write.request = self._letters.shown(write.send)
                if isinstance(write.result, Answer):
                    self._letters.hide(write.send, write.result)
        epochs = dict(self._own.epochs)
        report = await self._repeat(epochs, writes)
        if self._hit is not None:
            self._hit("after_commit")
        if report is None:
            return
        self._own.fenced(report.fenced, epochs)
        self.put(Committed(writes, report.fenced, report.stale, epochs))
        if self._listener is not None:
            self._tell(writes, report)

    async def _repeat(self, epochs: dict[int, int], writes: list[Write]) -> CommitReport | None:
        wait_ms = 50
        worker = self._own.worker
        while True:
            try:
                return await self._store.commit(worker, epochs, writes)
            except StoreError:
                if self._own.worker != worker:
                    return None  # the lease is lost: whoever owns the lanes now will settle them
                await asyncio.sleep(wait_ms * (0.5 + self._roll()) / 1000)
                wait_ms = min(wait_ms * 2, RETRY_MS_MAX)

    def _tell(self, writes: Sequence[Write], report: CommitReport) -> None:
        assert self._listener is not None
        if report.fenced:
            self._listener(Fenced(report.fenced))
        settled = [
            write
            for write in writes
            if isinstance(write, Settlement)
            and write.send.pid not in report.fenced
            and write.send.lane_id not in report.stale
        ]
        if settled:
            self._listener(Recorded(settled))

    async def _fetch(self, wants: list[Fetch]) -> None:
        try:
            items = await self._store.fetch(wants)
        except StoreError:
            await asyncio.sleep(RETRY_MS_MAX / 2000)
            self._fetches.add(wants)
            return
        self.put(Fetched(items, [want.lane_id for want in wants]))

    async def _reload(self, lane_ids: list[LaneId]) -> None:
        epochs = dict(self._own.epochs)
        try:
            rows = await self._store.reload(lane_ids)
        except StoreError:
            await asyncio.sleep(RETRY_MS_MAX / 2000)
            self._reloads.add(lane_ids)
            return
        self.put(Reloaded(rows, lane_ids, epochs))

    async def _note_health(self, turns: list[Health]) -> None:
        """Ask for turns of breakers. Repeating it is safe: a turn that was ours is still found to be ours."""
        worker = self._own.worker
        try:
            found = await self._store.note_health([replace(turn, by=worker) for turn in turns])
        except StoreError:
            await asyncio.sleep(RETRY_MS_MAX / 2000)
            self._turned.add(turns)
            return
        self.put(HealthSeen(found, worker, [turn.endpoint_id for turn in turns]))

    async def _poll(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._poll_ms / 1000):
                    await self._nudged.wait()
            except TimeoutError:
                pass  # the usual rhythm
            self._nudged.clear()
            try:
                news = await self._own.poll()
            except StoreError:
                continue  # the lease decides how long we may go on without the store
            if news is None:
                continue
            self.set_time(news.now)
            self.put(*(EndpointChanged(endpoint) for endpoint in news.endpoints), *news.grown)
            if news.health:
                self.put(HealthSeen(news.health))
            if news.recovered:
                self._reloads.add(news.recovered)

    # --- what ownership tells ---

    def loaded(self, inputs: Sequence[Input]) -> None:
        self.put(*inputs)

    def lease(self, until: Instant, share: float) -> None:
        self._lease_until = until
        self.put(LeaseSet(until, share))
        if self._outgoing and not self._is_sending:
            self._send_some()

    def drop(self, pids: frozenset[int]) -> None:
        # What was decided under an epoch that is over is not written under a later one.
        self._commits.discard(lambda write: write.pid in pids)
        self._outgoing = [send for send in self._outgoing if send.pid not in pids]
        self.put(Dropped(pids))

    async def _drain(self) -> None:
        self.put(Draining())
        try:
            async with asyncio.timeout(self._grace_ms / 1000):
                await self._quiet.wait()
        except TimeoutError:
            await self._transport.close(0)  # what is left is unknown, and will be sent again by whoever is next


def _can_wait(write: Write) -> bool:
    """Whether nothing follows from *write* for a while: what is tried again waits for its time first."""
    if not isinstance(write, Settlement) or not isinstance(write.outcome, Retry):
        return False
    return write.outcome.at - write.at >= PATIENT_MS
