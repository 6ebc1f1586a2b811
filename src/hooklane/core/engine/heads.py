"""What becomes of the head of a lane? From its place in the line to its turn and its flight."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from hooklane.core.engine.alarms import Alarms
from hooklane.core.engine.desk import Desk, Turns
from hooklane.core.engine.effects import Effects, Fetch
from hooklane.core.engine.inputs import Dropped, Fetched
from hooklane.core.engine.slot import Phase, Slot
from hooklane.core.engine.suspects import DEATHS_MAX, Suspects, deaths
from hooklane.core.engine.window import Window
from hooklane.core.machine import Move, after
from hooklane.model.attempt import Cancel, Dead, Send, Settlement
from hooklane.model.clock import FOREVER, START, Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.event import Event
from hooklane.model.lane import LaneId, LaneState
from hooklane.model.redelivery import is_redelivery

FETCH_MAX = 16
"""How many events of a lane are read at once: enough to keep it busy, few enough to hold for thousands of lanes."""
FLYING_BYTES_MAX = 64 * 1024 * 1024
"""How many bytes of events may be in flight: each is held twice, by us and by the transport."""
KEEP_BODY_MS = 5_000
"""A head that waits longer than this for its next try does not keep its event in memory."""


class Heads:
    """The lanes with work of one worker's partitions, in memory, and the attempts at their heads."""

    def __init__(self, in_flight_max: int, window_bytes_max: int) -> None:
        self.in_flight = 0
        self._in_flight_max = in_flight_max
        self._starting = 0
        self._flying_bytes = 0
        self._epochs: dict[int, int] = {}
        self._lanes: dict[LaneId, Slot] = {}
        self._idle: dict[LaneId, Instant] = {}  # since when, in that order
        self._desks: dict[str, Desk] = {}
        self._turns = Turns()
        self._placeless: deque[Desk] = deque()
        self._alarms = Alarms()
        self._window = Window(window_bytes_max)
        self._suspects = Suspects()
        self._called: list[Slot] = []
        self._lease_until: Instant = START
        self._draining = False
        self._leaving: frozenset[int] = frozenset()
        self._effects = Effects()

    # --- where a lane belongs ---

    def _place(self, now: Instant, slot: Slot) -> None:
        """Put a lane that is in nobody's hands where it belongs."""
        if slot.kept is not None:
            self._suspects.release(slot)
        if not slot.has_work():
            slot.phase = Phase.IDLE
            slot.state = LaneState.IDLE
            self._idle[slot.id] = now
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
            self._window.drop(slot)
        elif slot.next_at > now:
            slot.phase = Phase.WAITING
            if slot.next_at - now > KEEP_BODY_MS:
                self._window.drop(slot)
            self._alarms.set(slot.next_at, slot)
        else:
            slot.phase = Phase.READY
            if slot.starts and not self._is_lost(desk, slot):
                self._suspects.set_aside(slot)
            else:
                desk.ready.append(slot)
                self._turns.push(desk)

    def _cancel(self, slot: Slot) -> None:
        slot.phase = Phase.SETTLING
        self._effects.writes.append(Cancel(slot.id, slot.pid, slot.head, slot.tail, slot.rev))

    def _reload(self, slot: Slot) -> None:
        self._let_go(slot)
        slot.phase, slot.again = Phase.LOADING, False
        self._effects.reloads.append(slot.id)

    def _let_go(self, slot: Slot) -> None:
        """Take a lane out of wherever it waits; a stale place in a line or on the clock is passed over by phase."""
        if slot.phase is Phase.FETCHING:
            self._end_fetch(slot)
        elif slot.phase is Phase.STARTING:
            self._end_start(slot)
        self._idle.pop(slot.id, None)
        self._window.drop(slot)
        self._suspects.release(slot)
        slot.phase = Phase.IDLE

    def _forget(self, slot: Slot) -> None:
        self._let_go(slot)
        self._lanes.pop(slot.id, None)

    def _dropped(self, now: Instant, dropped: Dropped) -> None:
        self._leaving -= dropped.pids
        # What this very step has decided for them so far is void as well.
        self._effects.writes = [write for write in self._effects.writes if write.pid not in dropped.pids]
        for pid in dropped.pids:
            self._epochs.pop(pid, None)
        for slot in [slot for slot in self._lanes.values() if slot.pid in dropped.pids]:
            self._forget(slot)

    # --- whose turn it is ---

    def _ring(self, now: Instant) -> None:
        for what in self._alarms.ring(now):
            if isinstance(what, Desk):
                what.alarm_at = START
                self._turns.push(what)
            elif what.phase is Phase.WAITING and what.next_at <= now:
                self._place(now, what)

    def _dispatch(self, now: Instant) -> None:
        called, self._called = self._called, []
        for slot in called:
            self._go_on(now, slot)
        if self._draining or now >= self._lease_until:
            return
        if self._suspects:
            self._call_suspects(now)
        turns = self._turns
        places = self._in_flight_max
        while turns and self.in_flight + self._starting < places and self._flying_bytes < FLYING_BYTES_MAX:
            desk = turns.pop()
            if not desk.has_room(now, places - self.in_flight, places):
                if desk.wants_probe(now):
                    self._effects.health.append(desk.breaker.claim(now, desk.endpoint.timeout_ms))
                elif desk.lacks_place(now):
                    self._wait_for_place(desk)
                else:
                    self._set_alarm(now, desk)
                continue
            slot = desk.ready.popleft()
            if slot.phase is Phase.READY and not self._start(now, desk, slot):  # else it has moved on meanwhile
                desk.ready.appendleft(slot)
                continue
            turns.push(desk)

    def _has_place(self) -> bool:
        return self.in_flight + self._starting < self._in_flight_max and self._flying_bytes < FLYING_BYTES_MAX

    def _call_suspects(self, now: Instant) -> None:
        """Let those go who have waited for other suspects, if their endpoint has room."""
        if not self._has_place():
            return
        for slot in self._suspects.next_up(now):
            if slot.phase is not Phase.READY:
                continue
            desk = self._desks[slot.endpoint_id]
            free = self._in_flight_max - self.in_flight
            if not (self._has_place() and desk.has_room(now, free, self._in_flight_max)):
                self._to_front(desk, slot)
            elif not self._start(now, desk, slot):
                desk.ready.appendleft(slot)

    def _wait_for_place(self, desk: Desk) -> None:
        if not desk.waits_for_place:
            desk.waits_for_place = True
            self._placeless.append(desk)

    def _free_place(self) -> None:
        """One delivery is over: who has waited longest without any has its turn before whoever held the place."""
        self.in_flight -= 1
        if self._placeless:
            desk = self._placeless.popleft()
            desk.waits_for_place = False
            self._turns.push(desk)

    def _set_alarm(self, now: Instant, desk: Desk) -> None:
        at = desk.opens_at(now)
        if now < at < FOREVER and desk.ready and desk.alarm_at != at:
            desk.alarm_at = at
            self._alarms.set(at, desk)

    def _start(self, now: Instant, desk: Desk, slot: Slot) -> bool:
        """Take the next step towards an attempt; False when the lane must stay where it is for now."""
        if slot.pid in self._leaving:
            self._suspects.release(slot)
            slot.phase = Phase.PARKED
            return True
        event = slot.bodies.get(slot.head) if slot.bodies is not None else None
        if slot.unsure or slot.starts:
            return self._start_doubted(now, desk, slot, event)
        if event is None:
            return self._fetch(desk, slot)
        self._fly(now, desk, slot, event)
        return True

    def _start_doubted(self, now: Instant, desk: Desk, slot: Slot, event: Event | None) -> bool:
        """The same for a head of which a worker may have died: it may have to wait for others, and is announced."""
        suspects, is_lost = self._suspects, self._is_lost(desk, slot)
        if not is_lost and slot.kept is None and (slot.starts or event is not None):
            if not suspects.may_go(slot, now):
                suspects.set_aside(slot)
                return True
            suspects.take(slot, now)
        if event is None:
            if self._fetch(desk, slot):
                return True
            suspects.release(slot)
            return False
        if is_lost:
            outcome = Dead("worker_died", skip=self._skips_dead(desk, slot))
            # Nobody will try again: it died of the last attempt that was announced.
            last = replace(self._send_of(now, desk, slot, event), attempt=slot.attempts)
            self._settle(slot, Settlement(last, outcome, now, None))
        elif slot.unsure:
            slot.phase = Phase.STARTING
            desk.starting += 1
            self._starting += 1
            self._effects.writes.append(suspects.start_of(slot))
        else:
            self._fly(now, desk, slot, event)
        return True

    @staticmethod
    def _is_lost(desk: Desk, slot: Slot) -> bool:
        """Whether it has had its last chance: workers died of it alone, and often enough."""
        died = deaths(slot)
        return died > 0 and (died >= DEATHS_MAX or slot.attempts >= desk.policy.attempts_max)

    def _go_on(self, now: Instant, slot: Slot) -> None:
        """A doubted head is in hand and others may wait for it: it goes on at once, or gives its place back."""
        if slot.phase is not Phase.READY:
            return  # it was lost or called off in the same step
        desk, free = self._desks[slot.endpoint_id], self._in_flight_max - self.in_flight
        may_send = not self._draining and now < self._lease_until
        has_room = may_send and self._has_place() and desk.has_room(now, free, self._in_flight_max)
        if not (has_room and self._start(now, desk, slot)):
            self._suspects.release(slot)
            self._to_front(desk, slot)

    def _fly(self, now: Instant, desk: Desk, slot: Slot, event: Event) -> None:
        slot.phase = Phase.FLYING
        self.in_flight += 1
        self._flying_bytes += len(event.data)
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

    # --- reading what is due ---

    def _fetch(self, desk: Desk, slot: Slot) -> bool:
        if desk.fetching >= 4 * desk.endpoint.in_flight_max:
            return False  # enough is being read for this endpoint; what arrives brings the next turn
        desk.fetching += 1
        slot.phase = Phase.FETCHING
        self._effects.fetches.append(Fetch(slot.id, slot.head, min(FETCH_MAX, slot.tail - slot.head + 1)))
        return True

    def _end_fetch(self, slot: Slot) -> None:
        slot.phase = Phase.IDLE
        desk = self._desks[slot.endpoint_id]
        desk.fetching -= 1
        self._turns.push(desk)

    def _fetched(self, now: Instant, fetched: Fetched) -> None:
        for lane_id, seq, event in fetched.items:
            slot = self._lanes.get(lane_id)
            if slot is not None and slot.phase is Phase.FETCHING and seq >= slot.head:
                self._window.keep(slot, seq, event, always=seq == slot.head)
        for lane_id in reversed(fetched.asked):
            slot = self._lanes.get(lane_id)
            if slot is None or slot.phase is not Phase.FETCHING:
                continue
            self._end_fetch(slot)
            desk = self._desks[slot.endpoint_id]
            if slot.bodies is None or slot.head not in slot.bodies:
                self._reload(slot)  # what we believed of the lane is not what the store holds
            elif desk.endpoint.state is EndpointState.CANCELLING:
                self._cancel(slot)
            elif slot.kept is not None:
                self._go_on_soon(slot)
            else:
                self._to_front(desk, slot)

    def _end_start(self, slot: Slot) -> None:
        slot.phase = Phase.IDLE
        desk = self._desks[slot.endpoint_id]
        desk.starting -= 1
        self._starting -= 1
        self._turns.push(desk)

    def _to_front(self, desk: Desk, slot: Slot) -> None:
        """It has waited for its turn once already."""
        slot.phase = Phase.READY
        desk.ready.appendleft(slot)
        self._turns.push(desk)

    def _skips_dead(self, desk: Desk, slot: Slot) -> bool:
        # A redelivery is not owed: where it fails its line stops, whatever the policy for what is.
        return desk.skips_dead and not is_redelivery(slot.id)

    def _settle(self, slot: Slot, settlement: Settlement) -> None:
        slot.phase = Phase.SETTLING
        self._effects.writes.append(settlement)

    def _go_on_soon(self, slot: Slot) -> None:
        slot.phase = Phase.READY
        self._called.append(slot)
