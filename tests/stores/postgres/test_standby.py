"""Where a synchronous standby is asked for: nothing is told or sent that it may not have."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from tests.stores.postgres.standby import a_commit_waits, only_on_the_primary, waits_for_the_standby
from tests.support.eventually import eventually
from tests.support.failover import Pair, ask, synchronous_pair
from tests.support.processes import until

from hooklane.core.fanout import places
from hooklane.errors import StoreError, StoreUnavailable, StoreUnconfirmed
from hooklane.sender.outbox import Outbox
from hooklane.store.outbox import Published, StoreOptions
from hooklane.store.postgres import commits, database
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.store.sql.outbox import endpoints
from hooklane.testing.conformance_outbox.kit import Owner, draft, endpoint, event, published

SOON_S = 1.0


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with synchronous_pair() as servers:
        yield servers


@pytest.fixture
def url(pair: Pair) -> Iterator[str]:
    with pair.primary.address.fresh_database() as url:
        yield url
        pair.thaw()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresOutbox]:
    store = PostgresOutbox(url, StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    yield store
    await store.close()


@pytest.fixture
async def frozen(pair: Pair) -> AsyncIterator[Pair]:
    """The standby confirms nothing, from when a test says `freeze` until its end; then what waits is let go."""
    yield pair
    pair.thaw()


# --- publishing ---


async def test_a_commit_that_the_standby_does_not_confirm_is_not_acknowledged_and_not_cancelled(
    store: PostgresOutbox, frozen: Pair, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await published(store, event("e0"))
    monkeypatch.setattr(commits, "COMMIT_WAIT_S", SOON_S)
    frozen.freeze()

    with pytest.raises(StoreError) as failed:
        await store.publish([draft(event("e1"))])

    assert not isinstance(failed.value, StoreUnavailable), "it may have been stored"
    assert await store.event("default", "e1") is None, "the wait was cancelled, and the event is visible"
    frozen.thaw()
    assert await eventually(lambda: store.event("default", "e1"), within_s=30)
    report = await store.publish([draft(event("e1"))])
    assert [one.stamps[0].seq for one in report.results if isinstance(one, Published)] == [2]


@pytest.mark.parametrize("longer_way", [False, True])
async def test_a_publisher_that_is_cancelled_does_not_cancel_the_commit(
    store: PostgresOutbox, frozen: Pair, longer_way: bool
) -> None:
    await published(store, event("e0"))
    frozen.freeze()
    publish = store.publish_all if longer_way else store.publish
    task = asyncio.ensure_future(publish([draft(event("e1"))]))
    before = await asyncio.to_thread(a_commit_waits, frozen)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.5)  # for a request to cancel to arrive, if there were one

    assert a_commit_waits(frozen) == before
    assert await store.event("default", "e1") is None


async def test_a_repeat_by_id_or_name_is_not_acknowledged_before_the_standby_has_the_first(
    store: PostgresOutbox, frozen: Pair
) -> None:
    await published(store, event("e0"))
    first = await only_on_the_primary(frozen, lambda: store.publish([draft(event("e1"), "name")]))

    assert isinstance(first, StoreUnconfirmed), "the wait was cancelled"
    report = await waits_for_the_standby(frozen, store.publish([draft(event("e1"), "name")]))

    assert [one.repeated for one in report.results] == [True]


async def test_our_own_repeat_after_a_lost_connection_is_not_acknowledged_before_the_standby_has_it(
    store: PostgresOutbox, frozen: Pair
) -> None:
    await published(store, event("e0"))
    frozen.freeze()
    task = asyncio.ensure_future(store.publish([draft(event("e1"))]))
    for pid in await asyncio.to_thread(a_commit_waits, frozen):
        ask(frozen.primary, f"SELECT pg_terminate_backend({pid})")  # committed here, and the client is not told

    report = await waits_for_the_standby(frozen, task)

    assert [one.stamps[0].seq for one in report.results if isinstance(one, Published)] == [2]


async def test_a_publish_port_does_not_acknowledge_a_repeat_before_the_standby_has_the_first(
    store: PostgresOutbox, frozen: Pair, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox(url)

    def publish() -> Awaitable[Any]:
        return asyncio.to_thread(outbox.publish, "order.created", {}, key="k", idempotency_key="name")

    first = await only_on_the_primary(frozen, publish)

    assert isinstance(first, StoreUnconfirmed), "the wait was cancelled"
    again = await waits_for_the_standby(frozen, publish())

    assert again.repeated
    monkeypatch.setattr(commits, "COMMIT_WAIT_S", SOON_S)
    frozen.freeze()
    with pytest.raises(StoreError):
        outbox.publish("order.created", {}, key="other")
    assert a_commit_waits(frozen), "the commit goes on by itself"
    outbox.close()


async def test_a_caller_who_only_repeats_a_publish_waits_for_the_standby_in_their_own_commit(
    store: PostgresOutbox, frozen: Pair, url: str
) -> None:
    outbox = Outbox(url)
    outbox.publish("order.created", {}, key="k", idempotency_key="caller")
    frozen.freeze()

    def transaction() -> bool:
        with psycopg.connect(url) as tx:
            return outbox.publish("order.created", {}, key="k", idempotency_key="caller", tx=tx).repeated

    assert await waits_for_the_standby(frozen, asyncio.to_thread(transaction))
    outbox.close()


# --- delivering ---


async def test_nothing_is_found_by_a_poll_before_the_standby_has_it(store: PostgresOutbox, frozen: Pair) -> None:
    await published(store, event("e0"))
    owner = await Owner.of(store)
    mark = (await owner.load()).mark
    quiet = await store.poll(owner.worker, list(owner.epochs), mark)
    await only_on_the_primary(frozen, lambda: store.publish([draft(event("e1"))]))

    news = await waits_for_the_standby(frozen, store.poll(owner.worker, list(owner.epochs), quiet.mark))

    assert [one.seq for one in news.grown] == [2]
    frozen.freeze()
    assert not (await store.poll(owner.worker, list(owner.epochs), news.mark)).grown, "a quiet poll does not wait"


@pytest.mark.parametrize("look", ["load", "reload"])
async def test_nothing_is_loaded_before_the_standby_has_it(store: PostgresOutbox, frozen: Pair, look: str) -> None:
    lane_id = (await published(store, event("e0"))).grown[0].lane_id
    owner = await Owner.of(store)
    await only_on_the_primary(frozen, lambda: store.publish([draft(event("e1"))]))

    found = await waits_for_the_standby(frozen, owner.row(lane_id) if look == "reload" else owner.loaded())

    assert (found if look == "reload" else found[lane_id]).tail == 2


async def test_an_act_that_finds_nothing_left_to_write_is_not_told_before_the_standby_has_what_it_saw(
    store: PostgresOutbox, frozen: Pair
) -> None:
    await only_on_the_primary(frozen, lambda: store.save_endpoint(endpoint("ep_b"), expect=None))

    found = await waits_for_the_standby(frozen, store.db.write(lambda: endpoints.read_endpoint("ep_b")))

    assert found == endpoint("ep_b")


async def test_a_reload_of_the_setting_counts_for_sessions_that_are_open(store: PostgresOutbox, frozen: Pair) -> None:
    frozen.commits_wait_for("")
    try:
        await published(store, event("e0"))
        frozen.freeze()
        await published(store, event("e1"))  # no standby is asked for
        assert isinstance((await store.publish([draft(event("e1"))])).results[0], Published)
        ask(frozen.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        until(lambda: ask(frozen.primary, "SHOW synchronous_standby_names") == [("*",)], what="the setting")

        report = await waits_for_the_standby(frozen, store.publish([draft(event("e1"), "x")]))

        assert len(report.results) == 1
    finally:
        frozen.thaw()
        frozen.commits_wait_for("*")


async def test_commits_that_wait_for_a_standby_do_not_use_up_the_servers_connections(
    store: PostgresOutbox, frozen: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "COMMIT_WAIT_S", 0.2)
    monkeypatch.setattr(database, "WAITING_MAX", 3)
    frozen.freeze()

    for n in range(6):
        with pytest.raises(StoreError):
            await store.publish([draft(event(f"e{n}", f"k{n}"))])

    assert len(a_commit_waits(frozen)) == 3
    assert await store.endpoints(), "what only reads goes on"
