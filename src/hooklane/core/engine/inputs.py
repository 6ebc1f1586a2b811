"""What the engine is told: each a fact that the shell saw, never a wish."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hooklane.model.attempt import Send, Write
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.exchange import Result
from hooklane.model.health import Health
from hooklane.model.lane import Grown, LaneId, LaneRow


@dataclass(frozen=True, slots=True)
class Loaded:
    """A partition is ours under *epoch*; these are its lanes with work."""

    pid: int
    epoch: int
    lanes: Sequence[LaneRow]
    unclean: bool = False
    """Its last owner did not let go: it may have died of one of these heads."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """These partitions are not ours any more; whatever we knew of their lanes is void."""

    pids: frozenset[int]


@dataclass(frozen=True, slots=True)
class StartedAnew:
    """The store may not be the one that we knew (a failover, a backup): what it said of breakers is void."""


@dataclass(frozen=True, slots=True)
class EndpointChanged:
    """An endpoint was created or changed; the new rules hold from the next attempt."""

    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class EndpointsGone:
    """The store does not know these endpoints any more: they were deleted, and nothing is owed to them."""

    ids: Collection[str]


@dataclass(frozen=True, slots=True)
class HealthSeen:
    """Breakers as the store knows them now; *asked* are the endpoints for which this answers what we asked."""

    found: Sequence[Health]
    worker: str = ""
    """The name under which we asked."""
    asked: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LeaseSet:
    """We may send until *until*; *share* is our part of the whole work, for limits that all workers share."""

    until: Instant
    share: float = 1.0


@dataclass(slots=True)
class Settled:
    """An attempt ended; *roll* in [0, 1) is the chance for its jitter."""

    send: Send
    result: Result
    roll: float


@dataclass(frozen=True, slots=True)
class Fetched:
    """The events of lanes that were asked for, from the wanted seq on without a gap."""

    items: Sequence[tuple[LaneId, int, Event]]
    asked: Sequence[LaneId]


@dataclass(frozen=True, slots=True)
class Reloaded:
    """Lanes as the store knows them now; those that were asked for and are not in *rows* have no work."""

    rows: Sequence[LaneRow]
    asked: Sequence[LaneId] = ()
    epochs: Mapping[int, int] | None = None
    """What was ours when it was asked for: rows of a partition that has changed hands since are void."""


@dataclass(frozen=True, slots=True)
class Swept:
    """All lanes with work of a partition, as the store knew them before the last news that we were told."""

    pid: int
    epoch: int
    rows: Sequence[LaneRow]


@dataclass(frozen=True, slots=True)
class Committed:
    """These writes are durable, but for those of *fenced* partitions and of *stale* lanes."""

    writes: Sequence[Write]
    fenced: frozenset[int] = frozenset()
    stale: frozenset[LaneId] = frozenset()
    epochs: Mapping[int, int] | None = None
    """What was ours when it was written: of a partition that has changed hands since, it says nothing any more."""


@dataclass(frozen=True, slots=True)
class Jumped:
    """The store's clock was set, by *by* milliseconds: every time that the engine knows means as much later."""

    by: int


@dataclass(frozen=True, slots=True)
class Draining:
    """Send nothing more; what is in flight may end."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """These partitions, and no others, will be given back: start nothing more in them."""

    pids: frozenset[int]


Input = (
    Loaded
    | Dropped
    | StartedAnew
    | EndpointChanged
    | EndpointsGone
    | HealthSeen
    | LeaseSet
    | Grown
    | Settled
    | Fetched
    | Reloaded
    | Swept
    | Committed
    | Draining
    | Leaving
    | Jumped
)
