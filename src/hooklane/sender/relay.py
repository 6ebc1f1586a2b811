"""The deliver role: the asyncio shell of a worker. It does what the worker asks for and tells it how that went."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial

from hooklane.core.engine import Engine, Input, Settled
from hooklane.core.worker import Call, ClockSet, Effects, LeaseLost, Lost, MarkLost, Missed, Note, Worker
from hooklane.core.worker.sweeping import Rounds
from hooklane.core.worker.worker import LEASE_MS
from hooklane.errors import Broken, StoreBusy, StoreError
from hooklane.model.attempt import Delivered, Send, Settlement, Write
from hooklane.model.clock import FOREVER, Instant, boot_now, wall_now
from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Timings
from hooklane.model.health import Health
from hooklane.model.lane import LaneId
from hooklane.sender.courier import Courier
from hooklane.sender.failpoints import Failpoints
from hooklane.sender.lost import report_lost
from hooklane.sender.process_identity import is_gone_for, names_of_this_process
from hooklane.sender.signed_request import SignedRequests
from hooklane.sender.store_trouble import StoreTrouble
from hooklane.store.outbox import CommitReport, OutboxStore, PublishReport
from hooklane.telemetry import deliveries, tracing
from hooklane.telemetry.deliveries import Fenced, Listener, Queued, Recorded, Sent, Turned

log = logging.getLogger("hooklane.relay")

IN_FLIGHT_MAX = 2_048
HEARD_WAIT_S = 1.0
BEGIN_WAIT_MS = 30_000
"""So long a transaction elsewhere may keep a worker from beginning; after it the process ends and says why."""


class Relay:
    """Delivers what is owed in the partitions that its worker owns, until it is stopped."""

    def __init__(
        self,
        store: OutboxStore,
        transport: Courier,
        *,
        listener: Listener | None = None,
        name: str | None = None,
        lease_ms: int = LEASE_MS,
        poll_ms: int = 250,
        grace_ms: int = 10_000,
        roll: Callable[[], float] = random.random,
        failpoints: Failpoints | None = None,
        engine: Engine | None = None,
        rounds: Rounds | None = None,
    ) -> None:
        self._store = store
        self._transport = transport
        self._listener = listener
        self._roll = roll
        self._hit = (failpoints or Failpoints.from_environment()).hit
        # No more than there are connections: what waits for one inside the transport waits behind a slow endpoint.
        in_flight_max = min(IN_FLIGHT_MAX, transport.connections_max)
        self.worker = Worker(
            engine if engine is not None else Engine(in_flight_max=in_flight_max),
            names_of_this_process(name),
            skew_ms=wall_now() - boot_now(),
            is_gone=is_gone_for(name),
            lease_ms=lease_ms,
            poll_ms=poll_ms,
            grace_ms=grace_ms,
            rounds=rounds,
        )
        self.engine = self.worker.engine
        self._inputs = self.worker.inputs
        self._requests = SignedRequests()
        self._unsigned: set[str] = set()
        self._turn_is_set = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = FOREVER
        self._calls: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None
        self._refused: StoreError | None = None
        self._trouble = StoreTrouble(log, "deliveries wait for the store, which is asked again")
        self._began_at = boot_now()
        self._waited = False
        self._stopping = asyncio.Event()
        self._drained = asyncio.Event()
        self._joined = asyncio.Event()
        self._owns = asyncio.Event()
        self._polled = asyncio.Event()

    # --- what others call ---

    async def run(self) -> None:
        """Deliver until `stop`, then let what is in flight end, make its outcome durable and give everything back.

        `Broken` when the engine failed: what it knew is torn, so nothing more is sent or given back. The lease ends by
        itself, and the next owner takes care, as after a death.
        """
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as self._group:
                self.put()
                try:
                    await self._stopping.wait()
                    if self._failure is None and self._refused is None:
                        self.worker.stop(boot_now())
                        self.put()
                        await self._drained.wait()
                finally:
                    self._drained.set()  # however it ended, there are no more turns
                for task in self._calls:
                    task.cancel()
        finally:
            self._stopping.set()  # and it is ready for nothing any more
            if self._timer is not None:
                self._timer.cancel()
        if self._failure is not None:
            raise Broken("the engine", self._failure) from self._failure
        if self._refused is not None:
            raise self._refused
        if self.worker.is_cut_off:
            await self._transport.close(0)
        with contextlib.suppress(StoreError):  # then the lease expires, and the next owner is careful
            for name in self.worker.ownership.names:
                await self._store.leave(name)

    def stop(self) -> None:
        """Begin to stop; `run` returns when the last outcome is settled."""
        self._stopping.set()

    async def joined(self) -> None:
        """Returns once the store has taken this worker in: it may deliver, and begins to load what is owed."""
        await self._joined.wait()

    async def ready(self) -> None:
        """Returns once partitions are owned and loaded."""
        await self._owns.wait()

    @property
    def is_ready(self) -> bool:
        return self._owns.is_set() and not self._stopping.is_set()

    def feed(self, published: PublishReport) -> None:
        """News of this process's own publishes, straight after their commit."""
        try:
            self.worker.fed(published.grown, published.span)
            self.put()
            if self._listener is not None:
                self._listener(Queued(published.grown))
        except Exception as error:
            self._fail(error)  # the publisher goes on: what is stored is stored

    def wake(self, lane_ids: Sequence[LaneId]) -> None:
        """Lanes were recovered: look at them again."""
        self.worker.wake(lane_ids)
        self.put()

    def nudge(self) -> None:
        """Something changed in the store: do not wait for the next poll."""
        self.worker.nudge()
        self.put()

    async def heard(self) -> None:
        """Returns once the worker knows what the store holds now, or after a second: no caller waits for a slow store.

        Without it, an event that is published right after its endpoint was paused would go out: the worker hears of
        publishes at once, and of endpoints by a poll. A worker that is about to begin may have read them before.
        """
        poll, news = self.worker.nudge(), self.worker.news
        self.put()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_WAIT_S):
                while (self.is_ready or news.is_loading) and news.heard < poll:
                    self._polled.clear()
                    await self._polled.wait()

    # --- the worker's turns ---

    def put(self, *inputs: Input) -> None:
        """Tell the engine; the worker takes its next turn with everything that gathers until then."""
        if inputs:
            self._inputs.extend(inputs)
        if not self._turn_is_set:
            self._turn_is_set = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn_now(self) -> None:
        """The worker takes its turn at once, unless others gather for one: no round of the loop is waited for."""
        if not self._turn_is_set:
            self._turn()

    def _turn(self) -> None:
        self._turn_is_set = False
        if self._failure is not None or self._drained.is_set():
            return
        try:
            self._perform(self.worker.turn(boot_now()))
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """*error* has torn what the engine knows, and the inputs of its turn are gone: no caller can handle that."""
        if self._failure is None:
            log.critical("the engine failed: nothing more is delivered by this process", exc_info=error)
            self._failure = error
        self._stopping.set()
        self._drained.set()

    def _perform(self, effects: Effects) -> None:
        for call in effects.calls:
            task = self._group.create_task(self._ask(call), name=call.verb)
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
        if effects.sends:
            self._send(effects.sends, effects.has_more)
        if self._listener is not None:
            # After the requests are on their way: no endpoint waits for what people are told.
            for writes, report in effects.recorded:
                self._tell(writes, report)
            if effects.sends:
                self._listener(Sent(effects.sends))
        for note in effects.notes:
            self._report(note)
        self._set_timer(effects.wake_at)
        if effects.is_drained:
            self._drained.set()
        if self.worker.has_loaded and not self._owns.is_set():
            self._owns.set()

    def _set_timer(self, at: Instant) -> None:
        """Be woken at *at*, or before: a turn for which it is too early does nothing."""
        if at < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._loop.call_later(max(0, at - boot_now()) / 1000, self._ring)

    def _ring(self) -> None:
        self._timer, self._timer_at = None, FOREVER
        self.put()

    # --- sending ---

    def _send_more(self) -> None:
        if self._failure is not None:
            return
        try:
            sends = self.worker.next_sends(boot_now())
            self._send(sends, self.worker.sending.has_more)
            if sends and self._listener is not None:
                self._listener(Sent(sends))
        except Exception as error:
            self._fail(error)

    def _send(self, sends: Sequence[Send], has_more: bool) -> None:
        now = wall_now()
        for send in sends:
            if self._hit is not None:
                self._hit("before_send", send.event.id)
            try:
                target, headers, body = self._requests.write(send, now)
            except Exception as error:
                self._loop.call_soon(self._done, send, self._held(send, error))
                continue
            if tracing.active is not None:
                headers += tracing.active.sending(send)
            self._transport.send(target, headers, body, partial(self._done, send))
        if has_more:
            self._loop.call_soon(self._send_more)

    def _held(self, send: Send, error: Exception) -> NoAnswer:
        """One endpoint for which nothing can be written, as when its key cannot sign, must not stop the others."""
        if send.endpoint.id not in self._unsigned:
            self._unsigned.add(send.endpoint.id)
            log.error("nothing can be sent to endpoint %s, all of it is held: %s", send.endpoint.id, error)
        return NoAnswer(Failure.ABORTED, Timings(0.0), str(error))

    def _done(self, send: Send, result: Result) -> None:
        if self._hit is not None and isinstance(result, Answer) and 200 <= result.status < 300:
            self._hit("after_2xx")
        self._inputs.append(Settled(send, result, self._roll()))
        if self.engine.in_flight == 1:
            self._turn_now()  # it was the only one: no other answer can come
        elif not self._turn_is_set:
            self._turn_is_set = True
            self._loop.call_soon(self._turn)

    # --- the store ---

    async def _ask(self, call: Call) -> None:
        if call.verb == "commit" and not call.tries:
            self._before_commit(call.args[2])
        try:
            result = await getattr(self._store, call.verb)(*call.args)
        except StoreError as error:
            if not self.worker.is_ready and not self._waits_for_another(error):
                self._refused = error  # it never began: there is nothing to drain or to give back
                self._stopping.set()
                return
            self._trouble.tell(error)
            self.worker.failed(call, boot_now(), self._roll())
        except Exception:
            self._drained.set()  # unforeseen: `run` ends with it, and no turn comes before that
            raise
        else:
            if call.verb == "commit" and self._hit is not None:
                self._hit("after_commit")
            if call.verb == "note_health" and self._listener is not None:
                self._tell_turns(self._listener, [turn for turn in call.args[0] if turn in result])
            self.worker.answered(call, result, boot_now())
            self._joined.set()
            if call.verb == "poll":
                self._polled.set()
            if call.verb == "commit":
                self._turn_now()  # what waited for this commit goes out
                return
        self.put()

    def _waits_for_another(self, error: StoreError) -> bool:
        """Whether a transaction elsewhere may still let go of what this worker needs to begin."""
        if not isinstance(error, StoreBusy) or boot_now() - self._began_at > BEGIN_WAIT_MS:
            return False
        if not self._waited:
            self._waited = True
            log.warning("nothing is delivered yet, tried again for up to %d s: %s", BEGIN_WAIT_MS // 1000, error)
        return True

    def _before_commit(self, writes: Sequence[Write]) -> None:
        if self._hit is not None:
            self._hit("before_commit")
        for write in writes:
            if isinstance(write, Settlement) and not isinstance(write.outcome, Delivered):
                write.request = self._requests.shown(write.send)
                if isinstance(write.result, Answer):
                    self._requests.hide(write.send, write.result)

    # --- telling ---

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

    def _tell_turns(self, listener: Listener, turns: Sequence[Health]) -> None:
        queues = self.engine.queues
        if found := [(queues[one.endpoint_id].endpoint, one) for one in turns if one.endpoint_id in queues]:
            listener(Turned(found))

    def _report(self, note: Note) -> None:
        match note:
            case MarkLost():
                log.warning("the database was down or is another one: this worker forgets what it knew and joins anew")
            case ClockSet(by=by):
                log.warning("the store's clock was set by %.1f s: what waits goes on waiting as before", by / 1000)
            case Missed(many=many):
                log.warning("a sweep found %d lanes or endpoints with news that no poll had told: they go on now", many)
                if self._listener is not None:
                    self._listener(deliveries.Missed(many))
            case Lost(lanes=lanes):
                report_lost(lanes, self._listener)
            case LeaseLost():
                log.warning("the lease was lost: this worker forgets what it knew and joins anew")
