"""The sender's store: few verbs, each atomic, each a sentence of the domain. A store decides nothing.

`OutboxStore` is what publishing and delivering need; `OutboxReads` (in reads.py) is what people look at.
Times come from outside, but for leases: those are judged by the store's own clock, which every owner's verb returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from hooklane.model.attempt import Write
from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.health import Health
from hooklane.model.lane import Grown, LaneId, LaneRow, Place
from hooklane.model.owning import ALWAYS as ALWAYS
from hooklane.model.owning import CommitReport as CommitReport
from hooklane.model.owning import Lease as Lease
from hooklane.model.owning import Load as Load
from hooklane.model.owning import News as News
from hooklane.model.owning import Roster as Roster
from hooklane.model.owning import Span as Span
from hooklane.model.owning import Taken as Taken

Placer = Callable[[Event, Sequence[str] | None, Sequence[Endpoint]], list[Place]]
"""Decides the fan-out (`core.fanout.places`); the store calls it inside the publishing transaction."""


# --- publishing ---


# The three below are made for every event, and a frozen dataclass takes three times as long to make.


@dataclass(slots=True)
class Draft:
    """An admitted event on its way in. *names* are what may not be used twice: an idempotency key, an own id."""

    event: Event
    asked: tuple[str, ...] | None = None
    """Explicit endpoints, instead of those whose filter matches."""
    names: tuple[str, ...] = ()
    digest: bytes = b""
    """A hash of type, key, endpoints and data: the same name with another digest is a conflict."""


class Stamp(NamedTuple):
    """The place that a published event got at one endpoint; a loose delivery has no seq."""

    endpoint_id: str
    seq: int | None


@dataclass(slots=True)
class Published:
    """The event is durable. When *repeated*, an earlier publish under the same name made it."""

    event_id: str
    type: str
    key: str | None
    created_at: Instant
    stamps: tuple[Stamp, ...]
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """This one draft was not stored; *code* is stable (`idempotency_conflict`, `unknown_endpoint`, …)."""

    code: str
    detail: str
    retry_after_s: int | None = None
    """When it may be worth another try, where that is known."""


BUSY = "busy"
"""The code of a refusal that only time can lift: a transaction elsewhere holds the lane; publish it again shortly."""


@dataclass(frozen=True, slots=True)
class PublishReport:
    """One result per draft, in order, and the news for the lanes of this process."""

    results: Sequence[Published | Refused]
    grown: Sequence[Grown] = ()
    span: Span | None = None
    """Where a back-end numbers what is published: the numbers of this one, so that no poll need read them again."""


class NotAll(Exception):
    """Thrown inside a store to roll a whole batch back; *report* says who was refused."""

    def __init__(self, report: PublishReport) -> None:
        super().__init__("batch refused")
        self.report = report


def all_or_nothing(report: PublishReport) -> PublishReport:
    """*report*, unless something in it was refused: then NotAll, with the others refused for its sake."""
    if not any(isinstance(result, Refused) for result in report.results):
        return report
    raise NotAll(PublishReport(refused_whole(report.results)))


def refused_whole(results: Sequence[object]) -> list[Refused]:
    """The results of a batch of which something was refused: the others are refused for its sake."""
    others = Refused("batch_refused", "another event of the batch was refused, so none was stored")
    return [result if isinstance(result, Refused) else others for result in results]


# --- recovering ---


@dataclass(frozen=True, slots=True)
class Recovery:
    """A person acted on a dead letter: *lane_id* is awake again, and *released* events follow."""

    lane_id: LaneId
    endpoint_id: str
    key: str | None
    seq: int
    released: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a back-end can do, so that no caller asks for its name."""

    durable: bool = True
    many_workers: bool = False
    foreign_publish: bool = True


