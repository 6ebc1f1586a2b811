"""What waits for a commit, what may wait for the commit of others, and what if a commit's fate is unknown?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hooklane.core.engine import Committed
from hooklane.core.worker.effects import Call
from hooklane.core.worker.state import WorkerState
from hooklane.model.attempt import Retry, Settlement, Write
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.owning import CommitReport

COMMIT_MAX = 2_000
FEW = 8
"""So many that may wait need not, and no more of them join a commit: to what cannot wait, each of them is a delay."""
LINGER_MS = 100
"""So long they gather at most: a commit with some of them takes longer, and acks and publishes wait for it."""
PATIENT_MS = 250
"""A head that is tried again no sooner than this does not mind when the outcome is made durable a moment later."""
AGAIN_MS, AGAIN_MS_MAX = 50, 2_000


def can_wait(write: Write) -> bool:
    """Whether nothing follows from *write* for a while: what is tried again waits for its time first."""
    if not isinstance(write, Settlement) or not isinstance(write.outcome, Retry):
        return False
    return write.outcome.at - write.at >= PATIENT_MS


class Writing:
    """A line of outcomes and one commit of them under way at a time; what gathers meanwhile makes the next."""

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._line: list[Write] = []
        self._patient: list[Write] = []
        self._linger_until: Instant = FOREVER
        self._call: Call | None = None
        self._again_at: Instant = FOREVER

    def add(self, writes: Iterable[Write]) -> None:
        for write in writes:
            (self._patient if can_wait(write) else self._line).append(write)

    def drop(self, pids: frozenset[int]) -> None:
        """What was decided under an epoch that is over is not written under a later one."""
        self._line = [write for write in self._line if write.pid not in pids]
        self._patient = [write for write in self._patient if write.pid not in pids]

    @property
    def is_idle(self) -> bool:
        return self._call is None and not self._line and not self._patient

    def wake_at(self) -> Instant:
        return self._linger_until if self._call is None else self._again_at

    def go_on(self, boot: Instant, *, at_once: bool = False) -> None:
        """Begin the next commit, or the last one once more, if it is time; *at_once*, also of what can wait."""
        call = self._call
        if call is not None:
            if self._again_at == FOREVER:
                return  # it is under way
            if call.worker == self._state.name:
                if boot >= self._again_at:
                    _, epochs, writes = call.args
                    self._commit(boot, writes, epochs, call.tries + 1)
                return
            self._call = None  # the lease is lost: the worker that owns the lanes now will settle them
        few = self._few(boot, at_once) if self._patient else 0
        if self._line or few:
            self._commit(boot, self._take(few), dict(self._state.epochs), 0)

    def _few(self, boot: Instant, at_once: bool) -> int:
        """How many of those that can wait join the commit that begins now."""
        many = len(self._patient)
        if not at_once and many < FEW and boot < self._linger_until:
            if self._linger_until == FOREVER:
                self._linger_until = Instant(boot + LINGER_MS)
            return 0
        self._linger_until = FOREVER
        # A part of them where they are many: their line must not grow for ever because each commit has its price.
        return min(COMMIT_MAX, many if at_once else max(FEW, many // 16))

    def _take(self, few: int) -> list[Write]:
        """What cannot wait, and a *few* that can."""
        patient, self._patient = self._patient[:few], self._patient[few:]
        room = COMMIT_MAX - len(patient)
        urgent, self._line = self._line[:room], self._line[room:]
        return urgent + patient

    def _commit(self, boot: Instant, writes: Sequence[Write], epochs: dict[int, int], tries: int) -> None:
        self._call = self._state.ask("commit", boot, (self._state.name, epochs, writes), epochs, tries)
        self._again_at = FOREVER

    def failed(self, call: Call, boot: Instant, roll: float) -> None:
        """A failed commit is unknown, not "no": the same one is repeated until it is known."""
        wait_ms = min(AGAIN_MS << min(call.tries, 20), AGAIN_MS_MAX)
        self._again_at = Instant(boot + int(wait_ms * (0.5 + roll)))

    def answered(self, call: Call, report: CommitReport) -> bool:
        """Whether the writes of *call* are known; what is told of a name that we gave up is not ours to act on."""
        self._call = None
        if call.worker != self._state.name:
            return False
        for pid in report.fenced:
            # Not ours any more; unless it is again, under a newer epoch than that of the commit.
            if self._state.epochs.get(pid) == call.epochs.get(pid):
                self._state.epochs.pop(pid, None)
        self._state.inputs.append(Committed(call.args[2], report.fenced, report.stale, call.epochs))
        return True
