"""What came of an attempt, and what follows once that is durable?"""

from __future__ import annotations

from dataclasses import replace

from hooklane.core.breaker import is_evidence, is_fault
from hooklane.core.engine.endpoint_queue import EndpointQueue
from hooklane.core.engine.heads import Heads
from hooklane.core.engine.inputs import Committed, Dropped, Settled
from hooklane.core.engine.owned_lane import OwnedLane, Phase
from hooklane.core.judge import judge, never_happened
from hooklane.core.machine import Move, after
from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Send, Settlement, Start
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.exchange import Answer
from hooklane.model.lane import LaneState


class Outcomes:
    """The second half of an attempt: its result is judged, written, and only then moves its lane."""

    def __init__(self, heads: Heads) -> None:
        self._heads = heads

    def settled(self, now: Instant, settled: Settled) -> None:
        send, result = settled.send, settled.result
        self._heads.flying_bytes -= len(send.event.data)
        queue = self._heads.queues[send.endpoint.id]
        self._heads.free_place(queue.tenant)
        queue.in_flight -= 1
        if is_evidence(result):
            queue.answers = isinstance(result, Answer)
            turned = queue.breaker.record(is_fault(result), now, settled.roll, queue.cap, send.at)
            if turned is not None:
                self._heads.effects.health.append(turned)
        self._heads.turns.push(queue)
        lane = self._heads.lanes.get(send.lane_id)
        if lane is None or lane.flight is not send or lane.phase is not Phase.FLYING:
            return  # the lane was lost meanwhile: its owner will try again
        if never_happened(result):
            self._put_off(now, queue, lane, settled.roll)
            return
        outcome = judge(
            result,
            seq=None if send.is_loose else send.seq,
            attempt=send.attempt,
            policy=queue.policy,
            now=now,
            roll=settled.roll,
            can_hold=queue.endpoint.state is not EndpointState.DRAINING,
        )
        match outcome:
            case Dead(gap=False) if self._heads.skips_dead(queue, lane):
                outcome = Dead(outcome.reason, skip=True)
            case Gone() if queue.is_open:
                # Now, not when it is durable: by then a person may have resumed the endpoint, and a poll have said so.
                queue.change(replace(queue.endpoint, state=EndpointState.DISABLED))
        self.settle(lane, Settlement(send, outcome, now, result))

    def settle(self, lane: OwnedLane, settlement: Settlement) -> None:
        """What came of the attempt is to be written; nothing follows from it before that is durable."""
        if isinstance(settlement.outcome, Retry):
            lane.next_at = settlement.outcome.at  # the wait is as long, however the clock is set until then
        self._heads.settle(lane, settlement)

    def _put_off(self, now: Instant, queue: EndpointQueue, lane: OwnedLane, roll: float) -> None:
        """There was no attempt, for want of room on our side: nothing is counted or written, and soon it is tried."""
        lane.next_at = Instant(now + queue.policy.delay_ms(1, roll))
        if lane.again:
            self._heads.reload(lane)
        else:
            self._heads.place(now, lane)

    def committed(self, now: Instant, committed: Committed) -> None:
        writes, fenced = committed.writes, committed.fenced
        if committed.epochs is not None and committed.epochs != self._heads.epochs:
            # A report that comes late must not take away what is ours again under a newer epoch.
            mine = {pid for pid, epoch in committed.epochs.items() if self._heads.epochs.get(pid) == epoch}
            writes, fenced = [write for write in writes if write.pid in mine], fenced & mine
        if fenced:
            self._heads.dropped(now, Dropped(fenced))
        for write in writes:
            match write:
                case Settlement(send=send, outcome=outcome):
                    if isinstance(outcome, Gone) and (send.pid in fenced or send.lane_id in committed.stale):
                        self._not_gone(send)
                    lane = self._heads.lanes.get(send.lane_id)
                    if lane is None or lane.flight is not send or lane.phase is not Phase.SETTLING:
                        continue
                    if lane.again or lane.id in committed.stale:
                        self._heads.reload(lane)
                    else:
                        self.apply(now, lane, write)
                case Start() | Cancel():
                    lane = self._heads.lanes.get(write.lane_id)
                    if lane is None or write.seq != lane.head or write.rev != lane.rev:
                        continue
                    if lane.phase is not (Phase.STARTING if isinstance(write, Start) else Phase.SETTLING):
                        continue
                    if lane.again or lane.id in committed.stale:
                        self._heads.reload(lane)
                    elif isinstance(write, Start):
                        self._started(lane, write)
                    else:
                        self._cancelled(now, lane, write)

    def _not_gone(self, send: Send) -> None:
        """A 410 that did not become durable: the lane's owner will hear it again, if it is still true."""
        queue = self._heads.queues.get(send.endpoint.id)
        if queue is not None and queue.endpoint.state is EndpointState.DISABLED:
            queue.change(replace(queue.endpoint, state=send.endpoint.state))
            self._heads.turns.push(queue)

    def apply(self, now: Instant, lane: OwnedLane, settlement: Settlement) -> None:
        """The outcome is durable: only now does anything follow from it."""
        outcome = settlement.outcome
        more = lane.head < lane.tail
        match outcome:
            case Delivered():
                lane.state = after(lane.state, Move.ACK if more else Move.ACK_LAST)
                self._heads.window.drop_head(lane)
                lane.advance(lane.head)
            case Retry() | Gone():
                lane.state = after(lane.state, Move.FAIL)
                lane.attempts = settlement.send.attempt
                lane.clear()
            case Dead(skip=True):
                lane.state = after(lane.state, Move.SKIP if more else Move.SKIP_LAST)
                self._heads.window.drop_head(lane)
                lane.advance(None)
            case Dead():
                lane.state = after(lane.state, Move.DIE)
                lane.attempts = settlement.send.attempt
        self._heads.place(now, lane)

    def _started(self, lane: OwnedLane, start: Start) -> None:
        # Where the store counts the attempt already, ours has the same number: it is not counted twice.
        lane.unsure, lane.starts = False, start.starts
        self._heads.end_start(lane)
        if self._heads.queues[lane.endpoint_id].endpoint.state is EndpointState.CANCELLING:
            self._heads.cancel(lane)
        else:
            self._heads.go_on_soon(lane)

    def _cancelled(self, now: Instant, lane: OwnedLane, cancel: Cancel) -> None:
        self._heads.window.drop(lane)
        lane.head, lane.state = cancel.tail, LaneState.IDLE
        lane.advance(None)
        self._heads.place(now, lane)
