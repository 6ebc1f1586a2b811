"""Stores with a planted bug."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hooklane.model.attempt import Delivered, Settlement, Write
from hooklane.model.clock import START
from hooklane.model.lane import LaneId, LaneRow
from hooklane.store.memory.outbox import owning, settling
from hooklane.store.memory.outbox.tables import row_of
from hooklane.store.outbox import CommitReport, Draft, Load, PublishReport, Taken
from hooklane.testing.sim.store import SimStore


class NoFence(SimStore):
    """Every writer is believed."""

    def write(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        for write in writes:
            part = self.tables.parts[write.pid]
            settling.commit(self.tables, part.owner or "", {write.pid: part.epoch}, [write])
        return CommitReport(self.clock())


class ZombieAcksAccepted(SimStore):
    """A success is a success, also from a worker that has lost the lane."""

    def write(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        for write in writes:
            if isinstance(write, Settlement) and isinstance(write.outcome, Delivered):
                settling.settle(self.tables, self.tables.lanes[write.send.lane_id], write)
        return super().write(worker, epochs, writes)


class RevIgnored(SimStore):
    """A late repeat of a write may undo what a person did meanwhile."""

    def write(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        for write in writes:
            lane = self.tables.lanes[write.lane_id]
            mine = owning.is_owner(self.tables.parts[write.pid], worker, epochs.get(write.pid))
            if mine and isinstance(write, Settlement) and lane.rev != write.send.rev and lane.head == write.send.seq:
                lane.rev, lane.attempts = write.send.rev, write.send.attempt - 1
        return super().write(worker, epochs, writes)


class EpochNotBumped(SimStore):
    """A partition changes hands and nothing shows it."""

    def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        now = self.clock()
        for part in self.tables.parts:
            if part.owner is not None and not owning.is_alive(self.tables, part.owner, now):
                part.epoch -= 1
        return super().acquire(worker, most)


class LanesReadBeforeAcks(SimStore):
    """A fold between the two reads hides an ack from both."""

    def load_steps(self, worker: str, epochs: Mapping[int, int]) -> list[Callable[[Any], Any]]:
        def first(_: Any) -> Load:
            return self.read_lanes(worker, epochs, self.mark(), {})

        def second(load: Load) -> Load:
            merged = {pid: [self._merged(row) for row in rows] for pid, rows in load.lanes.items()}
            lanes = {pid: [row for row in rows if row.head <= row.tail] for pid, rows in merged.items()}
            return replace(load, lanes=lanes)

        return [first, second]

    def _merged(self, row: LaneRow) -> LaneRow:
        head = self.tables.acks.get(row.id, 0)
        return row if head <= row.head else row_of(self.tables.lanes[row.id], head)


class LoadBeforeAcquire(SimStore):
    """The lanes are read while their old owner may still write."""

    def __init__(self, *parts: Any) -> None:
        self._seen: dict[str, dict[LaneId, LaneRow]] = {}
        super().__init__(*parts)

    def steps(self, verb: str, args: tuple[Any, ...]) -> list[Callable[[Any], Any]]:
        """Many rows take their time, and only when all are read the partitions are acquired."""
        steps = super().steps(verb, args)
        return [partial(self._see, args[0]), *[_meanwhile] * 6, *steps] if verb == "acquire" else steps

    def _see(self, worker: str, _: Any) -> None:
        self._seen[worker] = {lane.id: self.tables.row_of(lane) for lane in self.tables.lanes.values()}

    def read_lanes(self, *asked: Any) -> Load:
        load, seen = super().read_lanes(*asked), self._seen[asked[0]]
        lanes = {pid: [seen.get(row.id, row) for row in rows] for pid, rows in load.lanes.items()}
        return replace(load, lanes=lanes)


class MarkAfterLoad(SimStore):
    """What is published between the load and its mark is never found."""

    def load_steps(self, worker: str, epochs: Mapping[int, int]) -> list[Callable[[Any], Any]]:
        def first(_: Any) -> Load:
            return self.read_lanes(worker, epochs, self.mark(), self.tables.acks)

        def last(load: Load) -> Load:
            return replace(load, mark=self.mark())

        return [first, *[_meanwhile] * 6, last]


def _meanwhile(found: Any) -> Any:
    """Others get their turn while many rows are read."""
    return found


class AttemptsResetOnTakeover(SimStore):
    """A new owner starts to count anew."""

    def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        taken = super().acquire(worker, most)
        for one in taken:
            for lane in self.tables.owed([one.pid]):
                lane.attempts = 0
        return taken


class NextAtLostOnTakeover(SimStore):
    """A new owner does not wait for the time that the old one had set."""

    def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        taken = super().acquire(worker, most)
        for one in taken:
            for lane in self.tables.owed([one.pid]):
                lane.next_at = START
        return taken


class FoldLowersTheHead(SimStore):
    """An old ack overwrites what a person did after it."""

    def fold(self) -> None:
        for lane_id, head in self.tables.acks.items():
            lane = self.tables.lanes[lane_id]
            if lane.head > head:
                settling.move_head(lane, head)
        super().fold()


class ReplayOfTheWrongSeq(SimStore):
    """A replay revives the event after the dead one."""

    def replay(self, dead_letter_id: str) -> None:
        dead_row = self.tables.dead_letters[dead_letter_id]
        lane = self.tables.lanes[dead_row.lane_id]
        if lane.tail > dead_row.seq:
            lane.head += 1
        super().replay(dead_letter_id)


class SkipWithoutRecord(SimStore):
    """A skip moves the head and leaves no trace."""

    def skip(self, dead_letter_id: str) -> None:
        lane = self.tables.lanes[self.tables.dead_letters[dead_letter_id].lane_id]
        lane.skipped = _Forgetful()
        super().skip(dead_letter_id)


class RepeatedPublishStampsTwice(SimStore):
    """A publish whose reply was lost is published again."""

    def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        return super().publish([replace(draft, names=()) for draft in drafts])


class _Forgetful(dict[int, str]):
    def __setitem__(self, seq: int, note: str) -> None:
        pass
