"""Workers and networks with a planted bug."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from hooklane.core.engine import Committed, Leaving
from hooklane.core.worker.effects import Call
from hooklane.core.worker.news import News
from hooklane.core.worker.ownership import Ownership
from hooklane.core.worker.sweeping import Sweeping
from hooklane.core.worker.witness import Witness
from hooklane.core.worker.writing import Writing
from hooklane.model.clock import Instant
from hooklane.model.lane import LaneId
from hooklane.model.owning import CommitReport, Roster
from hooklane.model.owning import News as Told


class UnknownCommitCountedAsOk(Writing):
    """A commit whose reply was lost will have gone through."""

    def failed(self, call: Call, boot: Instant, roll: float) -> None:
        self.answered(call, CommitReport(boot))


class FailedCommitCountedAsNo(Writing):
    """A commit whose reply was lost did not happen, so the event is sent again."""

    def failed(self, call: Call, boot: Instant, roll: float) -> None:
        self._call = None
        writes = call.args[2]
        self._state.inputs.append(Committed(writes, stale=frozenset(write.lane_id for write in writes)))


class HandoverInFlight(Ownership):
    """Partitions are given back while something of theirs is in flight."""

    def busy(self, pids: frozenset[int]) -> frozenset[int]:
        return frozenset()


class NeverSweeps(Sweeping):
    """What a poll has missed once is never looked for."""

    def polled(self, boot: Instant, asked: Collection[LaneId]) -> None:
        pass


class ReadsOverlap(News):
    """A poll that is under way while partitions are loaded moves the mark past their news."""

    def may_load(self) -> bool:
        return True

    def may_poll(self) -> bool:
        return True


class MarkOutlivesItsSession(News):
    """A mark is kept when the store comes back from a crash, and is ahead of all that is new."""

    def holds(self, told: Told) -> bool:
        return True


class LostAcquireIsForgotten(Ownership):
    """An acquire whose reply was lost leaves partitions that no worker works on."""

    def _counted(self, call: Call, roster: Roster, boot: Instant) -> None:
        owned = {**roster.owned, self._state.name: len(self._state.epochs)}
        super()._counted(call, replace(roster, owned=owned), boot)


# --- what the simulator did not see as long as it had a shell of its own ---


class LooksAreNeverBelieved(Sweeping):
    """A sweep reads everything, and nothing follows from it."""

    def _believe(self, asked: Collection[LaneId]) -> None:
        self._looks.clear()


class BusyIsParkedForEver(Ownership):
    """What was not given back after all does not go on."""

    def _let_go(self, boot: Instant) -> None:
        before = len(self._state.inputs)
        super()._let_go(boot)
        self._state.inputs[before:] = [one for one in self._state.inputs[before:] if not isinstance(one, Leaving)]


class WritesOutliveTheirEpoch(Writing):
    """What was decided under an epoch that is over is written under the next."""

    def drop(self, pids: frozenset[int]) -> None:
        pass


class DrainsWithoutItsCommits(Writing):
    """A worker that is stopped leaves before its outcomes are durable."""

    @property
    def is_idle(self) -> bool:
        return True


class SpansHideOthers(News):
    """A span moves the mark behind it, whatever stands before it."""

    def _pass(self) -> None:
        while self._spans:
            span: Any = self._spans.popleft()
            read = self.mark.read
            self.mark = self.mark._replace(read=read._replace(growth=max(read.growth, span.last)))


class RemembersNothing(Witness):
    """What was sent is forgotten."""

    def __bool__(self) -> bool:
        return False
