"""Plans, acts and rounds of pruning to try a store with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hooklane.core.audit import ChainCheck
from hooklane.model.audit import Act
from hooklane.model.clock import START, Instant
from hooklane.model.lane import LaneId
from hooklane.model.plan import Job, Member, Op, Progress
from hooklane.store.recovery import Cutoffs, RecoveryStore, Wanted
from hooklane.testing.conformance_outbox.kit import (
    T0,
    Outbox,
    endpoint,
    event,
    published,
)
from hooklane.testing.paging import all_pages

NOW = Instant(T0 + 90_000)
DAY_MS = 24 * 3_600_000
LATER = Instant(T0 + 40 * DAY_MS)
ALL = Cutoffs(events=LATER, attempts=LATER, idempotency=LATER, audit=LATER, jobs=LATER, wakeups=START)


class Store(Outbox, RecoveryStore, Protocol):
    """What a store for the sender offers, recovery included."""


def act(action: str = "secret.shown", note: str = "", **fields: object) -> Act:
    told = {"tenant": "default", "at": NOW, "actor": "me", "subject": "ep_a"} | fields
    return Act(action=action, note=note, **told)  # type: ignore[arg-type]


async def all_members(store: Store, wanted: Wanted, limit: int = 100, tenant: str = "default") -> list[Member]:
    return await all_pages(lambda cursor: store.select(tenant, wanted, cursor, limit))


async def planned(store: Store, op: Op, members: Sequence[Member], id: str = "pln_1") -> Job:
    job = Job(
        id=id,
        tenant="default",
        op=op,
        created_at=NOW,
        expires_at=Instant(NOW + 1),
        digest="d",
        members=len(members),
        keys=1,
        counts={Progress.PLANNED: len(members)},
    )
    await store.add_members(id, "default", 1, members)
    assert await store.save_job(job, expect=None)
    return job


async def broken_line(store: Store, page: int = 2) -> int | None:
    """The number of the first audit line that does not fit, None when the chain is whole."""
    chain = await store.audit_chain(0, page)
    check = ChainCheck(chain.anchor)
    while chain.lines:
        check.take(chain.lines)
        chain = await store.audit_chain(chain.lines[-1].n, page)
    broken = check.finish(chain.head)
    return None if broken is None else broken.n


async def pruned(store: Store, cutoffs: Cutoffs, limit: int = 2) -> dict[str, int]:
    """A whole round in small steps, and what it removed."""
    removed: dict[str, int] = {}
    cursor = None
    for _ in range(1_000):
        step = await store.prune(cutoffs, cursor, limit)
        for table, many in step.rows.items():
            removed[table] = removed.get(table, 0) + many
        cursor = step.next
        if cursor is None:
            return removed
    raise AssertionError("a round of pruning does not end")


async def balanced(store: Store) -> None:
    for line in await store.check_ledger():
        assert line.is_balanced, line


async def lane_with(store: Store, many: int, key: str = "a") -> LaneId:
    if not any(one.id == "ep_a" for one in await store.endpoints()):
        await store.save_endpoint(endpoint(), expect=None)
    report = await published(store, *(event(f"e{n}", key, at=n) for n in range(1, many + 1)))
    return report.grown[0].lane_id
