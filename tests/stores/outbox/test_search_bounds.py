"""What people ask costs a bounded amount of work, is complete all the same, and never waits before what delivers."""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench.many_events import ENDPOINT, fill
from tests.support.pace import scaled_s
from tests.support.postgres import Postgres
from tests.support.shared import WITH_TABLES
from tests.support.sqlite_files import new_outbox_file

from hooklane.core.fanout import places
from hooklane.errors import SearchTooLong
from hooklane.model.clock import wall_now
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.store.open import Outbox, outbox_store
from hooklane.store.outbox import StoreOptions
from hooklane.store.reads import EventFilter, LaneFilter, Page
from hooklane.store.recovery import Wanted
from hooklane.store.sqlite import readers
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.store.sqlite.readers import NICENESS, READERS

EVENTS = 60_000
LANES = 500
Ask = Callable[[Outbox, str | None], Awaitable[Page[Any]]]


@pytest.fixture(scope="module")
def full_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with more events than one search may look at."""
    path = tmp_path_factory.mktemp("full") / "outbox.db"
    fill(new_outbox_file(path), EVENTS, LANES, wall_now())
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


@pytest.fixture(scope="module")
def full_database(postgres_server: Postgres) -> Iterator[str]:
    """The name of a database with as many."""
    with postgres_server.fresh_database(WITH_TABLES) as url:
        fill(url, EVENTS, LANES, wall_now())
        yield url.rpartition("/")[2]


@pytest.fixture(params=["sqlite", "postgres"])
def full_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A copy of either for this test alone."""
    if request.param == "sqlite":
        path = tmp_path / "outbox.db"
        path.touch(mode=0o600)
        path.write_bytes(request.getfixturevalue("full_file"))
        yield f"sqlite:///{path}"
    else:
        server: Postgres = request.getfixturevalue("postgres_server")
        with server.fresh_database(request.getfixturevalue("full_database")) as url:
            yield url


@pytest.fixture
async def store(full_url: str) -> AsyncIterator[Outbox]:
    store = outbox_store(full_url, StoreOptions(placer=places))
    await store.open()
    yield store
    await store.close()


def events(**wanted: Any) -> Ask:
    return lambda store, cursor: store.events("default", EventFilter(**wanted), cursor, 50)


SEARCHES: dict[str, Ask] = {
    "state": events(state=DeliveryState.DEAD),
    "endpoint": events(endpoint_id="ep_other"),
    "type": events(type="nothing.of.this"),
    "key": events(key="old:none"),
    "before": events(before=1),
    "all filters": events(
        type="order.*", key="old:7", endpoint_id=ENDPOINT, state=DeliveryState.RETRYING, after=1, before=2**52
    ),
    "plan": lambda store, cursor: store.select(  # type: ignore[attr-defined]
        "default", Wanted(state=DeliveryState.DELIVERED, type="nothing.of.this"), cursor, 1_000
    ),
}


FINDING = (
    (EventFilter(key="old:7"), 120),
    (EventFilter(state=DeliveryState.DELIVERED, type="order.3", key="old:499"), 17),
    (EventFilter(endpoint_id=ENDPOINT, key="old:0", type="order.*"), 120),
)


async def test_a_search_that_finds_nothing_stops_early_and_says_where_to_go_on(store: Outbox):
    for name, ask in SEARCHES.items():
        page = await ask(store, None)
        assert (list(page.items), page.next is not None) == ([], True), name

        pages = 1
        while page.next is not None:
            page = await ask(store, page.next)
            pages += 1
            assert not page.items, name
        assert pages <= EVENTS / 1_000 + 1, name


async def test_the_pages_of_a_search_hold_all_that_fits_once(store: Outbox):
    for wanted, many in FINDING:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await store.events("default", wanted, cursor, 50)
            found += [event.id for event in page.items]
            cursor = page.next
            if cursor is None:
                break
        places = [int(one.removeprefix("old-")) for one in found]

        assert places == sorted(set(places), reverse=True), wanted
        assert len(places) == many, wanted


async def test_lanes_that_need_attention_are_found_whatever_stands_behind_them(store: Outbox):
    page = await store.lanes("default", LaneFilter(), None, 50)
    assert [lane.state for lane in page.items] == [LaneState.IDLE] * 50

    seen = {lane.key for lane in page.items}
    while page.next is not None:
        page = await store.lanes("default", LaneFilter(), page.next, 200)
        seen |= {lane.key for lane in page.items}
    assert len(seen) == LANES


