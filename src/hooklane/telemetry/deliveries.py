"""What the sender tells those who listen: batches of what has happened, never what will."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hooklane.model.attempt import Send, Settlement
from hooklane.model.lane import Grown


@dataclass(frozen=True, slots=True)
class Queued:
    """Events took their places in lanes of this worker."""

    grown: Sequence[Grown]


@dataclass(frozen=True, slots=True)
class Sent:
    """Attempts have started."""

    sends: Sequence[Send]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Outcomes of attempts are durable."""

    settlements: Sequence[Settlement]


@dataclass(frozen=True, slots=True)
class Fenced:
    """Outcomes came too late: these partitions have another owner now."""

    pids: frozenset[int]


Happening = Queued | Sent | Recorded | Fenced
Listener = Callable[[Happening], None]
