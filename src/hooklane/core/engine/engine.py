"""Which delivery comes next? The engine knows the lanes of its partitions and decides; it does nothing itself.

STRICT: an event is sent only when the ack of its predecessor is durable, so nothing here moves a head but `Committed`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

from hooklane.core.breaker import BreakerRules
from hooklane.core.engine.effects import Effects
from hooklane.core.engine.endpoint_queue import EndpointQueue
from hooklane.core.engine.heads import Heads
from hooklane.core.engine.inputs import (
    Committed,
    Draining,
    Dropped,
    EndpointChanged,
    EndpointsGone,
    Fetched,
    HealthSeen,
    Input,
    Jumped,
    LeaseSet,
    Leaving,
    Loaded,
    Reloaded,
    Settled,
    StartedAnew,
    Swept,
)
from hooklane.core.engine.outcomes import Outcomes
from hooklane.core.engine.owned_lane import OwnedLane, Phase
from hooklane.model.attempt import Settlement
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.lane import Grown, LaneId, LaneRow

NEWS_LATE_MS: Final = 10_000
"""So late may a process hear of its own publish: a poll may have found the event, and it be delivered, long before.

That is why an idle lane is remembered for so long, also beyond the bound, and why a partition that others owned before
must have been ours for so long until a first event is known to be new without a look into the store.
"""

_BUSY: Final = (Phase.FLYING, Phase.SETTLING, Phase.STARTING)
_LOOKED_AT: Final = (*_BUSY, Phase.LOADING)
"""What the store knows of these is being read, or compared when the outcome is written."""


class Engine:
    """What the shell tells of ownership, endpoints and new work, and what is to be done about it."""

    def __init__(
        self,
        *,
        in_flight_max: int = 2_048,
        lanes_max: int = 100_000,
        window_bytes_max: int = 64 * 1024 * 1024,
        breaker: BreakerRules | None = None,
        heads: type[Heads] = Heads,
        outcomes: type[Outcomes] = Outcomes,
    ) -> None:
        """*heads* and *outcomes* are what it is made of, so that one of them can be exchanged for a wrong one."""
        self._heads = heads(in_flight_max, window_bytes_max)
        self._outcomes = outcomes(self._heads)
        self._lanes_max = lanes_max
        self._breaker_rules = breaker or BreakerRules()
        self._share = 1.0
        self._sure_at: dict[int, Instant] = {}
        """By partition: from when on the news of a first event cannot be from before it was ours."""
        self._on: dict[type, Callable[[Instant, Any], None]] = {
            Loaded: self._loaded,
            Dropped: self._heads.dropped,
            StartedAnew: self._started_anew,
            EndpointChanged: self._endpoint_changed,
            EndpointsGone: self._endpoints_gone,
            HealthSeen: self._health_seen,
            LeaseSet: self._lease_set,
            Grown: self._grown,
            Settled: self._outcomes.settled,
            Fetched: self._heads.fetched,
            Reloaded: self._reloaded,
            Swept: self._swept,
            Committed: self._outcomes.committed,
            Draining: self._drain,
            Leaving: self._leave,
            Jumped: self._jumped,
        }

    def step(self, now: Instant, inputs: Iterable[Input]) -> Effects:
        """Take note of *inputs*, and say what is to be done now."""
        effects = self._heads.effects = Effects()
        on = self._on
        for one in inputs:
            on[type(one)](now, one)
        self._heads.ring(now)
        self._heads.dispatch(now)
        self._evict(now)
        effects.wake_at = min(self._heads.alarms.next_at, self._heads.suspects.wake_at(now))
        return effects

    # --- what others may look at ---

    @property
    def in_flight(self) -> int:
        """Deliveries that are on their way."""
        return self._heads.in_flight

    @property
    def epochs(self) -> dict[int, int]:
        """The partitions that the engine works on, each with the epoch under which it is ours."""
        return self._heads.epochs

    @property
    def queues(self) -> dict[str, EndpointQueue]:
        return self._heads.queues

    @property
    def held_bytes(self) -> int:
        """How many bytes of events are in memory."""
        return self._heads.window.held_bytes

    def __len__(self) -> int:
        return len(self._heads.lanes)

    def busy(self, pids: frozenset[int]) -> frozenset[int]:
        """Those of some partitions in which something is in flight, or its outcome not durable yet."""
        return frozenset(lane.pid for lane in self._heads.lanes.values() if lane.phase in _BUSY and lane.pid in pids)

    # --- ownership ---

    def _loaded(self, now: Instant, loaded: Loaded) -> None:
        self._heads.epochs[loaded.pid] = loaded.epoch
        self._sure_at[loaded.pid] = now if loaded.epoch == 1 else Instant(now + NEWS_LATE_MS)
        for row in loaded.lanes:
            before = self._heads.lanes.get(row.id)
            if before is not None:
                self._heads.forget(before)
            # A head whose time has not come was not in flight.
            lane = self._heads.lanes[row.id] = OwnedLane(
                row, loaded.epoch, unsure=loaded.unclean and row.next_at <= now
            )
            self._heads.place(now, lane)

    def _started_anew(self, now: Instant, started: StartedAnew) -> None:
        for queue in self._heads.queues.values():
            queue.forget(self._breaker_rules)

    def _lease_set(self, now: Instant, lease: LeaseSet) -> None:
        self._heads.lease_until = lease.until
        self._share = lease.share
        for queue in self._heads.queues.values():
            queue.share(lease.share)
            self._heads.turns.push(queue)

    def _drain(self, now: Instant, draining: Draining) -> None:
        self._heads.draining = True

    def _leave(self, now: Instant, leaving: Leaving) -> None:
        self._heads.leaving = leaving.pids
        for lane in self._heads.lanes.values():
            if lane.phase is Phase.PARKED:
                self._heads.place(now, lane)

    def _jumped(self, now: Instant, jumped: Jumped) -> None:
        """What waits goes on waiting for as long as it would have: a clock that is set makes nothing due, or late."""
        by = jumped.by
        # What this very step has judged was judged by the new clock.
        judged = {one.send.lane_id for one in self._heads.effects.writes if isinstance(one, Settlement)}
        for lane in self._heads.lanes.values():
            if lane.id not in judged:
                lane.next_at = Instant(lane.next_at + by)
        for queue in self._heads.queues.values():
            queue.jump(by)
        self._heads.alarms.jump(by)
        self._heads.suspects.jump(by)
        self._heads.idle = OrderedDict((lane_id, Instant(since + by)) for lane_id, since in self._heads.idle.items())
        self._sure_at = {pid: Instant(at + by) for pid, at in self._sure_at.items()}

    # --- endpoints ---

    def _endpoint_changed(self, now: Instant, changed: EndpointChanged) -> None:
        endpoint = changed.endpoint
        queue = self._heads.queues.get(endpoint.id)
        if queue is None:
            queue = self._heads.queues[endpoint.id] = EndpointQueue(
                endpoint, self._share, self._breaker_rules, self._heads.places_of(endpoint.tenant)
            )
            for lane in self._heads.lanes.values():
                if lane.endpoint_id == endpoint.id and lane.phase is Phase.IDLE:
                    self._heads.place(now, lane)
        else:
            queue.change(endpoint)
        if endpoint.state is EndpointState.CANCELLING:
            self._cancel_all(endpoint)
        self._heads.turns.push(queue)

    def _endpoints_gone(self, now: Instant, gone: EndpointsGone) -> None:
        """They go, and their lanes with them. Where something is under way they stay: the next look tells again."""
        heads, ids = self._heads, frozenset(gone.ids)
        lanes = [lane for lane in heads.lanes.values() if lane.endpoint_id in ids]
        busy = {lane.endpoint_id for lane in lanes if lane.phase is not Phase.IDLE}
        busy |= {one for one in ids if one in heads.queues and heads.queues[one].in_flight}
        for lane in lanes:
            if lane.endpoint_id not in busy:
                heads.forget(lane)
        for one in ids - busy:
            heads.queues.pop(one, None)

    def _health_seen(self, now: Instant, seen: HealthSeen) -> None:
        found = {health.endpoint_id: health for health in seen.found}
        for endpoint_id in seen.asked:
            queue = self._heads.queues.get(endpoint_id)
            if queue is not None:
                turned = queue.breaker.answered(found.get(endpoint_id), seen.worker, now)
                if turned is not None:
                    self._heads.effects.health.append(turned)
        for health in seen.found:
            queue = self._heads.queues.get(health.endpoint_id)
            if queue is not None:
                queue.breaker.see(health, now)
                self._heads.turns.push(queue)

    def _cancel_all(self, endpoint: Endpoint) -> None:
        """Cancel what is not in flight; the rest follows when it comes back."""
        waiting = (Phase.READY, Phase.WAITING, Phase.STOPPED, Phase.PARKED)
        for lane in self._heads.lanes.values():
            if lane.endpoint_id == endpoint.id and lane.phase in waiting:
                self._heads.cancel(lane)

    # --- new work ---

    def _grown(self, now: Instant, grown: Grown) -> None:
        """Feed and poll only raise the tail: a head comes from the store alone."""
        epoch = self._heads.epochs.get(grown.pid)
        if epoch is None:
            return  # not ours; its owner will find it
        lane = self._heads.lanes.get(grown.lane_id)
        if lane is None:
            if grown.seq != 1 or grown.event is None or now < self._sure_at[grown.pid]:
                # Without a head nothing can be sent: ours may be 6 while a foreign 5 is not acked yet,
                # and what a poll or a late feed calls new may have been acked meanwhile.
                self._load(grown, epoch)
                return
            lane = self._heads.lanes[grown.lane_id] = OwnedLane.newborn(grown, epoch)
        else:
            lane.tail = max(lane.tail, grown.seq)
        if grown.event is not None and grown.seq >= lane.head:
            self._heads.window.keep(lane, grown.seq, grown.event)
        if lane.phase is Phase.IDLE:
            self._heads.place(now, lane)

    def _load(self, grown: Grown, epoch: int) -> None:
        row = LaneRow(grown.lane_id, grown.pid, grown.endpoint_id, grown.key, head=1, tail=grown.seq)
        lane = self._heads.lanes[grown.lane_id] = OwnedLane(row, epoch, unsure=False)
        lane.phase = Phase.LOADING
        self._heads.effects.reloads.append(lane.id)

    def _reloaded(self, now: Instant, reloaded: Reloaded) -> None:
        found: set[LaneId] = set()
        for row in reloaded.rows:
            found.add(row.id)
            epoch = self._heads.epochs.get(row.pid)
            if epoch is None or (reloaded.epochs is not None and reloaded.epochs.get(row.pid) != epoch):
                continue  # not ours, or not since it was read: another owner may have been at work meanwhile
            lane = self._heads.lanes.get(row.id)
            if lane is None:
                lane = self._heads.lanes[row.id] = OwnedLane(row, epoch, unsure=False)
            elif lane.phase in _BUSY:
                lane.again = lane.again or row.rev > lane.rev
                continue  # its own outcome is under way and will be checked against the store
            elif self._is_older(row, lane):
                if lane.phase is Phase.LOADING:
                    self._heads.effects.reloads.append(lane.id)  # read before we asked; ours is still to come
                continue
            else:
                self._heads.let_go(lane)
                lane.renew(row)
            self._heads.place(now, lane)
        for lane_id in reloaded.asked:
            lane = self._heads.lanes.get(lane_id)
            if lane_id not in found and lane is not None and lane.phase is Phase.LOADING:
                self._heads.forget(lane)

    def _swept(self, now: Instant, swept: Swept) -> None:
        """As feed and poll do, a sweep only raises: tails here, and by a look into the store what a person did."""
        if self._heads.epochs.get(swept.pid) != swept.epoch:
            return
        for row in swept.rows:
            lane = self._heads.lanes.get(row.id)
            if lane is not None and row.tail <= lane.tail and (row.rev <= lane.rev or lane.phase in _LOOKED_AT):
                continue
            self._heads.effects.missed += 1
            if lane is not None and row.rev > lane.rev and lane.phase not in _LOOKED_AT:
                self._heads.reload(lane)
            else:
                self._grown(now, Grown(row.id, row.pid, row.endpoint_id, row.key, row.tail))

    @staticmethod
    def _is_older(row: LaneRow, lane: OwnedLane) -> bool:
        return lane.is_newer_than(row)

    # --- memory ---

    def _evict(self, now: Instant) -> None:
        while len(self._heads.lanes) > self._lanes_max and self._heads.idle:
            lane_id, since = next(iter(self._heads.idle.items()))
            if 0 <= now - since < NEWS_LATE_MS:
                break
            self._heads.forget(self._heads.lanes[lane_id])
