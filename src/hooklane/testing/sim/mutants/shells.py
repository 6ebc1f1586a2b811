"""Workers and networks with a planted bug."""

from __future__ import annotations

from hooklane.core.engine import Committed
from hooklane.model.attempt import Send, Write
from hooklane.store.outbox import CommitReport, Roster
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.worker import Worker


class UnknownCommitCountedAsOk(Worker):
    """A commit whose reply was lost will have gone through."""

    def _commit_again(self, name: str, epochs: dict[int, int], writes: list[Write]) -> None:
        self._committed(epochs, writes, CommitReport(self.now()))


class FailedCommitCountedAsNo(Worker):
    """A commit whose reply was lost did not happen, so the event is sent again."""

    def _commit_again(self, name: str, epochs: dict[int, int], writes: list[Write]) -> None:
        self._committing = False
        self.put(Committed(writes, stale=frozenset(write.lane_id for write in writes)))
        self._pump_commits()


class HandoverInFlight(Worker):
    """Partitions are given back while something of theirs is in flight."""

    def busy(self, pids: frozenset[int]) -> frozenset[int]:
        return frozenset()


class ReadsOverlap(Worker):
    """A poll that is under way while partitions are loaded moves the mark past their news."""

    def may_read(self) -> bool:
        return True


class LostAcquireIsForgotten(Worker):
    """An acquire whose reply was lost leaves partitions that nobody works on."""

    def _balanced(self, name: str, roster: Roster) -> None:
        super()._balanced(name, Roster({**roster.owned, name: len(self.epochs)}, roster.free, roster.now))


class BodyChangesWithTheAttempt(Network):
    """Two copies of an event are not the same bytes."""

    def body(self, send: Send, seq: int | None) -> bytes:
        return super().body(send, seq) + b" " * send.attempt
