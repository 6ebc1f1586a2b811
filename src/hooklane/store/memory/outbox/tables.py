"""What the outbox holds: the tables of the SQL stores as Python objects, with the same split between writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from hooklane.model.attempt import Settlement
from hooklane.model.audit import Act
from hooklane.model.clock import START, Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import DEFAULT_TENANT, Event
from hooklane.model.health import Health
from hooklane.model.lane import PARTITIONS, LaneId, LaneRow, LaneState
from hooklane.model.tenant import Tenant
from hooklane.store.outbox import Published, StoreOptions


@dataclass(slots=True)
class Part:
    """A partition: who owns it, and how often it has changed hands."""

    owner: str | None = None
    epoch: int = 0


@dataclass(slots=True)
class Lane:
    """A lane of an endpoint, or a loose delivery (negative id), which is a lane of one event.

    *head*, *state*, *attempts* and *next_at* may lag behind the ack table, which is why only `row_of` reads them
    to learn where the lane stands.
    """

    id: LaneId
    pid: int
    tenant: str
    endpoint_id: str
    key: str | None
    events: list[Event] = field(default_factory=list)
    head: int = 1
    state: LaneState = LaneState.IDLE
    attempts: int = 0
    starts: int = 0
    """Attempts at the head that were announced and have not come to anything."""
    next_at: Instant = START
    rev: int = 0
    reason: str | None = None
    since: Instant | None = None
    skipped: dict[int, str] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)

    @property
    def tail(self) -> int:
        return len(self.events)


class Ending(Enum):
    """What became of a dead letter."""

    DEAD = auto()
    REPLAYED = auto()
    SKIPPED = auto()
    CANCELLED = auto()


@dataclass(slots=True)
class DeadRow:
    """A dead letter, kept after it was recovered so that its note and story stay."""

    id: str
    lane_id: LaneId
    seq: int
    attempts: int
    reason: str
    died_at: Instant
    note: str = ""
    ending: Ending = Ending.DEAD


@dataclass(slots=True)
class Tables:
    """Everything that a SQL store would keep on disk."""

    options: StoreOptions
    clock: Callable[[], Instant]
    tenants: dict[str, Tenant] = field(
        default_factory=lambda: {DEFAULT_TENANT: Tenant(id=DEFAULT_TENANT, created_at=START)}
    )
    tenant_changes: list[str] = field(default_factory=lambda: [DEFAULT_TENANT])
    """Tenants in the order in which they were changed: a position in it is a revision."""
    servers: dict[str, Instant] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    events: dict[tuple[str, str], Event] = field(default_factory=dict)
    lanes: dict[LaneId, Lane] = field(default_factory=dict)
    lane_ids: dict[tuple[str, str], LaneId] = field(default_factory=dict)
    """Ordered lanes by (endpoint, key)."""
    places: dict[tuple[str, str], list[tuple[LaneId, int]]] = field(default_factory=dict)
    """Where each event stands: (lane, seq) by (tenant, event)."""
    acks: dict[LaneId, int] = field(default_factory=dict)
    """Appended by owners, the new head by lane; folded into the lanes every now and then."""
    names: dict[tuple[str, str], tuple[bytes, Published]] = field(default_factory=dict)
    """What may not be published twice, by (tenant, name)."""
    parts: list[Part] = field(default_factory=lambda: [Part() for _ in range(PARTITIONS)])
    by_pid: list[dict[LaneId, None]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    workers: dict[str, Instant] = field(default_factory=dict)
    dead_letters: dict[str, DeadRow] = field(default_factory=dict)
    attempts: dict[tuple[str, str], list[Settlement]] = field(default_factory=dict)
    """The log, by (tenant, event)."""
    growth: list[tuple[LaneId, int]] = field(default_factory=list)
    """Every stamp in commit order: a position in it is a poll's mark."""
    recoveries: list[LaneId] = field(default_factory=list)
    health: dict[str, Health] = field(default_factory=dict)
    turns: list[str] = field(default_factory=list)
    """Endpoints in the order in which their breakers turned."""
    changes: list[str] = field(default_factory=list)
    """Endpoints in the order in which they were changed."""
    told_lost: list[Act] = field(default_factory=list)
    """What an audit log would say of events that are lost."""

    def add_lane(self, lane: Lane) -> Lane:
        self.lanes[lane.id] = lane
        self.by_pid[lane.pid][lane.id] = None
        return lane

    def remove_lane(self, lane: Lane) -> None:
        del self.lanes[lane.id], self.by_pid[lane.pid][lane.id]
        if lane.key is not None:
            del self.lane_ids[lane.endpoint_id, lane.key]

    def head_of(self, lane: Lane) -> int:
        """The larger of both tables: an ack that is not folded yet counts."""
        return max(lane.head, self.acks.get(lane.id, 0))

    def row_of(self, lane: Lane) -> LaneRow:
        """The lane as its owner is told of it."""
        return row_of(lane, self.acks.get(lane.id, 0))

    def owed(self, pids: Iterable[int]) -> Iterator[Lane]:
        """The lanes with work of some partitions."""
        for pid in pids:
            for lane_id in self.by_pid[pid]:
                lane = self.lanes[lane_id]
                if self.head_of(lane) <= lane.tail:
                    yield lane


def row_of(lane: Lane, acked_head: int) -> LaneRow:
    """A lane with what the ack table says of it: state and attempts belong to the row's own head."""
    head = lane.head
    state, attempts, next_at, starts = lane.state, lane.attempts, lane.next_at, lane.starts
    if acked_head > head:
        head, state, attempts, next_at, starts = acked_head, LaneState.ACTIVE, 0, START, 0
    if head > lane.tail:
        state = LaneState.IDLE
    elif state is LaneState.IDLE:
        state = LaneState.ACTIVE
    return LaneRow(
        lane.id,
        lane.pid,
        lane.endpoint_id,
        lane.key,
        head,
        lane.tail,
        state,
        attempts,
        next_at,
        lane.rev,
        acked_before(lane, head),
        starts,
    )


def acked_before(lane: Lane, seq: int) -> int:
    """The largest seq below *seq* that was really delivered; 0 when there is none."""
    seq -= 1
    while seq in lane.skipped or seq in lane.cancelled:
        seq -= 1
    return seq
