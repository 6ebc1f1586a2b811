"""A lane in the memory of its owner."""

from __future__ import annotations

from enum import Enum, auto

from hooklane.model.attempt import Send
from hooklane.model.clock import START
from hooklane.model.event import Event
from hooklane.model.lane import Grown, LaneRow


class Phase(Enum):
    """Where a lane stands in its owner's hands; exactly one of these at any moment."""

    IDLE = auto()  # nothing is owed
    READY = auto()  # the head waits for its turn at the endpoint's queue
    WAITING = auto()  # the head waits for its time
    FETCHING = auto()  # the head's event is being read
    STARTING = auto()  # the start of the attempt is being made durable
    FLYING = auto()  # the head is being tried
    SETTLING = auto()  # the outcome is being made durable
    STOPPED = auto()  # the head is dead: a person must act
    PARKED = auto()  # its partition will be given back
    LOADING = auto()  # what the store knows is being read


class OwnedLane:
    """One lane: its head and tail, and where it stands. Mutable, and private to the engine."""

    __slots__ = (
        "acked",
        "again",
        "attempts",
        "bodies",
        "endpoint_id",
        "epoch",
        "flight",
        "head",
        "id",
        "kept",
        "key",
        "next_at",
        "phase",
        "pid",
        "rev",
        "starts",
        "state",
        "tail",
        "unsure",
    )

    def __init__(self, row: LaneRow, epoch: int, unsure: bool) -> None:
        self.id = row.id
        self.pid = row.pid
        self.epoch = epoch
        self.endpoint_id = row.endpoint_id
        self.key = row.key
        self.head = row.head
        self.tail = row.tail
        self.state = row.state
        self.attempts = row.attempts
        self.next_at = row.next_at
        self.rev = row.rev
        self.acked = row.acked
        self.phase = Phase.IDLE
        self.starts = row.starts
        """How many announcements of this head are on record."""
        self.unsure = unsure or row.starts > 0
        """The last owner may have died of this head: its next attempt is announced before it is made."""
        self.kept: int | None = None
        """The rank under which it is in hand, where it is doubted: others may have to wait for it."""
        self.again = False
        """A person recovered the lane while it was in our hands: look at it again when it is not."""
        self.bodies: dict[int, Event] | None = None
        self.flight: Send | None = None
        """The attempt that is in flight, or whose outcome is being made durable: no other says anything of this head.

        Not even one of the same place and epoch: a database that lost its last moments gives both out once more.
        """

    def has_work(self) -> bool:
        return self.head <= self.tail

    def renew(self, row: LaneRow) -> None:
        """Take over what the store knows; a tail that we know to be longer stays."""
        self.tail = max(self.tail, row.tail)
        same = (row.rev, row.head, row.starts) == (self.rev, self.head, self.starts)
        if same and self.starts and not self.unsure:
            return  # what we announced ourselves is on record, and is still to be made
        self.unsure = row.starts > 0 or (self.unsure and row.head == self.head)
        self.starts = row.starts
        self.head, self.state, self.attempts = row.head, row.state, row.attempts
        self.next_at, self.rev, self.acked = row.next_at, row.rev, row.acked

    def is_newer_than(self, row: LaneRow) -> bool:
        """Whether *row* was read before what we know became durable."""
        return (row.rev, row.head, row.attempts) < (self.rev, self.head, self.attempts)

    def advance(self, acked: int | None) -> None:
        """The head is done with: delivered when *acked*, else given up."""
        if acked is not None:
            self.acked = acked
        self.head += 1
        self.attempts = 0
        self.next_at = START
        self.clear()

    def clear(self) -> None:
        """An attempt at the head has come to something: no worker died of it."""
        self.unsure = False
        self.starts = 0

    @classmethod
    def newborn(cls, grown: Grown, epoch: int) -> OwnedLane:
        """A lane whose very first event this is: nothing of it can have been acked."""
        row = LaneRow(grown.lane_id, grown.pid, grown.endpoint_id, grown.key, head=1, tail=grown.seq)
        return cls(row, epoch, unsure=False)
