"""What the store answers to the worker that owns, or wants to own, partitions: leases, loads, news and commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.health import Health
from hooklane.model.lane import Grown, LaneId, LaneRow
from hooklane.model.session import Session


class Span(Protocol):
    """A piece of the store's log that one commit wrote."""

    def past(self, mark: Any) -> Any:
        """*mark*, moved behind this piece; None where something of others stands between, which a poll must read."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker may own partitions until *until*, by the store's clock, which showed *now*."""

    now: Instant
    until: Instant


@dataclass(frozen=True, slots=True)
class Taken:
    """A partition changed hands; *unclean* when its last owner did not let go."""

    pid: int
    epoch: int
    unclean: bool


@dataclass(frozen=True, slots=True)
class Roster:
    """The workers: partitions by live worker, and how many belong to none."""

    owned: Mapping[str, int]
    free: int
    now: Instant


ALWAYS = Session("", "", None, 0)
"""The session of a store that has but one, from its first day to its last."""


@dataclass(frozen=True, slots=True)
class Load:
    """What an owner starts from: the lanes with work by partition, and a mark from which to poll."""

    lanes: Mapping[int, Sequence[LaneRow]]
    endpoints: Sequence[Endpoint]
    mark: Any
    now: Instant
    health: Sequence[Health] = ()
    session: Session = ALWAYS
    """On which the mark was read."""


@dataclass(frozen=True, slots=True)
class News:
    """What happened since a mark: lanes that grew or were recovered by a person, endpoints and breakers that turned."""

    grown: Sequence[Grown]
    recovered: Sequence[LaneId]
    endpoints: Sequence[Endpoint]
    mark: Any
    now: Instant
    health: Sequence[Health] = ()
    session: Session = ALWAYS
    """Which told them, and read the new mark. Whether the old mark holds there, and so the news, the worker says
    (`core.worker.news`)."""
    mark_lives: bool = False
    """Whether the session that read the old mark still lives."""


@dataclass(frozen=True, slots=True)
class CommitReport:
    """All writes are durable but those of *fenced* partitions (not ours any more) and *stale* lanes (recovered)."""

    now: Instant
    fenced: frozenset[int] = frozenset()
    stale: frozenset[LaneId] = frozenset()
