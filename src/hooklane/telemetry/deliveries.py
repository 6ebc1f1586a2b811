"""What the sender tells its listener: batches of what has happened, never what will."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hooklane.model.attempt import Send, Settlement
from hooklane.model.endpoint import Endpoint
from hooklane.model.health import Health
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


@dataclass(frozen=True, slots=True)
class Missed:
    """A sweep has found what no poll had told: *many* lanes or endpoints. They go on, but this should not be."""

    many: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The database has lost *many* deliveries that were sent or published: they are on record, and lanes jumped."""

    many: int


@dataclass(frozen=True, slots=True)
class Turned:
    """Breakers have turned, and this worker was the first to write it."""

    turns: Sequence[tuple[Endpoint, Health]]


Happening = Queued | Sent | Recorded | Fenced | Missed | Lost | Turned
Listener = Callable[[Happening], None]
