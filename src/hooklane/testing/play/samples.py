"""Three receivers as they are often written, in real code; each `await` is where another request may get its turn.

The defects are those of well-known samples (check, then mark; a guard on the time of delivery). They are meant to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from hooklane.model.clock import Instant
from hooklane.model.message import Request


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of an event as it reaches the consumer."""

    number: int
    event_id: str
    key: str
    seq: int
    attempt: int
    delivered_at: Instant
    """When this attempt was sent: a new time for every attempt."""
    is_poison: bool
    request: Request
    """The same, signed, as bytes."""


class Poisoned(Exception):
    """The application cannot finish its work on this event."""


class Io:
    """Awaiting it takes *ms* milliseconds of simulated time, as a call of a database does."""

    def __init__(self, ms: float) -> None:
        self.ms = ms

    def __await__(self) -> Generator[Io, None, None]:
        yield self


READ_MS = 2.0
WRITE_MS = 3.0


class Application:
    """What a receiver's handler works on: it writes, and fails on poison when that is written already."""

    def __init__(self, applied: Callable[[Copy], None]) -> None:
        self._applied = applied

    async def apply(self, copy: Copy) -> None:
        """The application's own work: no transaction, so what is written stays."""
        await Io(WRITE_MS)
        self._applied(copy)
        if copy.is_poison:
            raise Poisoned(copy.event_id)


class Naive:
    """Applies what arrives."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def receive(self, copy: Copy) -> str:
        await self._app.apply(copy)
        return "applied"


class CheckThenMark:
    """`EXISTS`, then the work, then `SETEX`: two steps, no transaction."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._processed: set[str] = set()

    async def receive(self, copy: Copy) -> str:
        await Io(READ_MS)
        if copy.event_id in self._processed:
            return "duplicate"
        await self._app.apply(copy)
        await Io(WRITE_MS)
        self._processed.add(copy.event_id)
        return "applied"


class DeliveredAtGuard:
    """Applies what was delivered later than what it has. The time of delivery is the attempt's, not the event's."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._updated_at: dict[str, Instant] = {}

    async def receive(self, copy: Copy) -> str:
        await Io(READ_MS)
        current = self._updated_at.get(copy.key)
        if current is not None and current > copy.delivered_at:
            return "stale"
        await self._app.apply(copy)
        self._updated_at[copy.key] = copy.delivered_at
        return "applied"
