"""A plan is a frozen set of deliveries and what is to be done with them; when it is run it becomes a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.model.clock import START, Instant
from hooklane.model.lane import DeliveryState, LaneId


class Op(StrEnum):
    REPLAY = "replay"
    SKIP = "skip"


class Progress(StrEnum):
    """How far one member of a job has come."""

    PLANNED = "planned"
    RELEASED = "released"  # on its way; its outcome is not known yet
    DELIVERED = "delivered"
    PUBLISHED = "published"  # a skipped event stands at the tail again, as a new event
    SKIPPED = "skipped"
    FAILED = "failed"  # it failed anew; its key stops here
    HELD = "held"  # an earlier event of its key failed anew
    REFUSED = "refused"  # it was not any more what the plan had seen
    CANCELLED = "cancelled"  # the job was stopped, or the endpoint deleted


OPEN = (Progress.PLANNED, Progress.RELEASED)


class JobState(StrEnum):
    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One delivery of a plan, as it stood when the plan was made."""

    event_id: str
    type: str
    endpoint_id: str
    lane_id: LaneId
    pid: int
    key: str | None
    """The lane's key; the event's own where the delivery is loose."""
    seq: int | None
    place: int
    """Its turn among those of its key: the seq, or the number of a loose delivery."""
    state: DeliveryState
    version: str = ""
    """What must still be so when the plan is run, in the store's own words."""
    dead_letter_id: str | None = None
    reason: str | None = None
    waiting: int = 0

    @property
    def name(self) -> str:
        """What people call it by: the dead letter where there is one, else the event."""
        return self.dead_letter_id or self.event_id

    @property
    def line(self) -> str:
        """Members of one line keep their order: those of one key at one endpoint."""
        return f"{self.endpoint_id}\n{self.event_id if self.key is None else '=' + self.key}"


@dataclass(frozen=True, slots=True)
class PlacedEvent:
    """An event at its place in a lane, with the beginning of its data."""

    lane_id: LaneId
    seq: int
    event_id: str
    type: str
    data_excerpt: str


@dataclass(frozen=True, slots=True)
class JobMember:
    """A member with its number in the plan and how far it has come; *result* says more (a reason, a new event)."""

    n: int
    member: Member
    progress: Progress = Progress.PLANNED
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan, and once it was run what became of it."""

    id: str
    tenant: str
    op: Op
    created_at: Instant
    expires_at: Instant
    digest: str
    members: int
    keys: int
    state: JobState = JobState.PLANNED
    job_id: str | None = None
    asked: Mapping[str, str] = field(default_factory=dict)
    """The filter, in the words of the person who asked."""
    refused: tuple[tuple[str, str], ...] = ()
    """What was asked for and cannot be done, each with the reason (the first thousand)."""
    refused_count: int = 0
    actor: str = ""
    note: str = ""
    rate: float | None = None
    """Releases a second."""
    started_at: Instant | None = None
    starts_at: Instant | None = None
    """Nothing is released before: until then a person can stop it and nothing has happened."""
    stop_at_first_failure: bool = False
    """Whether a member that fails anew ends the whole job; its key stops in any case."""
    ended_at: Instant | None = None
    runner: str = ""
    runner_until: Instant = START
    """A runner that has not said anything until then is taken for dead, and another goes on."""
    counts: Mapping[Progress, int] = field(default_factory=dict)
