"""Events, endpoints and an owner to try a store with."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from hooklane.model.attempt import DELIVERED, Dead, Outcome, Retry, Send, Settlement, Write
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import DEFAULT_TENANT, Event
from hooklane.model.exchange import Answer, Result, Timings
from hooklane.model.lane import PARTITIONS, Grown, LaneId, LaneRow
from hooklane.model.tenant import Tenant
from hooklane.store.outbox import CommitReport, Draft, Load, OutboxStore, Published, PublishReport
from hooklane.store.reads import DeadLetter, LetterFilter, OutboxReads
from hooklane.store.tenants import TenantStore

T0 = Instant(1_750_000_000_000)
LEASE_MS = 60_000
SHORT_LEASE_MS = 50


class Outbox(OutboxStore, OutboxReads, TenantStore, Protocol):
    """What a store for the sender offers, to the write path and to people."""


def endpoint(id: str = "ep_a", **rules: Any) -> Endpoint:
    return Endpoint(id=id, url=f"https://{id.replace('_', '-')}.example/hook", **{"created_at": T0, **rules})


async def add_tenants(store: Outbox, *ids: str) -> None:
    for id in ids:
        assert await store.save_tenant(Tenant(id=id, created_at=T0), expect=None)


def event(
    id: str, key: str | None = "k", *, type: str = "order.created", tenant: str = DEFAULT_TENANT, at: int = 0
) -> Event:
    return Event(id, type, key, b'{"event":"%b"}' % id.encode(), Instant(T0 + at), tenant)


def draft(one: Event, *names: str, asked: Sequence[str] | None = None) -> Draft:
    """A draft with the digest that the sender's publishing would give it."""
    content = repr((one.type, one.key, asked, one.data)).encode()
    return Draft(one, None if asked is None else tuple(asked), names, hashlib.sha256(content).digest())


def answer(status: int = 200, body: bytes = b"") -> Answer:
    return Answer(status, Timings(12.5), head=b"HTTP/1.1 %d X\r\n" % status, body=body)


async def published(store: Outbox, *events: Event) -> PublishReport:
    """Publish, and insist that all of it got in."""
    report = await store.publish([draft(one) for one in events])
    assert all(isinstance(result, Published) for result in report.results), report.results
    return report


@dataclass(slots=True)
class Owner:
    """A worker that owns every partition and settles heads as an engine would."""

    store: Outbox
    worker: str
    epochs: dict[int, int] = field(default_factory=dict)

    @classmethod
    async def of(cls, store: Outbox, worker: str = "w1", lease_ms: int = LEASE_MS) -> Owner:
        await store.join(worker, lease_ms)
        owner = cls(store, worker)
        await owner.acquire()
        assert len(owner.epochs) == PARTITIONS
        return owner

    async def acquire(self) -> None:
        self.epochs |= {taken.pid: taken.epoch for taken in await self.store.acquire(self.worker, PARTITIONS)}

    async def load(self) -> Load:
        return await self.store.load(self.worker, self.epochs)

    async def loaded(self) -> dict[LaneId, LaneRow]:
        return {row.id: row for rows in (await self.load()).lanes.values() for row in rows}

    async def row(self, lane_id: LaneId) -> LaneRow:
        (row,) = await self.store.reload([lane_id])
        return row

    async def settlement(
        self, lane_id: LaneId, outcome: Outcome, *, result: Result | None = None, at: int = 1_000
    ) -> Settlement:
        """What an engine that read the lane just now would write."""
        row = await self.row(lane_id)
        ((_, seq, head),) = await self.store.fetch([(lane_id, row.head, 1)])
        assert seq == row.head
        (target,) = [one for one in await self.store.endpoints() if one.id == row.endpoint_id]
        epoch = self.epochs[row.pid]
        attempt = row.attempts + 1
        sent_at = Instant(T0 + at)
        send = Send(lane_id, row.pid, epoch, row.rev, row.key, seq, row.acked, attempt, head, target, sent_at)
        if result is None:
            result = answer(200 if outcome == DELIVERED else 500)
        return Settlement(send, outcome, Instant(sent_at + 10), result)

    async def commit(self, *writes: Write) -> CommitReport:
        return await self.store.commit(self.worker, self.epochs, writes)

    async def settle(
        self, lane_id: LaneId, outcome: Outcome, *, result: Result | None = None, at: int = 1_000
    ) -> Settlement:
        """Settle the head of a lane, and insist that the store took it."""
        settlement = await self.settlement(lane_id, outcome, result=result, at=at)
        report = await self.commit(settlement)
        assert (report.fenced, report.stale) == (frozenset(), frozenset())
        return settlement

    async def deliver(self, lane_id: LaneId, many: int = 1) -> None:
        for _ in range(many):
            await self.settle(lane_id, DELIVERED)

    async def fail(self, lane_id: LaneId, at: int = 60_000) -> Settlement:
        return await self.settle(lane_id, Retry(Instant(T0 + at), "500"))

    async def kill(self, lane_id: LaneId, **how: Any) -> DeadLetter:
        """Make the head of a lane a dead letter."""
        settlement = await self.settle(lane_id, Dead("422", **how))
        tenant = settlement.send.event.tenant
        letters = await self.store.dead_letters(tenant, LetterFilter(), None, 100)
        (letter,) = [one for one in letters.items if one.lane_id == lane_id]
        return letter


def tails(grown: Sequence[Grown]) -> dict[LaneId, int]:
    """How far each lane has grown; a store may tell each event or only the last of a lane."""
    found: dict[LaneId, int] = {}
    for one in grown:
        found[one.lane_id] = max(found.get(one.lane_id, 0), one.seq)
    return found


class OutboxKit:
    """What a back-end provides: a fresh, open store, and how its leases run out."""

    @pytest.fixture
    async def store(self) -> Outbox:
        raise NotImplementedError("override the fixture `store`: a fresh, open store built with core.fanout.places")

    @pytest.fixture
    async def owner(self, store: Outbox) -> Owner:
        return await Owner.of(store)

    async def lease_runs_out(self, store: Outbox, worker: str) -> None:
        """Return when the lease of *worker* has run out. Until then it is long, however slow the machine is."""
        assert await store.renew(worker, SHORT_LEASE_MS) is not None
        await self.wait_for_expiry(store, SHORT_LEASE_MS)

    async def wait_for_expiry(self, store: Outbox, lease_ms: int) -> None:
        """Return when a lease of *lease_ms* that was given before has run out by the store's clock."""
        await asyncio.sleep(lease_ms / 1000 + 0.05)
