"""Engines, and parts of engines, with a planted bug."""

from __future__ import annotations

from dataclasses import replace

from hooklane.core.engine import Engine, Settled
from hooklane.core.engine.endpoint_queue import EndpointQueue
from hooklane.core.engine.heads import Heads
from hooklane.core.engine.outcomes import Outcomes
from hooklane.core.engine.owned_lane import OwnedLane, Phase
from hooklane.core.engine.suspects import Rank, Suspects
from hooklane.model.attempt import Dead, Delivered, Retry, Settlement
from hooklane.model.clock import START, Instant
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, NoAnswer, Timings
from hooklane.model.lane import Grown, LaneRow, LaneState

_OK = Answer(200, Timings(1.0))


class AckBeforeDurable(Outcomes):
    """The successor is sent as soon as the 2xx is there, not when it is durable."""

    def settle(self, lane: OwnedLane, settlement: Settlement) -> None:
        super().settle(lane, settlement)
        if isinstance(settlement.outcome, Delivered):
            self.apply(settlement.at, lane, settlement)


class DeadLetterAdvancesTheKey(Outcomes):
    """What stands behind a dead head goes on, as in most webhook senders."""

    def apply(self, now: Instant, lane: OwnedLane, settlement: Settlement) -> None:
        if isinstance(settlement.outcome, Dead):
            settlement = replace(settlement, outcome=replace(settlement.outcome, skip=True))
        super().apply(now, lane, settlement)


class BackoffIgnored(Heads):
    """A failed head is tried again at once."""

    def place(self, now: Instant, lane: OwnedLane) -> None:
        lane.next_at = START
        super().place(now, lane)


class TwoInFlight(Heads):
    """A head is sent twice at once, for speed."""

    def fly(self, now: Instant, queue: EndpointQueue, lane: OwnedLane, event: Event) -> None:
        super().fly(now, queue, lane, event)
        super().fly(now, queue, lane, event)


class GrowthUnblocks(Engine):
    """A new event wakes its lane up, also where the head is dead."""

    def _grown(self, now: Instant, grown: Grown) -> None:
        lane = self._heads.lanes.get(grown.lane_id)
        if lane is not None and lane.phase is Phase.STOPPED:
            lane.state, lane.phase = LaneState.ACTIVE, Phase.IDLE
        super()._grown(now, grown)


class FeedSetsTheHead(Engine):
    """A lane that is not in memory starts at what was published just now."""

    def _grown(self, now: Instant, grown: Grown) -> None:
        epoch = self._heads.epochs.get(grown.pid)
        if epoch is not None and grown.lane_id not in self._heads.lanes and grown.event is not None:
            row = LaneRow(grown.lane_id, grown.pid, grown.endpoint_id, grown.key, head=grown.seq, tail=grown.seq)
            self._heads.lanes[grown.lane_id] = OwnedLane(row, epoch, unsure=False)
        super()._grown(now, grown)


class StaleHeadOnReload(Engine):
    """What a reload says is believed, also when it was read before our own last commit."""

    @staticmethod
    def _is_older(row: LaneRow, lane: OwnedLane) -> bool:
        return False


class TimeoutCountedAsDelivered(Outcomes):
    """No news is good news."""

    def settled(self, now: Instant, settled: Settled) -> None:
        if isinstance(settled.result, NoAnswer):
            settled = Settled(settled.send, _OK, settled.roll)
        super().settled(now, settled)


class ClientErrorCountedAsDelivered(Outcomes):
    """A 4xx is the receiver's own fault, so the event is done with."""

    def settled(self, now: Instant, settled: Settled) -> None:
        if isinstance(settled.result, Answer) and 400 <= settled.result.status < 500:
            settled = Settled(settled.send, _OK, settled.roll)
        super().settled(now, settled)


class EveryDeathIsSkipped(Outcomes):
    """Dead letters are skipped whatever the endpoint's policy says."""

    def settle(self, lane: OwnedLane, settlement: Settlement) -> None:
        if isinstance(settlement.outcome, Dead):
            settlement = replace(settlement, outcome=replace(settlement.outcome, skip=True))
        super().settle(lane, settlement)


class AttemptsNeverEnd(Outcomes):
    """The last attempt is not the last."""

    def settle(self, lane: OwnedLane, settlement: Settlement) -> None:
        if isinstance(settlement.outcome, Dead) and not settlement.outcome.gap:
            later = Instant(settlement.at + settlement.send.endpoint.backoff_cap_ms)
            settlement = replace(settlement, outcome=Retry(later, "again"))
        super().settle(lane, settlement)


class EveryoneIsBlamed(Heads):
    """After a death every head is announced at once, and each of them counts it when their worker dies again."""

    def __init__(self, in_flight_max: int, window_bytes_max: int) -> None:
        super().__init__(in_flight_max, window_bytes_max)
        self.suspects = _AllAlone()


class _AllAlone(Suspects):
    def may_go(self, lane: OwnedLane, now: Instant) -> bool:
        return True

    def take(self, lane: OwnedLane, now: Instant) -> None:
        lane.kept = Rank.ALONE
        self._in_hand[Rank.ALONE] += 1


class SendsWhatIsLost(Heads):
    """A lost event is an event like any other."""

    def _start(self, now: Instant, queue: EndpointQueue, lane: OwnedLane) -> bool:
        event: Event | None = lane.bodies.get(lane.head) if lane.bodies is not None else None
        if event is None:
            return super()._start(now, queue, lane)
        self.fly(now, queue, lane, event)
        return True
