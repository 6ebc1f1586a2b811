"""What recovery needs of the sender's store: plans and jobs, the audit log, retention and the ledger's check.

Redeliveries (replays of events that were delivered before) are lanes of their own with ids below `REDELIVERIES`:
`load`, `poll`, `reload`, `fetch` and `commit` of `OutboxStore` know them, and nothing of them moves a head, makes a
dead letter or counts in the ledger. `fetch` answers them with `Redelivery` events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hooklane.model.audit import Act, AuditLine, Link
from hooklane.model.clock import START, Instant
from hooklane.model.lane import DeliveryState, LaneId
from hooklane.model.plan import Job, JobMember, Member, Op, PlacedEvent, Progress
from hooklane.store.reads import Page

# --- plans and jobs ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which deliveries a plan is about: those with *ids*, in any state, or those in *state* that pass the filter.

    *endpoint_id* narrows both.
    """

    state: DeliveryState = DeliveryState.DEAD
    """`dead`, `delivered` or `skipped`."""
    endpoint_id: str | None = None
    key: str | None = None
    type: str | None = None
    """A type, with `*` for any run of characters."""
    reason: str | None = None
    """Why it failed last (`422`, `timeout`), with `*` for any run and `?` for any one character; not of `delivered`."""
    after: Instant | None = None
    before: Instant | None = None
    """From *after* on and before *before*: when a dead letter died, when any other event was published."""
    ids: Sequence[str] = ()
    """Of dead letters (`dlv_…`) or of events; at most a page of them."""

    def __post_init__(self) -> None:
        if self.reason is not None and self.state is DeliveryState.DELIVERED:
            raise ValueError(
                f"reason says why an event failed; those that were delivered have none, got {self.reason!r}"
            )


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """What carrying out did: members that could not be, each with the reason; *lanes* are awake again.

    A member that is neither refused nor *done* was not planned any more, or the job had been stopped.
    """

    refused: Sequence[tuple[int, str]] = ()
    lanes: Sequence[LaneId] = ()
    done: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """How far one member has come."""

    n: int
    progress: Progress
    result: str = ""


# --- audit ---


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which lines of the audit log: all that fit."""

    actor: str | None = None
    action: str | None = None
    """With `*` for any run of characters."""
    subjects: Sequence[str] = ()
    after: Instant | None = None
    before: Instant | None = None


@dataclass(frozen=True, slots=True)
class AuditChain:
    """Lines of all tenants, oldest first, with both ends of the chain as the store remembers them."""

    lines: Sequence[AuditLine]
    anchor: Link | None
    """The last line that retention removed."""
    head: Link | None
    """The last line that was written."""


# --- retention ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """What is older than these may go, where nothing is owed any more."""

    events: Instant = START
    attempts: Instant = START
    idempotency: Instant = START
    audit: Instant = START
    jobs: Instant = START
    wakeups: Instant = START


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one step removed, by table; *next* is where the following step goes on, None at the end of the round."""

    rows: Mapping[str, int]
    next: str | None


# --- the ledger ---


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """One endpoint's part of the ledger: *accepted* comes from the counters, *counts* from the rows themselves."""

    tenant: str
    endpoint_id: str
    accepted: int
    counts: Mapping[DeliveryState, int]
    faults: Sequence[str] = field(default_factory=tuple)
    """What does not fit, in words: a lane without its event, a dead head without its letter …"""

    @property
    def is_balanced(self) -> bool:
        return self.accepted == sum(self.counts.values()) and not self.faults


class RecoveryStore(Protocol):
    """Beside the verbs below, `OutboxStore.save_endpoint` and `OutboxReads.set_note` take an `act` for the record."""

    # plans and jobs

    async def select(self, tenant: str, wanted: Wanted, cursor: str | None, limit: int) -> Page[Member]:
        """Deliveries that fit, each once, in any order; with *ids* also those that nothing can be done about."""

    async def lane_events(self, places: Sequence[tuple[LaneId, int]], limit: int) -> Sequence[PlacedEvent]:
        """Of each (lane, seq) up to *limit* events from that seq on, in order."""

    async def add_members(self, plan_id: str, tenant: str, first: int, members: Sequence[Member]) -> None:
        """Keep members of a plan that is being made, numbered from *first* on."""

    async def save_job(self, job: Job, *, expect: Job | None, act: Act | None = None) -> bool:
        """Create (*expect* None) or replace a plan or job that is still as *expect* says; *act* goes on record."""

    async def job(self, tenant: str, id: str) -> Job | None:
        """By the id of the plan or of the job."""

    async def open_jobs(self) -> Sequence[Job]:
        """Those that are running, of all tenants, oldest first."""

    async def members(
        self, plan_id: str, *, after: int, limit: int, progress: Sequence[Progress] | None = None
    ) -> Sequence[JobMember]:
        """Members with a number above *after*, in order."""

    async def changed(self, plan_id: str) -> Sequence[int]:
        """The members that are not any more as the plan saw them."""

    async def carry_out(self, plan_id: str, op: Op, numbers: Sequence[int], *, act: Act) -> CarriedOut:
        """Do it, in one commit: replay or skip dead letters; let delivered events be sent again, in the order given.

        Only what is planned still, and nothing once the job was stopped. Skipped events are released, to be published
        by the caller; their letters stay as they are until `mark` says so. A skip puts one line with *act*'s actor and
        note on record for each letter.
        """

    async def sweep(self, plan_id: str) -> Sequence[Mark]:
        """Look what became of the released members, note it, and tell what is new."""

    async def mark(self, plan_id: str, marks: Sequence[Mark]) -> Sequence[Mark]:
        """Note what became of members that are not done yet; the marks as they were made.

        `held` and `cancelled` are for those that were not released. `published` also closes the letter of the skipped
        event, and is `refused` where another job has closed it.
        """

    async def count_members(self, plan_id: str) -> Mapping[Progress, int]:
        """How many members have come how far, counted from the rows; every word."""

    # audit

    async def record(self, act: Act) -> Link:
        """Put an act on record that changed nothing here: a secret was shown, a file exported."""

    async def audit(self, tenant: str, wanted: AuditFilter, cursor: str | None, limit: int) -> Page[AuditLine]:
        """The lines of a tenant that fit, the newest first."""

    async def audit_chain(self, after: int, limit: int) -> AuditChain:
        """Lines of all tenants with a number above *after*, for the check."""

    # retention and the ledger

    async def prune(self, cutoffs: Cutoffs, cursor: str | None, limit: int) -> Pruned:
        """One small step: look at up to *limit* rows and remove those that are not owed any more."""

    async def check_ledger(self) -> Sequence[LedgerLine]:
        """The ledger of every endpoint in one snapshot, counted from the rows and compared with the counters."""
