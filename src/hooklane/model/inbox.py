"""What the inbox keeps: one row per event of a source, and one handling for each handler that must see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hooklane.model.clock import START, Instant
from hooklane.model.message import Message, Status
from hooklane.model.value import value

RowId = int | str
"""Opaque name of a row in its store; a later row of a store has a larger one where the store counts."""

OPEN = (Status.PENDING, Status.IN_PROGRESS, Status.FAILED, Status.HELD)
"""Statuses of a handling that is still owed."""

SETTLED = (Status.COMPLETED, Status.STALE, Status.IGNORED, Status.DEAD)
"""Statuses of a handling that no worker owes any more; a dead one waits for a person."""

_LOUDEST_FIRST = (
    Status.DEAD,
    Status.FAILED,
    Status.IN_PROGRESS,
    Status.PENDING,
    Status.HELD,
    Status.COMPLETED,
    Status.STALE,
    Status.IGNORED,
)


@value(frozen=True, slots=True)
class Identity:
    """What makes a row one of its kind; *variant* tells apart what shares an id (a conflict, a repeated state)."""

    source: str
    account: str
    event_id: str
    variant: str = ""


@value(frozen=True, slots=True, kw_only=True)
class NewHandling:
    """A handling as it is first written: owed from *due_at* on, or settled in the same transaction."""

    handler: str
    status: Status = Status.PENDING
    due_at: Instant = START
    attempts: int = 0
    fence: int = 0
    """1 where the row is written already claimed (`in_progress`), which stores that are not `transactional` need."""
    key: str | None = None
    """The key that this handler orders by; None where it does not."""
    seq: int | None = None
    prev_seq: int | None = None
    error: str | None = None
    traceback: str | None = None
    settled_at: Instant | None = None


@value(frozen=True, slots=True, kw_only=True)
class NewRow:
    """A message on its way into the store, raw bytes and all, with what each handler owes it."""

    message: Message
    received_at: Instant
    variant: str = ""
    status: Status = Status.PENDING
    """Of the row itself; where there are handlings, their statuses count instead."""
    reason: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    handlings: tuple[NewHandling, ...] = ()

    @property
    def identity(self) -> Identity:
        message = self.message
        return Identity(message.source, message.account, message.event_id, self.variant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """What one handler did with one row so far."""

    handler: str
    status: Status
    attempts: int = 0
    due_at: Instant = START
    """When it may be claimed (again): the retry time of a failed one, the end of the lease of one in progress."""
    fence: int = 0
    key: str | None = None
    seq: int | None = None
    prev_seq: int | None = None
    error: str | None = None
    traceback: str | None = None
    settled_at: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the store knows about an identity that it has seen before."""

    id: RowId
    status: Status
    fingerprint: bytes = b""
    type: str = ""
    handlings: tuple[Handling, ...] = ()

    def of(self, handler: str) -> Handling | None:
        """The handling of *handler*, if the row has one."""
        return next((each for each in self.handlings if each.handler == handler), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A whole row for people and for replay."""

    id: RowId
    message: Message
    status: Status
    received_at: Instant
    variant: str = ""
    reason: str | None = None
    copies: int = 1
    """How often it arrived, duplicates included (counted in batches, so it may lag)."""
    purged: bool = False
    """Its payload was purged; the id still guards."""
    headers: tuple[tuple[str, str], ...] = ()
    handlings: tuple[Handling, ...] = ()

    @property
    def overall(self) -> Status:
        """The status of the whole: the loudest of its handlings, or its own where it has none."""
        return overall(self.status, [each.status for each in self.handlings])

    def status_for(self, handler: str) -> Status | None:
        """How it stands with *handler*: the row's own status while no handler was given it; None where only others
        were."""
        if not self.handlings:
            return self.status
        return next((each.status for each in self.handlings if each.handler == handler), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One handling that this worker holds, until its lease ends or a newer fence is given out."""

    id: RowId
    handler: str
    fence: int
    attempts: int
    message: Message
    received_at: Instant
    variant: str = ""
    key: str | None = None
    seq: int | None = None
    prev_seq: int | None = None
    taken_over: bool = False
    """It was in progress elsewhere and that lease ran out."""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def given_back(self) -> int:
        """How many claims did not count as attempts: the last 20 bits of the fence count the claims."""
        return max(0, (self.fence & 0xFFFFF) - self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlingFailure:
    """How a claim is let go of without being done: as failed, dead, held, or pending again."""

    status: Status
    due_at: Instant
    now: Instant
    error: str = ""
    traceback: str = ""
    attempts: int | None = None
    """The count from now on; None: as it is."""


@dataclass(frozen=True, slots=True)
class Track:
    """A line of messages that one handler takes in order: the cursor's name."""

    source: str
    account: str
    handler: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which rows; every field narrows."""

    ids: tuple[RowId, ...] | None = None
    source: str | None = None
    account: str | None = None
    status: Status | None = None
    handler: str | None = None
    type: str | None = None
    key: str | None = None
    event_id: str | None = None
    received_from: Instant | None = None
    received_until: Instant | None = None
    after: RowId | None = None
    """Rows with a larger id only: the cursor of a page."""
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Gap:
    """A track whose next message is waiting for one that never came; *seq* is applied, *prev_seq* is missing."""

    track: Track
    seq: int
    prev_seq: int
    since: Instant


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """When this inbox was last seen alive, and how long it lay still within the window that retention looks at."""

    seen_at: Instant
    down_ms: int = 0
    down_until: Instant = START


@dataclass(frozen=True, slots=True)
class Count:
    """So many handlings (or bare rows, without handler) of a source in one status."""

    source: str
    handler: str | None
    status: Status
    rows: int
    oldest_at: Instant


def overall(own: Status, handlings: Sequence[Status]) -> Status:
    """The loudest status of *handlings*: what a person should hear about the row."""
    if not handlings:
        return own
    return next(status for status in _LOUDEST_FIRST if status in handlings)