async def test_what_delivers_does_not_wait_for_what_people_ask(store: Outbox):
    lease = await store.join("w", 60_000)
    epochs = {one.pid: one.epoch for one in await store.acquire("w", 256)}
    load = await store.load("w", epochs)
    searches = [asyncio.create_task(SEARCHES["state"](store, None)) for _ in range(24)]
    await asyncio.sleep(0)

    await store.poll("w", list(epochs), load.mark)
    await store.fetch([])
    assert lease is not None
    assert await store.renew("w", 60_000) is not None

    assert sum(search.done() for search in searches) < len(searches)
    # On a busy machine a search may be ended by its own limit: what people ask has the lowest priority.
    ended = await asyncio.gather(*searches, return_exceptions=True)
    assert [one for one in ended if isinstance(one, BaseException) and not isinstance(one, SearchTooLong)] == []


async def test_a_search_that_nobody_waits_for_any_more_is_ended(store: Outbox):
    """All who read for people are taken by questions without end; when the askers leave, others are served."""
    questions = [asyncio.create_task(_endless(store)) for _ in range(3)]
    await asyncio.sleep(0.3)
    for question in questions:
        question.cancel()
    await asyncio.gather(*questions, return_exceptions=True)

    began = time.monotonic()
    await store.event("default", "old-1")
    assert time.monotonic() - began < scaled_s(20)


async def test_a_question_that_takes_too_long_is_told_to_be_narrowed(store: Outbox):
    with pytest.raises(SearchTooLong, match="narrow"):
        await _endless(store, s_max=0.5)

    assert await store.event("default", "old-1") is not None


async def _endless(store: Any, s_max: float = 60.0) -> None:
    if hasattr(store, "readers"):
        endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        await store.readers.ask(lambda conn: conn.execute(endless).fetchall(), s_max=s_max)
        return
    from hooklane.store.caller.flow import Flow, Rows, Statement

    def flow() -> Flow[Rows]:
        return (yield Statement("SELECT pg_sleep(60)"))

    await store.db.ask(flow, s_max=s_max)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
async def test_where_all_cores_are_busy_people_wait_and_not_deliveries(tmp_path: Path):
    def niceness(_: object) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
    await store.open()

    assert await store.readers.ask(niceness) == min(19, niceness(None) + NICENESS)
    assert await store._read_on(niceness) == niceness(None)
    await store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread cannot give up its core")
async def test_a_search_gives_up_its_core_every_few_milliseconds(store: Outbox, monkeypatch: pytest.MonkeyPatch):
    """By the time that the thread itself has worked, so that a busy machine makes no difference."""
    if not isinstance(store, SqliteOutbox):
        return  # another process works there, under the scheduler of its own machine
    at: list[float] = []
    give_up = os.sched_yield
    monkeypatch.setattr(os, "sched_yield", lambda: (at.append(time.thread_time()), give_up()))

    for _ in range(40):  # beside busy programs a thread of the lowest priority works little in half a second
        with pytest.raises(SearchTooLong):
            await _endless(store, s_max=0.5)
        if len(at) > 100:
            break

    gaps = sorted(after - before for before, after in itertools.pairwise(at))
    assert len(gaps) > 20
    assert gaps[len(gaps) // 2] < 0.002


async def test_what_a_server_needs_to_run_waits_for_its_turn_and_a_search_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that is busy enough, threads of a low priority do not run for seconds; a server must start there."""
    store = outbox_store(new_outbox_file(tmp_path / "outbox.db"), StoreOptions(placer=places))
    assert isinstance(store, SqliteOutbox)
    await store.open()
    now, busy = [0.0], threading.Event()
    monkeypatch.setattr(readers, "time", SimpleNamespace(monotonic=lambda: now[0]))
    hold = store.readers.ask
    held = [asyncio.create_task(hold(lambda _: busy.wait(scaled_s(60)), s_max=None)) for _ in range(READERS)]
    needed, search = asyncio.create_task(store.tenants_since(-1)), asyncio.create_task(store.tenants(None, 10))
    await asyncio.sleep(0)  # all of them stand in line

    now[0] = 3600.0
    busy.set()

    assert "default" in {tenant.id for tenant in (await needed).tenants}
    with pytest.raises(SearchTooLong):
        await search
    await asyncio.gather(*held)
    await store.close()