class OutboxStore(Protocol):
    """The truth about what is owed to whom."""

    capabilities: Capabilities

    async def open(self) -> None:
        """Connect and bring the schema up to date, or raise StoreRefused / StoreUnavailable with one clear line."""

    async def close(self) -> None:
        """Let go of everything; durable is what was reported so before."""

    # publishing

    async def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        """Make all drafts durable in one commit, each with its next seq in each of its lanes, in order."""

    async def publish_all(self, drafts: Sequence[Draft]) -> PublishReport:
        """The same, all or nothing: when one is refused, the report holds only refusals and nothing was stored."""

    # endpoints

    async def save_endpoint(self, endpoint: Endpoint, *, expect: Endpoint | None, act: Act | None = None) -> bool:
        """Create (*expect* None) or replace an endpoint that is still as *expect* says; False when it is not.

        *act* goes on record in the same commit.
        """

    async def save_endpoints(self, changes: Sequence[tuple[Endpoint, Endpoint]], *, act: Act) -> int:
        """Replace endpoints of one tenant, each (old, new) that is still as it was, in one commit; how many."""
        ...

    async def scrub(self) -> None:
        """Leave nothing behind of what was overwritten or deleted, as far as the back-end can: a file is rewritten."""

    async def endpoints(self, tenant: str | None = None) -> Sequence[Endpoint]:
        """All endpoints that are not wholly deleted, oldest first."""

    # owning partitions

    async def join(self, worker: str, lease_ms: int) -> Lease:
        """Enter a worker into the roster."""

    async def renew(self, worker: str, lease_ms: int) -> Lease | None:
        """Extend a lease that has not expired; None when it has, and then everything is lost."""

    async def roster(self) -> Roster:
        """Who is alive and owns how many partitions."""

    async def acquire(self, worker: str, most: int) -> Sequence[Taken]:
        """Take up to *most* partitions that no live worker owns; each change of owner bumps the epoch."""

    async def release(self, worker: str, pids: Sequence[int]) -> None:
        """Give partitions back; call it when nothing of theirs is in flight."""

    async def leave(self, worker: str) -> None:
        """Give everything back and leave the roster."""

    async def expire(self, workers: Sequence[str]) -> None:
        """End the leases of *workers*, which are certainly gone: what they owned is taken as after an expiry."""

    async def load(self, worker: str, epochs: Mapping[int, int]) -> Load:
        """Read the lanes with work of partitions that were acquired before."""

    async def poll(self, worker: str, pids: Sequence[int], mark: Any) -> News:
        """What others published, recovered or changed since *mark*, if that still holds on the session that answers."""

    async def owed(self, worker: str, epochs: Mapping[int, int]) -> Mapping[int, Sequence[LaneRow]]:
        """The lanes with work of partitions that are ours, as `load` reads them: all of them, whatever a mark says."""

    async def reload(self, lane_ids: Sequence[LaneId]) -> Sequence[LaneRow]:
        """Lanes as they are now; a loose delivery that is no longer owed is left out."""

    async def fetch(self, wants: Sequence[tuple[LaneId, int, int]]) -> Sequence[tuple[LaneId, int, Event]]:
        """For each (lane, seq, many): up to *many* events from *seq* on."""

    async def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        """Make an owner's writes durable, fenced by (worker, epoch); repeating it changes nothing."""

    async def note_health(self, turns: Sequence[Health]) -> Sequence[Health]:
        """Write each turn of a breaker whose predecessor is the last one written; else another process was first.

        Answers how each of these breakers stands now; one whose endpoint is gone is left out.
        """

    async def tidy(self) -> None:
        """Fold, prune and whatever else the back-end needs every few seconds."""

    # recovering

    async def replay(self, tenant: str, dead_letter_id: str, *, actor: str, now: Instant) -> Recovery | None:
        """Try a dead head again: attempts start anew. None when it is not (or no longer) dead."""

    async def skip(self, tenant: str, dead_letter_id: str, *, note: str, actor: str, now: Instant) -> Recovery | None:
        """Give a dead head up, on record, and release what waits behind it. None when it is not dead."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What every outbox store is built with."""

    placer: Placer
    busy_wait_ms: int = 5_000
    idempotency_ms: int = 7 * 24 * 3_600_000
    extra: Mapping[str, Any] = field(default_factory=dict)
