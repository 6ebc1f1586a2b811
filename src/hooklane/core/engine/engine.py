"""Which delivery comes next? The engine knows the lanes of its partitions and decides; it does nothing itself.

STRICT: an event is sent only when the ack of its predecessor is durable, so nothing here moves a head but `Committed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any

from hooklane.core.breaker import is_fault
from hooklane.core.engine.desk import Desk, Turns
from hooklane.core.engine.effects import Effects, Fetch
from hooklane.core.engine.inputs import (
    Committed,
    Draining,
    Dropped,
    EndpointChanged,
    Fetched,
    Input,
    LeaseSet,
    Leaving,
    Loaded,
    Reloaded,
    Settled,
)
from hooklane.core.engine.slot import Phase, Slot
from hooklane.core.judge import judge
from hooklane.core.machine import Move, after
from hooklane.model.attempt import Cancel, Dead, Delivered, Gone, Retry, Send, Settlement, Start
from hooklane.model.clock import FOREVER, START, Instant
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.event import Event
from hooklane.model.lane import Grown, LaneId, LaneRow, LaneState
from hooklane.model.redelivery import is_redelivery

FETCH_MAX = 16
"""How many events of a lane are read at once: enough to keep it busy, few enough to hold for thousands of lanes."""
KEEP_BODY_MS = 5_000
"""A head that waits longer than this for its next try does not keep its event in memory."""


class Engine:
    """The lanes with work of one worker's partitions, in memory."""

    def __init__(
        self, *, in_flight_max: int = 512, lanes_max: int = 100_000, window_bytes_max: int = 64 * 1024 * 1024
    ) -> None:
        self.in_flight = 0
        self._in_flight_max = in_flight_max
        self._lanes_max = lanes_max
        self._window_bytes_max = window_bytes_max
        self._window_bytes = 0
        self._epochs: dict[int, int] = {}
        self._lanes: dict[LaneId, Slot] = {}
        self._idle: dict[LaneId, None] = {}  # in the order in which they fell idle
        self._desks: dict[str, Desk] = {}
        self._turns = Turns()
        self._timers: list[tuple[Instant, int, Slot | Desk]] = []
        self._timer_count = 0
        self._lease_until: Instant = START
        self._share = 1.0
        self._draining = False
        self._leaving: frozenset[int] = frozenset()
        self._effects = Effects()
        self._on: dict[type, Callable[[Instant, Any], None]] = {
            Loaded: self._loaded,
            Dropped: self._dropped,
            EndpointChanged: self._endpoint_changed,
            LeaseSet: self._lease_set,
            Grown: self._grown,
            Settled: self._settled,
            Fetched: self._fetched,
            Reloaded: self._reloaded,
            Committed: self._committed,
            Draining: self._drain,
            Leaving: self._leave,
        }

    def step(self, now: Instant, inputs: Iterable[Input]) -> Effects:
        """Take note of *inputs*, and say what is to be done now."""
        effects = self._effects = Effects()
        on = self._on
        for one in inputs:
            on[type(one)](now, one)
        self._ring(now)
        self._dispatch(now)
        self._evict()
        if self._timers:
            effects.wake_at = self._timers[0][0]
        return effects

    # --- what others may look at ---

    @property
    def epochs(self) -> dict[int, int]:
        """The partitions that the engine works on, each with the epoch under which it is ours."""
        return self._epochs

    @property
    def desks(self) -> dict[str, Desk]:
        return self._desks

    def __len__(self) -> int:
        return len(self._lanes)

    # --- ownership ---

    def _loaded(self, now: Instant, loaded: Loaded) -> None:
        self._epochs[loaded.pid] = loaded.epoch
        for row in loaded.lanes:
            slot = self._lanes[row.id] = Slot(row, loaded.epoch, unsure=loaded.unclean)
            self._place(now, slot)

    def _dropped(self, now: Instant, dropped: Dropped) -> None:
        self._leaving -= dropped.pids
        for pid in dropped.pids:
            self._epochs.pop(pid, None)
        for slot in [slot for slot in self._lanes.values() if slot.pid in dropped.pids]:
            self._forget(slot)

    def _lease_set(self, now: Instant, lease: LeaseSet) -> None:
        self._lease_until = lease.until
        if lease.share != self._share:
            self._share = lease.share
            for desk in self._desks.values():
                desk.share = lease.share
        for desk in self._desks.values():
            self._turns.push(desk)

    def _drain(self, now: Instant, draining: Draining) -> None:
        self._draining = True

    def _leave(self, now: Instant, leaving: Leaving) -> None:
        self._leaving |= leaving.pids

    def busy(self, pids: frozenset[int]) -> bool:
        """Whether something of these partitions is in flight, or its outcome not durable yet."""
        busy = (Phase.FLYING, Phase.SETTLING, Phase.STARTING)
        return any(slot.phase in busy for slot in self._lanes.values() if slot.pid in pids)

    # --- endpoints ---

    def _endpoint_changed(self, now: Instant, changed: EndpointChanged) -> None:
        endpoint = changed.endpoint
        desk = self._desks.get(endpoint.id)
        if desk is None:
            desk = self._desks[endpoint.id] = Desk(endpoint)
            desk.share = self._share
            for slot in self._lanes.values():
                if slot.endpoint_id == endpoint.id and slot.phase is Phase.IDLE:
                    self._place(now, slot)
        else:
            desk.change(endpoint)
        if endpoint.state is EndpointState.CANCELLING:
            self._cancel_all(endpoint)
        self._turns.push(desk)

    def _cancel_all(self, endpoint: Endpoint) -> None:
        for slot in self._lanes.values():
            if slot.endpoint_id == endpoint.id and slot.phase in (Phase.READY, Phase.WAITING, Phase.STOPPED):
                self._cancel(slot)

    def _cancel(self, slot: Slot) -> None:
        slot.phase = Phase.SETTLING
        self._effects.writes.append(Cancel(slot.id, slot.pid, slot.head, slot.tail, slot.rev))

    # --- new work ---

    def _grown(self, now: Instant, grown: Grown) -> None:
        """Feed and poll only raise the tail: a head comes from the store alone."""
        epoch = self._epochs.get(grown.pid)
        if epoch is None:
            return  # not ours; its owner will find it
        slot = self._lanes.get(grown.lane_id)
        if slot is None:
            if grown.seq != 1 or grown.event is None:
                # Without a head nothing can be sent: ours may be 6 while a foreign 5 is not acked yet,
                # and what a poll calls new may have been acked while the poll was under way.
                self._load(grown, epoch)
                return
            slot = self._lanes[grown.lane_id] = Slot.newborn(grown, epoch)
        elif grown.seq > slot.tail:
            slot.tail = grown.seq
        if grown.event is not None and grown.seq >= slot.head:
            self._keep(slot, grown.seq, grown.event)
        if slot.phase is Phase.IDLE:
            self._place(now, slot)

    def _load(self, grown: Grown, epoch: int) -> None:
        row = LaneRow(grown.lane_id, grown.pid, grown.endpoint_id, grown.key, head=1, tail=grown.seq)
        slot = self._lanes[grown.lane_id] = Slot(row, epoch, unsure=False)
        slot.phase = Phase.LOADING
        self._effects.reloads.append(slot.id)

    def _reload(self, slot: Slot) -> None:
        self._let_go(slot)
        slot.phase = Phase.LOADING
        self._effects.reloads.append(slot.id)

    def _reloaded(self, now: Instant, reloaded: Reloaded) -> None:
        found = set()
        for row in reloaded.rows:
            found.add(row.id)
            slot = self._lanes.get(row.id)
            if slot is None:
                epoch = self._epochs.get(row.pid)
                if epoch is None:
                    continue
                slot = self._lanes[row.id] = Slot(row, epoch, unsure=False)
            elif slot.phase in (Phase.FLYING, Phase.SETTLING, Phase.STARTING):
                continue  # its own outcome is under way and will be checked against the store
            elif slot.phase is not Phase.LOADING and _is_older(row, slot):
                continue  # read before our last commit
            else:
                self._let_go(slot)
                slot.renew(row)
            self._place(now, slot)
        for lane_id in reloaded.asked:
            slot = self._lanes.get(lane_id)
            if lane_id not in found and slot is not None and slot.phase is Phase.LOADING:
                self._forget(slot)

    # --- the life of a head ---

    def _place(self, now: Instant, slot: Slot) -> None:
        """Put a lane that is in nobody's hands where it belongs."""
        if not slot.has_work():
            slot.phase = Phase.IDLE
            slot.state = LaneState.IDLE
            self._idle[slot.id] = None
            return
        self._idle.pop(slot.id, None)
        if slot.state is LaneState.IDLE:
            slot.state = after(slot.state, Move.GROW)
        desk = self._desks.get(slot.endpoint_id)
        if desk is None:
            slot.phase = Phase.IDLE  # its endpoint is not known yet; the news of it will place the lane
        elif desk.endpoint.state is EndpointState.CANCELLING:
            self._cancel(slot)
        elif slot.state is LaneState.BLOCKED:
            slot.phase = Phase.STOPPED
            self._drop_bodies(slot)
        elif slot.next_at > now:
            slot.phase = Phase.WAITING
            if slot.next_at - now > KEEP_BODY_MS:
                self._drop_bodies(slot)
            self._set_timer(slot.next_at, slot)
        else:
            slot.phase = Phase.READY
            desk.ready.append(slot)
            self._turns.push(desk)

    def _dispatch(self, now: Instant) -> None:
        if self._draining or now >= self._lease_until:
            return
        turns, leaving = self._turns, self._leaving
        while turns and self.in_flight < self._in_flight_max:
            desk = turns.pop()
            if not desk.has_room(now):
                self._set_alarm(now, desk)
                continue
            slot = desk.ready.popleft()
            if slot.pid in leaving:
                slot.phase = Phase.PARKED
            elif slot.phase is Phase.READY and not self._start(now, desk, slot):
                desk.ready.appendleft(slot)
                continue
            turns.push(desk)

    def _start(self, now: Instant, desk: Desk, slot: Slot) -> bool:
        """Take the next step towards an attempt; False when the lane must stay where it is for now."""
        event = slot.bodies.get(slot.head) if slot.bodies is not None else None
        if event is None:
            return self._fetch(desk, slot)
        if not slot.unsure:
            self._fly(now, desk, slot, event)
        elif slot.attempts >= desk.policy.attempts_max:
            self._settle(slot, Settlement(self._send_of(now, desk, slot, event), Dead("worker_died"), now, None))
        else:
            # Made durable first, so that a head that kills its workers runs out of attempts like any other.
            slot.phase = Phase.STARTING
            self._effects.writes.append(Start(slot.id, slot.pid, slot.head, slot.attempts + 1, slot.rev))
        return True

    def _fly(self, now: Instant, desk: Desk, slot: Slot, event: Event) -> None:
        slot.phase = Phase.FLYING
        self.in_flight += 1
        desk.take_off(now)
        self._effects.sends.append(self._send_of(now, desk, slot, event))

    def _send_of(self, now: Instant, desk: Desk, slot: Slot, event: Event) -> Send:
        return Send(
            slot.id,
            slot.pid,
            slot.epoch,
            slot.rev,
            slot.key,
            slot.head,
            slot.acked,
            slot.attempts + 1,
            event,
            desk.endpoint,
            now,
        )

    def _fetch(self, desk: Desk, slot: Slot) -> bool:
        if desk.fetching >= 4 * desk.endpoint.in_flight_max:
            return False  # enough is being read for this endpoint; what arrives brings the next turn
        desk.fetching += 1
        slot.phase = Phase.FETCHING
        self._effects.fetches.append(Fetch(slot.id, slot.head, min(FETCH_MAX, slot.tail - slot.head + 1)))
        return True

    def _fetched(self, now: Instant, fetched: Fetched) -> None:
        for lane_id, seq, event in fetched.items:
            slot = self._lanes.get(lane_id)
            if slot is not None and slot.phase is Phase.FETCHING and seq >= slot.head:
                self._keep(slot, seq, event, always=seq == slot.head)
        for lane_id in fetched.asked:
            slot = self._lanes.get(lane_id)
            if slot is None or slot.phase is not Phase.FETCHING:
                continue
            desk = self._desks[slot.endpoint_id]
            desk.fetching -= 1
            if slot.bodies is None or slot.head not in slot.bodies:
                self._reload(slot)  # what we believed of the lane is not what the store holds
                continue
            # To the front: it has waited for its turn once already.
            slot.phase = Phase.READY
            desk.ready.appendleft(slot)
            self._turns.push(desk)

    def _settled(self, now: Instant, settled: Settled) -> None:
        send = settled.send
        self.in_flight -= 1
        desk = self._desks[send.endpoint.id]
        desk.in_flight -= 1
        desk.breaker.record(is_fault(settled.result), now, settled.roll, desk.endpoint.in_flight_max)
        self._turns.push(desk)
        slot = self._lanes.get(send.lane_id)
        if slot is None or slot.epoch != send.epoch or slot.phase is not Phase.FLYING or slot.head != send.seq:
            return  # the lane was lost meanwhile: whoever owns it now will try again
        outcome = judge(
            settled.result,
            seq=None if send.is_loose else send.seq,
            attempt=send.attempt,
            policy=desk.policy,
            now=now,
            roll=settled.roll,
        )
        # A redelivery is not owed: where it fails its line stops, whatever the policy for what is.
        if isinstance(outcome, Dead) and desk.skips_dead and not outcome.gap and not is_redelivery(send.lane_id):
            outcome = Dead(outcome.reason, skip=True)
        self._settle(slot, Settlement(send, outcome, now, settled.result))

    def _settle(self, slot: Slot, settlement: Settlement) -> None:
        slot.phase = Phase.SETTLING
        self._effects.writes.append(settlement)

    def _committed(self, now: Instant, committed: Committed) -> None:
        if committed.fenced:
            self._dropped(now, Dropped(committed.fenced))
        for write in committed.writes:
            match write:
                case Settlement(send=send):
                    slot = self._lanes.get(send.lane_id)
                    if slot is None or slot.epoch != send.epoch or slot.phase is not Phase.SETTLING:
                        continue
                    if slot.id in committed.stale:
                        self._reload(slot)
                    else:
                        self._apply(now, slot, write)
                case Start() | Cancel():
                    slot = self._lanes.get(write.lane_id)
                    if slot is None or slot.phase not in (Phase.STARTING, Phase.SETTLING):
                        continue
                    if slot.id in committed.stale:
                        self._reload(slot)
                    elif isinstance(write, Start):
                        self._started(now, slot)
                    else:
                        self._cancelled(now, slot, write)

    def _apply(self, now: Instant, slot: Slot, settlement: Settlement) -> None:
        """The outcome is durable: only now does anything follow from it."""
        outcome = settlement.outcome
        more = slot.head < slot.tail
        match outcome:
            case Delivered():
                slot.state = after(slot.state, Move.ACK if more else Move.ACK_LAST)
                self._advance(slot, acked=slot.head)
            case Retry(at=at):
                slot.state = after(slot.state, Move.FAIL)
                slot.attempts, slot.next_at, slot.unsure = settlement.send.attempt, at, False
            case Gone():
                slot.state = after(slot.state, Move.FAIL)
                slot.attempts, slot.unsure = settlement.send.attempt, False
                desk = self._desks[slot.endpoint_id]
                desk.change(replace(desk.endpoint, state=EndpointState.DISABLED))
            case Dead(skip=True):
                slot.state = after(slot.state, Move.SKIP if more else Move.SKIP_LAST)
                self._advance(slot, acked=None)
            case Dead():
                slot.state = after(slot.state, Move.DIE)
                slot.attempts = settlement.send.attempt
        self._place(now, slot)

    def _started(self, now: Instant, slot: Slot) -> None:
        # The store counts the attempt already; ours has the same number, so it is not counted twice.
        slot.unsure = False
        self._place(now, slot)

    def _cancelled(self, now: Instant, slot: Slot, cancel: Cancel) -> None:
        self._drop_bodies(slot)
        slot.head, slot.state, slot.attempts = cancel.tail + 1, LaneState.IDLE, 0
        self._place(now, slot)

    def _advance(self, slot: Slot, acked: int | None) -> None:
        bodies = slot.bodies
        if bodies is not None:
            event = bodies.get(slot.head)
            if event is not None:
                self._window_bytes -= len(event.data)
        slot.advance(acked)
        if bodies is not None and not bodies:
            slot.bodies = None

    # --- timers and memory ---

    def _set_alarm(self, now: Instant, desk: Desk) -> None:
        at = desk.opens_at(now)
        if now < at < FOREVER and desk.ready and desk.alarm_at != at:
            desk.alarm_at = at
            self._set_timer(at, desk)

    def _set_timer(self, at: Instant, what: Slot | Desk) -> None:
        self._timer_count += 1
        heappush(self._timers, (at, self._timer_count, what))

    def _ring(self, now: Instant) -> None:
        timers = self._timers
        while timers and timers[0][0] <= now:
            what = heappop(timers)[2]
            if isinstance(what, Desk):
                self._turns.push(what)
            elif what.phase is Phase.WAITING and what.next_at <= now:
                self._place(now, what)

    def _keep(self, slot: Slot, seq: int, event: Event, always: bool = False) -> None:
        size = len(event.data)
        if not always and self._window_bytes + size > self._window_bytes_max:
            return  # it is read again when it is due
        if slot.bodies is None:
            slot.bodies = {}
        if seq not in slot.bodies:
            self._window_bytes += size
            slot.bodies[seq] = event

    def _drop_bodies(self, slot: Slot) -> None:
        if slot.bodies is not None:
            self._window_bytes -= sum(len(event.data) for event in slot.bodies.values())
            slot.bodies = None

    def _let_go(self, slot: Slot) -> None:
        """Take a lane out of wherever it waits; a stale place in a line or on the clock is passed over by phase."""
        if slot.phase is Phase.FETCHING:
            self._desks[slot.endpoint_id].fetching -= 1
        self._idle.pop(slot.id, None)
        self._drop_bodies(slot)
        slot.phase = Phase.IDLE

    def _forget(self, slot: Slot) -> None:
        self._let_go(slot)
        self._lanes.pop(slot.id, None)

    def _evict(self) -> None:
        while len(self._lanes) > self._lanes_max and self._idle:
            lane_id = next(iter(self._idle))
            self._forget(self._lanes[lane_id])


def _is_older(row: LaneRow, slot: Slot) -> bool:
    return (row.rev, row.head, row.attempts) < (slot.rev, slot.head, slot.attempts)
