"""Engines with a planted bug."""

from __future__ import annotations

from dataclasses import replace

from hooklane.core.engine import Engine, Settled
from hooklane.core.engine.desk import Desk
from hooklane.core.engine.slot import Phase, Slot
from hooklane.core.engine.suspects import Rank, Suspects
from hooklane.model.attempt import Dead, Delivered, Retry, Settlement
from hooklane.model.clock import START, Instant
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, NoAnswer, Timings
from hooklane.model.lane import Grown, LaneRow, LaneState

_OK = Answer(200, Timings(1.0))


class AckBeforeDurable(Engine):
    """The successor is sent as soon as the 2xx is there, not when it is durable."""

    def _settle(self, slot: Slot, settlement: Settlement) -> None:
        super()._settle(slot, settlement)
        if isinstance(settlement.outcome, Delivered):
            self._apply(settlement.at, slot, settlement)


class DeadLetterAdvancesTheKey(Engine):
    """What stands behind a dead head goes on, as in most webhook senders."""

    def _apply(self, now: Instant, slot: Slot, settlement: Settlement) -> None:
        if isinstance(settlement.outcome, Dead):
            settlement = replace(settlement, outcome=replace(settlement.outcome, skip=True))
        super()._apply(now, slot, settlement)


class BackoffIgnored(Engine):
    """A failed head is tried again at once."""

    def _place(self, now: Instant, slot: Slot) -> None:
        slot.next_at = START
        super()._place(now, slot)


class TwoInFlight(Engine):
    """A head is sent twice at once, for speed."""

    def _fly(self, now: Instant, desk: Desk, slot: Slot, event: Event) -> None:
        super()._fly(now, desk, slot, event)
        super()._fly(now, desk, slot, event)


class GrowthUnblocks(Engine):
    """A new event wakes its lane up, also where the head is dead."""

    def _grown(self, now: Instant, grown: Grown) -> None:
        slot = self._lanes.get(grown.lane_id)
        if slot is not None and slot.phase is Phase.STOPPED:
            slot.state, slot.phase = LaneState.ACTIVE, Phase.IDLE
        super()._grown(now, grown)


class FeedSetsTheHead(Engine):
    """A lane that is not in memory starts at what was published just now."""

    def _grown(self, now: Instant, grown: Grown) -> None:
        epoch = self._epochs.get(grown.pid)
        if epoch is not None and grown.lane_id not in self._lanes and grown.event is not None:
            row = LaneRow(grown.lane_id, grown.pid, grown.endpoint_id, grown.key, head=grown.seq, tail=grown.seq)
            self._lanes[grown.lane_id] = Slot(row, epoch, unsure=False)
        super()._grown(now, grown)


class StaleHeadOnReload(Engine):
    """What a reload says is believed, also when it was read before our own last commit."""

    @staticmethod
    def _is_older(row: LaneRow, slot: Slot) -> bool:
        return False


class TimeoutCountedAsDelivered(Engine):
    """No news is good news."""

    def _settled(self, now: Instant, settled: Settled) -> None:
        if isinstance(settled.result, NoAnswer):
            settled = Settled(settled.send, _OK, settled.roll)
        super()._settled(now, settled)


class ClientErrorCountedAsDelivered(Engine):
    """A 4xx is the receiver's own fault, so the event is done with."""

    def _settled(self, now: Instant, settled: Settled) -> None:
        if isinstance(settled.result, Answer) and 400 <= settled.result.status < 500:
            settled = Settled(settled.send, _OK, settled.roll)
        super()._settled(now, settled)


class EveryDeathIsSkipped(Engine):
    """Dead letters are skipped whatever the endpoint's policy says."""

    def _settle(self, slot: Slot, settlement: Settlement) -> None:
        if isinstance(settlement.outcome, Dead):
            settlement = replace(settlement, outcome=replace(settlement.outcome, skip=True))
        super()._settle(slot, settlement)


class AttemptsNeverEnd(Engine):
    """The last attempt is not the last."""

    def _settle(self, slot: Slot, settlement: Settlement) -> None:
        if isinstance(settlement.outcome, Dead) and not settlement.outcome.gap:
            later = Instant(settlement.at + settlement.send.endpoint.backoff_cap_ms)
            settlement = replace(settlement, outcome=Retry(later, "again"))
        super()._settle(slot, settlement)


class EveryoneIsBlamed(Engine):
    """After a death every head is announced at once, and each of them counts it when their worker dies again."""

    def __init__(self, *, in_flight_max: int, lanes_max: int) -> None:
        super().__init__(in_flight_max=in_flight_max, lanes_max=lanes_max)
        self._suspects = _AllAlone()


class _AllAlone(Suspects):
    def may_go(self, slot: Slot, now: Instant) -> bool:
        return True

    def take(self, slot: Slot, now: Instant) -> None:
        slot.kept = Rank.ALONE
        self._in_hand[Rank.ALONE] += 1
