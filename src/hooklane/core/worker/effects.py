"""What a worker asks its shell for: calls to the store, deliveries to send, and things that people should hear of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hooklane.model.attempt import Send, Write
from hooklane.model.clock import FOREVER, Instant
from hooklane.model.lost import LostLane
from hooklane.model.owning import CommitReport


@dataclass(slots=True, eq=False)
class Call:
    """One call to the store: `verb(*args)`. Its answer, or its failure, is told to the worker with this very object."""

    verb: str
    args: tuple[Any, ...]
    worker: str
    """The name under which it is made: an answer to a name that was given up since says nothing any more."""
    asked_at: Instant
    epochs: Mapping[int, int] = field(default_factory=dict)
    """Where it matters: the partitions that were ours when it was made."""
    tries: int = 0
    """How often the same call has failed before."""


@dataclass(frozen=True, slots=True)
class MarkLost:
    """The database was down or is another one: the worker forgets these partitions and joins anew."""

    epochs: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The lease is over, or others have taken something of ours: the worker forgets everything and joins anew."""


@dataclass(frozen=True, slots=True)
class ClockSet:
    """The store's clock was set, by *by* milliseconds."""

    by: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A sweep has found *many* lanes or endpoints with news that no poll had told."""

    many: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The database does not hold what this process had sent or published: it is on record now, and lanes jumped."""

    lanes: Sequence[LostLane]


Note = MarkLost | LeaseLost | ClockSet | Missed | Lost


@dataclass(slots=True)
class Effects:
    """The effects of one turn of a worker."""

    calls: list[Call]
    sends: list[Send]
    notes: list[Note]
    recorded: list[tuple[Sequence[Write], CommitReport]]
    """Outcomes that a commit has made durable, but for those that its report names."""
    wake_at: Instant = FOREVER
    """When to take the next turn though nothing has happened, by the clock that never jumps."""
    has_more: bool = False
    """More is to be sent: ask for it with `next_sends` after a look at what has come in."""
    is_drained: bool = False
    """The worker was stopped, and nothing more is to be waited for: give everything back."""
