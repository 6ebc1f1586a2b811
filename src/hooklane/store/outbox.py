"""The sender's store: few verbs, each atomic, each a sentence of the domain. A store decides nothing.

`OutboxStore` is what publishing and delivering need; `OutboxReads` (in reads.py) is what people look at.
Times come from outside, but for leases: those are judged by the store's own clock, which every owner's verb returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hooklane.model.attempt import Write
from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.health import Health
from hooklane.model.lane import LaneId, LaneRow, Place
from hooklane.model.lost import Decide, KnownPlace, LostLane
from hooklane.model.owning import ALWAYS as ALWAYS
from hooklane.model.owning import CommitReport as CommitReport
from hooklane.model.owning import Lease as Lease
from hooklane.model.owning import Load as Load
from hooklane.model.owning import News as News
from hooklane.model.owning import Roster as Roster
from hooklane.model.owning import Span as Span
from hooklane.model.owning import Taken as Taken
from hooklane.model.publishing import BUSY as BUSY
from hooklane.model.publishing import FORGOTTEN as FORGOTTEN
from hooklane.model.publishing import OTHER_CONTENT as OTHER_CONTENT
from hooklane.model.publishing import UNKNOWN_ENDPOINT as UNKNOWN_ENDPOINT
from hooklane.model.publishing import Draft as Draft
from hooklane.model.publishing import Holder as Holder
from hooklane.model.publishing import Published as Published
from hooklane.model.publishing import PublishReport as PublishReport
from hooklane.model.publishing import Refused as Refused
from hooklane.model.publishing import Stamp as Stamp

Placer = Callable[[Event, Sequence[str] | None, Sequence[Endpoint]], list[Place]]
"""Decides the fan-out (`core.fanout.places`); the store calls it inside the publishing transaction."""


# --- publishing ---


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


class OutboxStore(Protocol):
    """The truth about what is owed to whom."""

    @property
    def run(self) -> int:
        """A number that changes when the database server is restarted or replaced, as far as is known: what it
        has shown before, it may have lost. Always 0 for a store that is no server."""
        ...

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

        False also where it was `cancelling` and would not be: that is final. *act* goes on record in the same commit.
        """

    async def save_endpoints(self, changes: Sequence[tuple[Endpoint, Endpoint]], *, act: Act) -> int:
        """Replace endpoints of one tenant, each (old, new) that is still as it was, in one commit; how many."""

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
        """Give partitions back; call it when no delivery of these partitions is in flight."""

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

    async def account_for(self, places: Sequence[KnownPlace], decide: Decide, now: Instant) -> Sequence[LostLane]:
        """Compare what a process has sent or published with what stands there now, and put on record what is lost.

        Lanes jump behind it, as *decide* says; owners of their partitions are fenced, since they know them otherwise.
        """

    async def tidy(self) -> None:
        """Fold, finish deletions and whatever else the back-end needs every few seconds."""

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
    extra: Mapping[str, Any] = field(default_factory=dict)
