"""What every flow needs besides its message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hooklane.model.clock import Instant
from hooklane.model.inbox import Claimed, HandlingFailure
from hooklane.model.message import Status
from hooklane.store.inbox import Flow, InboxStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a flow needs besides its message: the store, the time, and chance."""

    store: InboxStore
    clock: Callable[[], Instant]
    roll: Callable[[], float]
    believed: Callable[[Instant], Instant] = lambda now: now
    """What time it is as far as that can be believed, where the clock says *now*: what is given up by age is dead."""

    def fail(
        self,
        claimed: Claimed,
        status: Status,
        due_at: Instant,
        *,
        attempts: int | None,
        error: str = "",
        traceback: str = "",
    ) -> Flow[bool]:
        """Let go of *claimed* as *status*, due again at *due_at*; *attempts*: the count from now on, None as it is."""
        failure = HandlingFailure(
            status=status, due_at=due_at, now=self.clock(), error=error, traceback=traceback, attempts=attempts
        )
        return self.store.fail(claimed.id, claimed.handler, claimed.fence, failure)
