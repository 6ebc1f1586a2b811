"""The clock was set back while work waited: what was to come so many seconds later still does, whatever kind it is."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.sqlite_files import new_outbox_file

from hooklane.core.fanout import places
from hooklane.model.attempt import Retry
from hooklane.model.clock import Instant, wall_now
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import Op
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions
from hooklane.store.recovery import Wanted
from hooklane.testing.conformance_outbox.kit import LEASE_MS, T0, Owner, endpoint, event, published
from hooklane.testing.conformance_recovery.kit import act, all_members, planned

DAY_MS = 86_400_000
WAIT_MS = 60_000
"""How long each was to wait when the clock was set back."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return new_outbox_file(tmp_path / "outbox.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def store(url: str) -> AsyncIterator[Any]:
    store = outbox_store(url, StoreOptions(placer=places))
    await store.open()
    yield store
    await store.close()


def set_back(url: str) -> None:
    """To a store, a clock that was set back by a day is one that said a day more at the last look."""
    is_file = url.startswith("sqlite")
    table = "hooklane_counter" if is_file else "hooklane.counter"
    opened: Any = sqlite3.connect(url.removeprefix("sqlite:///")) if is_file else psycopg.connect(url)
    with closing(opened) as connection:
        connection.execute(f"UPDATE {table} SET value = value + {DAY_MS} WHERE name = 'clock'")
        connection.commit()


async def test_all_that_waits_for_its_time_waits_as_long_after_the_clock_was_set_back(url: str, store: Any) -> None:
    await store.save_endpoint(endpoint(), expect=None)
    report = await published(store, event("again", "again"), event("head", "head"), event("loose", None))
    again, head, loose = [one.lane_id for one in report.grown]
    owner = await Owner.of(store)
    await owner.deliver(again)
    job = await planned(store, Op.REPLAY, await all_members(store, Wanted(state=DeliveryState.DELIVERED)))
    (redelivery,) = (await store.carry_out(job.id, Op.REPLAY, [1], act=act("job.released"))).lanes
    at = Instant(wall_now() + DAY_MS + WAIT_MS)  # by the clock before it was set back
    for lane_id in (head, loose, redelivery):
        await owner.settle(lane_id, Retry(at, "500"))
    await store.note_health([Health("ep_a", 1, BreakerState.OPEN, at, 1, owner.worker)])

    set_back(url)
    await store.renew(owner.worker, LEASE_MS)

    rows = {row.id: row for row in await store.reload([head, loose, redelivery])}
    waits = {name: rows[lane].next_at for name, lane in (("head", head), ("loose", loose), ("again", redelivery))}
    waits["breaker"] = (await store.health())["ep_a"].until
    assert {name for name, until in waits.items() if until - wall_now() > 2 * WAIT_MS} == set()
    assert len(set(waits.values())) == 1, "each was moved by as much"


async def waits_that_are_written(store: Any, owner: Owner, judged_at: Instant) -> dict[str, int]:
    """What of each kind waits until, where each failed at *judged_at* and was to wait for `WAIT_MS`."""
    report = await published(store, event("again", "again"), event("head", "head"), event("loose", None))
    again, head, loose = [one.lane_id for one in report.grown]
    await owner.deliver(again)
    job = await planned(store, Op.REPLAY, await all_members(store, Wanted(state=DeliveryState.DELIVERED)))
    (redelivery,) = (await store.carry_out(job.id, Op.REPLAY, [1], act=act("job.released"))).lanes
    lanes = {"head": head, "loose": loose, "again": redelivery}
    for lane_id in lanes.values():
        await owner.settle(lane_id, Retry(Instant(judged_at + WAIT_MS), "500"), at=judged_at - 10 - T0)
    rows = {row.id: row for row in await store.reload(list(lanes.values()))}
    return {name: rows[lane_id].next_at for name, lane_id in lanes.items()}


async def test_what_a_worker_writes_that_has_not_heard_of_a_clock_set_back_waits_no_longer_for_the_next_one(
    url: str, store: Any
) -> None:
    await store.save_endpoint(endpoint(), expect=None)
    owner = await Owner.of(store)
    began = wall_now()

    waits = await waits_that_are_written(store, owner, Instant(began + DAY_MS))

    assert {name for name, until in waits.items() if not WAIT_MS <= until - began <= 2 * WAIT_MS} == set()


async def test_what_is_written_late_waits_until_the_time_that_was_judged(url: str, store: Any) -> None:
    await store.save_endpoint(endpoint(), expect=None)
    judged_at = Instant(wall_now() - WAIT_MS // 2)

    waits = await waits_that_are_written(store, await Owner.of(store), judged_at)

    assert set(waits.values()) == {judged_at + WAIT_MS}
