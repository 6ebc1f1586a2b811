"""What becomes of the head of a lane? From its place in the line to its turn and its flight."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import replace
from typing import Final

from hooklane.core.engine.alarms import Alarms
from hooklane.core.engine.effects import Effects, Fetch
from hooklane.core.engine.endpoint_queue import EndpointQueue, TenantPlaces, Turns
from hooklane.core.engine.inputs import Dropped, Fetched
from hooklane.core.engine.owned_lane import OwnedLane, Phase
from hooklane.core.engine.suspects import DEATHS_MAX, Suspects, deaths
from hooklane.core.engine.window import Window
from hooklane.model.attempt import Cancel, Dead, Send, Settlement
from hooklane.model.clock import START, Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.event import Event
from hooklane.model.lane import LaneId, LaneState
from hooklane.model.lost import REASON, is_lost
from hooklane.model.redelivery import is_redelivery

FETCH_MAX: Final = 16
"""How many events of a lane are read at once: enough to keep it busy, few enough to hold for thousands of lanes."""
FETCH_ALONE_MAX: Final = 64
"""The same where no other lane of the endpoint is being read: a lane alone waits for each read with nothing to send."""
FLYING_BYTES_MAX: Final = 64 * 1024 * 1024
"""How many bytes of events may be in flight: each is held twice, by us and by the transport."""
KEEP_BODY_MS: Final = 5_000
"""A head that waits longer than this for its next try does not keep its event in memory."""


class Heads:
    """The lanes with work of one worker's partitions, in memory, and the attempts at their heads."""

    def __init__(self, in_flight_max: int, window_bytes_max: int) -> None:
        self.in_flight = 0
        """Deliveries that are on their way, of all lanes that are or were ours."""
        self.in_flight_max = in_flight_max
        self._starting = 0
        self.flying_bytes = 0
        self.epochs: dict[int, int] = {}
        self.lanes: dict[LaneId, OwnedLane] = {}
        self.idle: OrderedDict[LaneId, Instant] = OrderedDict()
        """Since when, in that order. A plain dict looks for its first entry behind all that were there and are gone."""
        self.queues: dict[str, EndpointQueue] = {}
        self._tenants: dict[str, TenantPlaces] = {}
        self.turns = Turns()
        self._placeless: deque[EndpointQueue] = deque()
        self.alarms = Alarms()
        self.window = Window(window_bytes_max)
        self.suspects = Suspects()
        self._called: list[OwnedLane] = []
        self.lease_until: Instant = START
        self.draining = False
        self.leaving: frozenset[int] = frozenset()
        self.effects = Effects()

    # --- where a lane belongs ---

    def place(self, now: Instant, lane: OwnedLane) -> None:
        """Put a lane that is not in flight where it belongs."""
        lane.flight = None
        self.suspects.release(lane)
        if not lane.has_work():
            lane.phase = Phase.IDLE
            self.idle[lane.id] = now
            return
        self.idle.pop(lane.id, None)
        if lane.state is LaneState.IDLE:
            lane.state = LaneState.ACTIVE
        queue = self.queues.get(lane.endpoint_id)
        if queue is None:
            return  # its endpoint is not known yet; the news of it will place the lane, which is idle until then
        if queue.endpoint.state is EndpointState.CANCELLING:
            self.cancel(lane)
        elif lane.state is LaneState.BLOCKED:
            lane.phase = Phase.STOPPED
            self.window.drop(lane)
        elif lane.next_at > now:
            lane.phase = Phase.WAITING
            if lane.next_at - now > KEEP_BODY_MS:
                self.window.drop(lane)
            self.alarms.set(lane.next_at, lane)
        else:
            lane.phase = Phase.READY
            if lane.starts and not self._is_lost(queue, lane):
                self.suspects.set_aside(lane)
            else:
                queue.ready.append(lane)
                self.turns.push(queue)

    def cancel(self, lane: OwnedLane) -> None:
        lane.phase = Phase.SETTLING
        self.effects.writes.append(Cancel(lane.id, lane.pid, lane.head, lane.tail, lane.rev))

    def reload(self, lane: OwnedLane) -> None:
        self.let_go(lane)
        lane.phase, lane.again = Phase.LOADING, False
        self.effects.reloads.append(lane.id)

    def let_go(self, lane: OwnedLane) -> None:
        """Take a lane out of wherever it waits; a stale place in a line or on the clock is passed over by phase."""
        if lane.phase is Phase.FETCHING:
            self._end_fetch(lane)
        elif lane.phase is Phase.STARTING:
            self.end_start(lane)
        self.idle.pop(lane.id, None)
        self.window.drop(lane)
        self.suspects.release(lane)
        lane.phase, lane.flight = Phase.IDLE, None

    def forget(self, lane: OwnedLane) -> None:
        self.let_go(lane)
        self.lanes.pop(lane.id, None)

    def dropped(self, now: Instant, dropped: Dropped) -> None:
        self.leaving -= dropped.pids
        # What this very step has decided for them so far is void as well.
        self.effects.writes = [write for write in self.effects.writes if write.pid not in dropped.pids]
        for pid in dropped.pids:
            self.epochs.pop(pid, None)
        for lane in [lane for lane in self.lanes.values() if lane.pid in dropped.pids]:
            self.forget(lane)
        # Nor are they kept by a line that may not move for weeks, as that of a paused endpoint.
        self.alarms.forget(dropped.pids)
        for queue in self.queues.values():
            queue.ready = deque(lane for lane in queue.ready if lane.pid not in dropped.pids)

    # --- whose turn it is ---

    def ring(self, now: Instant) -> None:
        for what in self.alarms.ring(now):
            if isinstance(what, EndpointQueue):
                what.alarm_at = START
                self.turns.push(what)
            elif what.phase is Phase.WAITING and what.next_at <= now:
                self.place(now, what)

    def dispatch(self, now: Instant) -> None:
        called, self._called = self._called, []
        for lane in called:
            self._go_on(now, lane)
        if self.draining or now >= self.lease_until:
            return
        self._call_suspects(now)
        turns = self.turns
        while turns and self._has_place():
            queue = turns.pop()
            if not queue.ready:
                continue  # its lanes were lost while it stood in line
            if not self._has_room(now, queue):
                if queue.wants_probe(now):
                    self.effects.health.append(queue.breaker.claim(now, queue.endpoint.timeout_ms))
                elif queue.tenant.is_full(self.in_flight_max - self.in_flight):
                    self._wait_for_tenant(queue)
                elif queue.lacks_place(now):
                    self._wait_for_place(queue)
                else:
                    self._set_alarm(now, queue)
                continue
            lane = queue.ready.popleft()
            if lane.phase is Phase.READY and not self._start(now, queue, lane):  # else it has moved on meanwhile
                queue.ready.appendleft(lane)
                continue
            turns.push(queue)

    def _has_place(self) -> bool:
        return self.in_flight + self._starting < self.in_flight_max and self.flying_bytes < FLYING_BYTES_MAX

    def _has_room(self, now: Instant, queue: EndpointQueue) -> bool:
        return queue.has_room(now, self.in_flight_max - self.in_flight, self.in_flight_max)

    def _call_suspects(self, now: Instant) -> None:
        """Let those go who have waited for other suspects, if their endpoint has room."""
        if not self._has_place():
            return
        for lane in self.suspects.next_up(now):
            if lane.phase is not Phase.READY:
                continue
            queue = self.queues[lane.endpoint_id]
            if not (self._has_place() and self._has_room(now, queue)):
                self.to_front(queue, lane)
            elif not self._start(now, queue, lane):
                queue.ready.appendleft(lane)

    def _wait_for_place(self, queue: EndpointQueue) -> None:
        if not queue.waits_for_place:
            queue.waits_for_place = True
            self._placeless.append(queue)

    @staticmethod
    def _wait_for_tenant(queue: EndpointQueue) -> None:
        if not queue.waits_for_place:
            queue.waits_for_place = True
            queue.tenant.waiting.append(queue)

    def places_of(self, tenant: str) -> TenantPlaces:
        """The places of a tenant; from the second tenant on they are bounded."""
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = TenantPlaces()
            if len(self._tenants) > 1:
                for one in self._tenants.values():
                    one.is_capped = True
        return found

    def free_place(self, tenant: TenantPlaces) -> None:
        """One delivery is over: the lane that waited longest without any goes before the one that held the place."""
        self.in_flight -= 1
        tenant.busy -= 1
        if tenant.waiting:
            queue = tenant.waiting.popleft()
            queue.waits_for_place = False
            self.turns.push(queue)
        if self._placeless:
            queue = self._placeless.popleft()
            queue.waits_for_place = False
            self.turns.push(queue)

    def _set_alarm(self, now: Instant, queue: EndpointQueue) -> None:
        at = queue.opens_at(now)
        if now < at != queue.alarm_at:
            queue.alarm_at = at
            self.alarms.set(at, queue)

    def _start(self, now: Instant, queue: EndpointQueue, lane: OwnedLane) -> bool:
        """Take the next step towards an attempt; False when the lane must stay where it is for now."""
        if lane.pid in self.leaving:
            self.suspects.release(lane)
            lane.phase = Phase.PARKED
            return True
        event = lane.bodies.get(lane.head) if lane.bodies is not None else None
        if event is not None and is_lost(event):
            self.settle(lane, Settlement(self._send_of(now, queue, lane, event), Dead(REASON, skip=True), now, None))
            return True
        if lane.unsure or lane.starts:
            return self._start_doubted(now, queue, lane, event)
        if event is None:
            return self._fetch(queue, lane)
        self.fly(now, queue, lane, event)
        return True

    def _start_doubted(self, now: Instant, queue: EndpointQueue, lane: OwnedLane, event: Event | None) -> bool:
        """The same for a head of which a worker may have died: it may have to wait for others, and is announced."""
        suspects, is_lost = self.suspects, self._is_lost(queue, lane)
        if not is_lost and lane.kept is None and (lane.starts or event is not None):
            if not suspects.may_go(lane, now):
                suspects.set_aside(lane)
                return True
            suspects.take(lane, now)
        if event is None:
            if self._fetch(queue, lane):
                return True
            suspects.release(lane)
            return False
        if is_lost:
            outcome = Dead("worker_died", skip=self.skips_dead(queue, lane))
            # There is no further attempt: it died of the last attempt that was announced.
            last = replace(self._send_of(now, queue, lane, event), attempt=lane.attempts)
            self.settle(lane, Settlement(last, outcome, now, None))
        elif lane.unsure:
            lane.phase = Phase.STARTING
            queue.starting += 1
            self._starting += 1
            self.effects.writes.append(suspects.start_of(lane))
        else:
            self.fly(now, queue, lane, event)
        return True

    @staticmethod
    def _is_lost(queue: EndpointQueue, lane: OwnedLane) -> bool:
        """Whether it has had its last chance: workers died of it alone, and often enough."""
        died = deaths(lane)
        return died > 0 and (died >= DEATHS_MAX or lane.attempts >= queue.policy.attempts_max)

    def _go_on(self, now: Instant, lane: OwnedLane) -> None:
        """A doubted head is in hand and others may wait for it: it goes on at once, or gives its place back."""
        if lane.phase is not Phase.READY:
            return  # it was lost or called off in the same step
        queue = self.queues[lane.endpoint_id]
        may_send = not self.draining and now < self.lease_until
        has_room = may_send and self._has_place() and self._has_room(now, queue)
        if not (has_room and self._start(now, queue, lane)):
            self.suspects.release(lane)
            self.to_front(queue, lane)

    def fly(self, now: Instant, queue: EndpointQueue, lane: OwnedLane, event: Event) -> None:
        lane.phase = Phase.FLYING
        self.in_flight += 1
        self.flying_bytes += len(event.data)
        queue.take_off(now)
        lane.flight = self._send_of(now, queue, lane, event)
        self.effects.sends.append(lane.flight)

    def _send_of(self, now: Instant, queue: EndpointQueue, lane: OwnedLane, event: Event) -> Send:
        return Send(
            lane.id,
            lane.pid,
            lane.epoch,
            lane.rev,
            lane.key,
            lane.head,
            lane.acked,
            lane.attempts + 1,
            event,
            queue.endpoint,
            now,
        )

    # --- reading what is due ---

    def _fetch(self, queue: EndpointQueue, lane: OwnedLane) -> bool:
        if queue.fetching >= 4 * queue.endpoint.in_flight_max:
            return False  # enough is being read for this endpoint; what arrives brings the next turn
        most = FETCH_MAX if queue.fetching else FETCH_ALONE_MAX
        queue.fetching += 1
        lane.phase = Phase.FETCHING
        self.effects.fetches.append(Fetch(lane.id, lane.head, min(most, lane.tail - lane.head + 1)))
        return True

    def _end_fetch(self, lane: OwnedLane) -> None:
        lane.phase = Phase.IDLE
        queue = self.queues[lane.endpoint_id]
        queue.fetching -= 1
        self.turns.push(queue)

    def fetched(self, now: Instant, fetched: Fetched) -> None:
        for lane_id, seq, event in fetched.items:
            lane = self.lanes.get(lane_id)
            if lane is not None and lane.phase is Phase.FETCHING and seq >= lane.head:
                self.window.keep(lane, seq, event, always=seq == lane.head)
        for lane_id in reversed(fetched.asked):
            lane = self.lanes.get(lane_id)
            if lane is None or lane.phase is not Phase.FETCHING:
                continue
            self._end_fetch(lane)
            queue = self.queues[lane.endpoint_id]
            if lane.bodies is None or lane.head not in lane.bodies:
                self.reload(lane)  # what we believed of the lane is not what the store holds
            elif queue.endpoint.state is EndpointState.CANCELLING:
                self.cancel(lane)
            elif lane.kept is not None:
                self.go_on_soon(lane)
            else:
                self.to_front(queue, lane)

    def end_start(self, lane: OwnedLane) -> None:
        queue = self.queues[lane.endpoint_id]
        queue.starting -= 1
        self._starting -= 1
        self.turns.push(queue)

    def to_front(self, queue: EndpointQueue, lane: OwnedLane) -> None:
        """It has waited for its turn once already."""
        lane.phase = Phase.READY
        queue.ready.appendleft(lane)
        self.turns.push(queue)

    def skips_dead(self, queue: EndpointQueue, lane: OwnedLane) -> bool:
        # A redelivery is not owed: where it fails its line stops, whatever the policy for what is.
        return queue.skips_dead and not is_redelivery(lane.id)

    def settle(self, lane: OwnedLane, settlement: Settlement) -> None:
        lane.phase, lane.flight = Phase.SETTLING, settlement.send
        self.effects.writes.append(settlement)

    def go_on_soon(self, lane: OwnedLane) -> None:
        lane.phase = Phase.READY
        self._called.append(lane)
