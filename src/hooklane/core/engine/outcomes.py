"""What came of an attempt, and what follows once that is durable?"""

from __future__ import annotations

from dataclasses import replace

from hooklane.core.breaker import is_evidence, is_fault
from hooklane.core.engine.desk import Desk
from hooklane.core.engine.heads import Heads
from hooklane.core.engine.inputs import Committed, Dropped, Settled
from hooklane.core.engine.slot import Phase, Slot
from hooklane.core.judge import judge, never_happened
from hooklane.core.machine import Move, after
from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Send, Settlement, Start
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.exchange import Answer
from hooklane.model.lane import LaneState


class Outcomes(Heads):
    """The second half of an attempt: its result is judged, written, and only then moves its lane."""

    def _settled(self, now: Instant, settled: Settled) -> None:
        send, result = settled.send, settled.result
        self._free_place()
        self._flying_bytes -= len(send.event.data)
        desk = self._desks[send.endpoint.id]
        desk.in_flight -= 1
        if is_evidence(result):
            desk.answers = isinstance(result, Answer)
            turned = desk.breaker.record(is_fault(result), now, settled.roll, desk.cap, send.at)
            if turned is not None:
                self._effects.health.append(turned)
        self._turns.push(desk)
        slot = self._lanes.get(send.lane_id)
        if slot is None or slot.epoch != send.epoch or slot.phase is not Phase.FLYING or slot.head != send.seq:
            return  # the lane was lost meanwhile: whoever owns it now will try again
        if never_happened(result):
            self._put_off(now, desk, slot, settled.roll)
            return
        outcome = judge(
            result,
            seq=None if send.is_loose else send.seq,
            attempt=send.attempt,
            policy=desk.policy,
            now=now,
            roll=settled.roll,
            can_hold=desk.endpoint.state is not EndpointState.DRAINING,
        )
        match outcome:
            case Dead(gap=False) if self._skips_dead(desk, slot):
                outcome = Dead(outcome.reason, skip=True)
            case Gone() if desk.is_open:
                # Now, not when it is durable: by then a person may have resumed the endpoint, and a poll have said so.
                desk.change(replace(desk.endpoint, state=EndpointState.DISABLED))
        self._settle(slot, Settlement(send, outcome, now, result))

    def _put_off(self, now: Instant, desk: Desk, slot: Slot, roll: float) -> None:
        """There was no attempt, for want of room on our side: nothing is counted or written, and soon it is tried."""
        slot.next_at = Instant(now + desk.policy.delay_ms(1, roll))
        if slot.again:
            self._reload(slot)
        else:
            self._place(now, slot)

    def _committed(self, now: Instant, committed: Committed) -> None:
        writes, fenced = committed.writes, committed.fenced
        if committed.epochs is not None and committed.epochs != self._epochs:
            # A report that comes late must not take away what is ours again under a newer epoch.
            mine = {pid for pid, epoch in committed.epochs.items() if self._epochs.get(pid) == epoch}
            writes, fenced = [write for write in writes if write.pid in mine], fenced & mine
        if fenced:
            self._dropped(now, Dropped(fenced))
        for write in writes:
            match write:
                case Settlement(send=send, outcome=outcome):
                    if isinstance(outcome, Gone) and (send.pid in fenced or send.lane_id in committed.stale):
                        self._not_gone(send)
                    slot = self._lanes.get(send.lane_id)
                    if slot is None or slot.epoch != send.epoch or slot.phase is not Phase.SETTLING:
                        continue
                    if slot.again or slot.id in committed.stale:
                        self._reload(slot)
                    else:
                        self._apply(now, slot, write)
                case Start() | Cancel():
                    slot = self._lanes.get(write.lane_id)
                    if slot is None or write.seq != slot.head or write.rev != slot.rev:
                        continue
                    if slot.phase is not (Phase.STARTING if isinstance(write, Start) else Phase.SETTLING):
                        continue
                    if slot.again or slot.id in committed.stale:
                        self._reload(slot)
                    elif isinstance(write, Start):
                        self._started(slot, write)
                    else:
                        self._cancelled(now, slot, write)

    def _not_gone(self, send: Send) -> None:
        """A 410 that did not become durable: whoever owns the lane now will hear it again, if it is still true."""
        desk = self._desks[send.endpoint.id]
        if desk.endpoint.state is EndpointState.DISABLED:
            desk.change(replace(desk.endpoint, state=send.endpoint.state))
            self._turns.push(desk)

    def _apply(self, now: Instant, slot: Slot, settlement: Settlement) -> None:
        """The outcome is durable: only now does anything follow from it."""
        outcome = settlement.outcome
        more = slot.head < slot.tail
        match outcome:
            case Delivered():
                slot.state = after(slot.state, Move.ACK if more else Move.ACK_LAST)
                self._window.drop_head(slot)
                slot.advance(slot.head)
            case Retry(at=at):
                slot.state = after(slot.state, Move.FAIL)
                slot.attempts, slot.next_at = settlement.send.attempt, at
                slot.clear()
            case Gone():
                slot.state = after(slot.state, Move.FAIL)
                slot.attempts = settlement.send.attempt
                slot.clear()
            case Dead(skip=True):
                slot.state = after(slot.state, Move.SKIP if more else Move.SKIP_LAST)
                self._window.drop_head(slot)
                slot.advance(None)
            case Dead():
                slot.state = after(slot.state, Move.DIE)
                slot.attempts = settlement.send.attempt
        self._place(now, slot)

    def _started(self, slot: Slot, start: Start) -> None:
        # Where the store counts the attempt already, ours has the same number: it is not counted twice.
        slot.unsure, slot.starts = False, start.starts
        self._end_start(slot)
        if self._desks[slot.endpoint_id].endpoint.state is EndpointState.CANCELLING:
            self._cancel(slot)
        else:
            self._go_on_soon(slot)

    def _cancelled(self, now: Instant, slot: Slot, cancel: Cancel) -> None:
        self._window.drop(slot)
        slot.head, slot.state, slot.attempts = cancel.tail + 1, LaneState.IDLE, 0
        slot.clear()
        self._place(now, slot)
