"""One try at one delivery, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field

from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.exchange import Result
from hooklane.model.lane import LaneId


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint has it; the lane moves on."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Not yet; the head keeps its place and the lane waits until *at*."""

    at: Instant
    reason: str


SEQ_GAP = "seq_gap"
"""The reason of a `Dead` with *gap*: one word, without the seqs, by which letters are searched and grouped."""


@dataclass(frozen=True, slots=True)
class Dead:
    """Not any more; the head becomes a dead letter and the lane stops.

    With *gap* the receiver says that it lacks earlier events: no attempt can help, a person must look.
    With *skip* the endpoint's policy gives the event up at once, and the lane moves on.
    """

    reason: str
    gap: bool = False
    skip: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """410: the receiver says that it is gone for good; the endpoint is disabled and everything it is owed is held."""

    reason: str


Outcome = Delivered | Retry | Dead | Gone
DELIVERED = Delivered()
OUTCOMES = ("delivered", "retry", "dead")
"""What people are told that an attempt came to."""


def outcome_word(outcome: Outcome) -> str:
    """The one of `OUTCOMES` that *outcome* is; what waits behind a 410 is tried again when somebody resumes it."""
    if isinstance(outcome, Delivered):
        return "delivered"
    return "dead" if isinstance(outcome, Dead) else "retry"


# The two below are made for every event, and a frozen dataclass takes three times as long to make:
# they are never changed all the same.


@dataclass(slots=True)
class Send:
    """The order to try one delivery once. *seq* is the head's place in its lane, 1 for a loose delivery."""

    lane_id: LaneId
    pid: int
    epoch: int
    rev: int
    key: str | None
    seq: int
    prev_seq: int
    attempt: int
    event: Event
    endpoint: Endpoint
    at: Instant

    @property
    def is_loose(self) -> bool:
        return self.lane_id < 0


@dataclass(slots=True)
class Settlement:
    """What one attempt came to: a fact to be made durable before anything follows from it."""

    send: Send
    outcome: Outcome
    at: Instant
    result: Result | None = field(repr=False)
    """None where the worker died during the attempt, so that no answer was seen."""
    request: bytes = field(default=b"", repr=False)
    """The head of the request without its secrets, for the log of a failure."""

    @property
    def pid(self) -> int:
        return self.send.pid

    @property
    def lane_id(self) -> LaneId:
        return self.send.lane_id


@dataclass(frozen=True, slots=True)
class Start:
    """An attempt is about to be made: written first where an earlier worker may have died of this head."""

    lane_id: LaneId
    pid: int
    seq: int
    attempt: int
    """What the store counts from now on: one more only where the head goes alone, so that a death is its own."""
    rev: int
    starts: int = 1
    """How many announcements of this head are on record with this one; any outcome wipes them out."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Everything owed in a lane of a deleted endpoint, from *seq* to *tail*, will not be sent."""

    lane_id: LaneId
    pid: int
    seq: int
    tail: int
    rev: int


Write = Settlement | Start | Cancel
"""What an owner asks its store to make durable, fenced by the epoch of the partition."""
