"""Which deliveries go out now? A few at a time, none once the lease is over, and none of a partition that was lost."""

from __future__ import annotations

from hooklane.core.engine import Settled
from hooklane.core.worker.state import WorkerState
from hooklane.core.worker.witness import Witness
from hooklane.model.attempt import Send
from hooklane.model.clock import Instant
from hooklane.model.exchange import Failure, NoAnswer, Timings

SENDS_AT_ONCE = 8


class Sending:
    """Deliveries that the engine has started, and that are not on the wire yet."""

    def __init__(self, state: WorkerState, witness: Witness) -> None:
        self._state = state
        self._witness = witness
        self._line: list[Send] = []
        self.has_more = False
        """The shell will ask for the next few."""

    def add(self, sends: list[Send]) -> None:
        self._line.extend(sends)

    def go_on(self, boot: Instant) -> list[Send]:
        """What goes out in this turn; nothing where the shell will ask anyhow."""
        return [] if self.has_more else self.next(boot)

    def next(self, boot: Instant) -> list[Send]:
        """Send these, and ask for others after a look at what has come in.

        A publisher is kept waiting for less, and the store writes while the rest goes out: in one piece, the loop
        would send while the store has nothing to do, and then wait for the store with nothing to send.
        """
        self.has_more = False
        if self.is_held_back(boot):
            return []
        some, self._line = self._line[:SENDS_AT_ONCE], self._line[SENDS_AT_ONCE:]
        self.has_more = bool(self._line)
        self._witness.sent(some)
        return some

    def is_held_back(self, boot: Instant) -> bool:
        """After a stall, others may own these lanes by now: the next lease goes on with them, or a loss ends them."""
        return self._state.now(boot) >= self._state.lease_until

    def drop(self, pids: frozenset[int]) -> None:
        """These partitions are lost. What was to be sent there never was, and its place is free again."""
        void = [send for send in self._line if send.pid in pids]
        self._line = [send for send in self._line if send.pid not in pids]
        never = NoAnswer(Failure.ABORTED, Timings(0.0), "the partition was lost before it was sent")
        self._state.inputs.extend(Settled(send, never, 0.0) for send in void)
