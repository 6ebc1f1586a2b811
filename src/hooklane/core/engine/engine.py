"""Which delivery comes next? The engine knows the lanes of its partitions and decides; it does nothing itself.

STRICT: an event is sent only when the ack of its predecessor is durable, so nothing here moves a head but `Committed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hooklane.core.breaker import BreakerRules
from hooklane.core.engine.desk import Desk
from hooklane.core.engine.effects import Effects
from hooklane.core.engine.inputs import (
    Committed,
    Draining,
    Dropped,
    EndpointChanged,
    Fetched,
    HealthSeen,
    Input,
    LeaseSet,
    Leaving,
    Loaded,
    Reloaded,
    Settled,
)
from hooklane.core.engine.outcomes import Outcomes
from hooklane.core.engine.slot import Phase, Slot
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.lane import Grown, LaneId, LaneRow

NEWS_LATE_MS = 10_000
"""So late may a process hear of its own publish: a poll may have found the event, and it be delivered, long before.

That is why an idle lane is remembered for so long, also beyond the bound, and why a partition that others owned before
must have been ours for so long until a first event is known to be new without a look into the store.
"""

_BUSY = (Phase.FLYING, Phase.SETTLING, Phase.STARTING)


class Engine(Outcomes):
    """What the shell tells of ownership, endpoints and new work, and what is to be done about it."""

    def __init__(
        self,
        *,
        in_flight_max: int = 2_048,
        lanes_max: int = 100_000,
        window_bytes_max: int = 64 * 1024 * 1024,
        breaker: BreakerRules | None = None,
    ) -> None:
        super().__init__(in_flight_max, window_bytes_max)
        self._lanes_max = lanes_max
        self._breaker_rules = breaker or BreakerRules()
        self._share = 1.0
        self._sure_at: dict[int, Instant] = {}
        """By partition: from when on the news of a first event cannot be from before it was ours."""
        self._on: dict[type, Callable[[Instant, Any], None]] = {
            Loaded: self._loaded,
            Dropped: self._dropped,
            EndpointChanged: self._endpoint_changed,
            HealthSeen: self._health_seen,
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
        self._evict(now)
        effects.wake_at = self._alarms.next_at
        if self._suspects:
            effects.wake_at = min(effects.wake_at, self._suspects.wake_at(now))
        return effects

    # --- what others may look at ---

    @property
    def epochs(self) -> dict[int, int]:
        """The partitions that the engine works on, each with the epoch under which it is ours."""
        return self._epochs

    @property
    def desks(self) -> dict[str, Desk]:
        return self._desks

    @property
    def held_bytes(self) -> int:
        """How many bytes of events are in memory."""
        return self._window.held_bytes

    def __len__(self) -> int:
        return len(self._lanes)

    def busy(self, pids: frozenset[int]) -> frozenset[int]:
        """Those of some partitions in which something is in flight, or its outcome not durable yet."""
        return frozenset(slot.pid for slot in self._lanes.values() if slot.phase in _BUSY and slot.pid in pids)

    # --- ownership ---

    def _loaded(self, now: Instant, loaded: Loaded) -> None:
        self._epochs[loaded.pid] = loaded.epoch
        self._sure_at[loaded.pid] = now if loaded.epoch == 1 else Instant(now + NEWS_LATE_MS)
        for row in loaded.lanes:
            before = self._lanes.get(row.id)
            if before is not None:
                self._forget(before)
            # A head whose time has not come was in nobody's hands.
            slot = self._lanes[row.id] = Slot(row, loaded.epoch, unsure=loaded.unclean and row.next_at <= now)
            self._place(now, slot)

    def _lease_set(self, now: Instant, lease: LeaseSet) -> None:
        self._lease_until = lease.until
        if lease.share != self._share:
            self._share = lease.share
            for desk in self._desks.values():
                desk.share(lease.share)
        for desk in self._desks.values():
            self._turns.push(desk)

    def _drain(self, now: Instant, draining: Draining) -> None:
        self._draining = True

    def _leave(self, now: Instant, leaving: Leaving) -> None:
        self._leaving = leaving.pids
        for slot in self._lanes.values():
            if slot.phase is Phase.PARKED and slot.pid not in leaving.pids:
                self._place(now, slot)

    # --- endpoints ---

    def _endpoint_changed(self, now: Instant, changed: EndpointChanged) -> None:
        endpoint = changed.endpoint
        desk = self._desks.get(endpoint.id)
        if desk is None:
            desk = self._desks[endpoint.id] = Desk(endpoint, self._share, self._breaker_rules)
            for slot in self._lanes.values():
                if slot.endpoint_id == endpoint.id and slot.phase is Phase.IDLE:
                    self._place(now, slot)
        else:
            desk.change(endpoint)
        if endpoint.state is EndpointState.CANCELLING:
            self._cancel_all(endpoint)
        self._turns.push(desk)

    def _health_seen(self, now: Instant, seen: HealthSeen) -> None:
        found = {health.endpoint_id: health for health in seen.found}
        for endpoint_id in seen.asked:
            desk = self._desks.get(endpoint_id)
            if desk is not None:
                turned = desk.breaker.answered(found.get(endpoint_id), seen.worker, now)
                if turned is not None:
                    self._effects.health.append(turned)
                self._turns.push(desk)
        for health in seen.found:
            desk = self._desks.get(health.endpoint_id)
            if desk is not None:
                desk.breaker.see(health, now)
                self._turns.push(desk)

    def _cancel_all(self, endpoint: Endpoint) -> None:
        """Cancel what nobody has in hands; the rest follows when it comes back."""
        waiting = (Phase.READY, Phase.WAITING, Phase.STOPPED, Phase.PARKED)
        for slot in self._lanes.values():
            if slot.endpoint_id == endpoint.id and slot.phase in waiting:
                self._cancel(slot)

    # --- new work ---

    def _grown(self, now: Instant, grown: Grown) -> None:
        """Feed and poll only raise the tail: a head comes from the store alone."""
        epoch = self._epochs.get(grown.pid)
        if epoch is None:
            return  # not ours; its owner will find it
        slot = self._lanes.get(grown.lane_id)
        if slot is None:
            if grown.seq != 1 or grown.event is None or now < self._sure_at[grown.pid]:
                # Without a head nothing can be sent: ours may be 6 while a foreign 5 is not acked yet,
                # and what a poll or a late feed calls new may have been acked meanwhile.
                self._load(grown, epoch)
                return
            slot = self._lanes[grown.lane_id] = Slot.newborn(grown, epoch)
        elif grown.seq > slot.tail:
            slot.tail = grown.seq
        if grown.event is not None and grown.seq >= slot.head:
            self._window.keep(slot, grown.seq, grown.event)
        if slot.phase is Phase.IDLE:
            self._place(now, slot)

    def _load(self, grown: Grown, epoch: int) -> None:
        row = LaneRow(grown.lane_id, grown.pid, grown.endpoint_id, grown.key, head=1, tail=grown.seq)
        slot = self._lanes[grown.lane_id] = Slot(row, epoch, unsure=False)
        slot.phase = Phase.LOADING
        self._effects.reloads.append(slot.id)

    def _reloaded(self, now: Instant, reloaded: Reloaded) -> None:
        found: set[LaneId] = set()
        for row in reloaded.rows:
            found.add(row.id)
            epoch = self._epochs.get(row.pid)
            if epoch is None or (reloaded.epochs is not None and reloaded.epochs.get(row.pid) != epoch):
                continue  # not ours, or not since it was read: another owner may have been at work meanwhile
            slot = self._lanes.get(row.id)
            if slot is None:
                slot = self._lanes[row.id] = Slot(row, epoch, unsure=False)
            elif slot.phase in _BUSY:
                slot.again = slot.again or row.rev > slot.rev
                continue  # its own outcome is under way and will be checked against the store
            elif self._is_older(row, slot):
                if slot.phase is Phase.LOADING:
                    self._effects.reloads.append(slot.id)  # read before we asked; ours is still to come
                continue
            else:
                self._let_go(slot)
                slot.renew(row)
            self._place(now, slot)
        for lane_id in reloaded.asked:
            slot = self._lanes.get(lane_id)
            if lane_id not in found and slot is not None and slot.phase is Phase.LOADING:
                self._forget(slot)

    @staticmethod
    def _is_older(row: LaneRow, slot: Slot) -> bool:
        return slot.is_newer_than(row)

    # --- memory ---

    def _evict(self, now: Instant) -> None:
        while len(self._lanes) > self._lanes_max and self._idle:
            lane_id, since = next(iter(self._idle.items()))
            if 0 <= now - since < NEWS_LATE_MS:
                break
            self._forget(self._lanes[lane_id])
