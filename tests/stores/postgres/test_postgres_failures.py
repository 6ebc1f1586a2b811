"""When PostgreSQL or the way to it fails: what is answered is true, and a repeat counts once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.support.pooler import pooler
from tests.support.postgres import PostgresServer
from tests.support.proxy import BlackHole, Clear, FaultProxy, LoseReply, Refuse

from hooklane.core.fanout import places
from hooklane.errors import StoreError, StoreUnavailable
from hooklane.model.attempt import DELIVERED, Dead, Retry
from hooklane.model.clock import Instant
from hooklane.model.lane import LaneState
from hooklane.sender.outbox import Outbox
from hooklane.store.outbox import Published, StoreOptions
from hooklane.store.postgres import commits, database
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.testing.conformance_outbox.kit import T0, Owner, draft, endpoint, event, published


@pytest.fixture
def proxy(postgres_url: str) -> AsyncIterator[FaultProxy]:
    with FaultProxy(urlsplit(postgres_url).port or 0) as proxy:
        yield proxy


@pytest.fixture
async def far(proxy: FaultProxy, postgres_url: str) -> AsyncIterator[PostgresOutbox]:
    """A store that reaches PostgreSQL through the proxy."""
    url = urlsplit(postgres_url)
    store = PostgresOutbox(
        url._replace(netloc=f"postgres@127.0.0.1:{proxy.port}").geturl(), StoreOptions(placer=places)
    )
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    yield store
    proxy.fault = Clear()
    proxy.reset_all()
    await store.close()


async def lose_the_reply_to_commit(store: PostgresOutbox, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next COMMIT reaches the server, its reply does not come back; after that the way is clear."""
    execute = asyncpg.Connection.execute
    lost = []

    async def losing(self: asyncpg.Connection, query: str, *args: object, **options: object) -> str:
        if not query.endswith("; COMMIT") or lost:
            return await execute(self, query, *args, **options)
        lost.append(query)
        proxy.fault = LoseReply()
        try:
            return await execute(self, query, *args, **options)
        finally:
            proxy.fault = Clear()

    monkeypatch.setattr(asyncpg.Connection, "execute", losing)


async def test_a_publish_whose_reply_was_lost_is_stored_once_and_answered(
    far: PostgresOutbox, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await published(far, event("warm", "k"))
    await lose_the_reply_to_commit(far, proxy, monkeypatch)

    report = await far.publish([draft(event("e1", "k")), draft(event("e2", "k"), "name"), draft(event("e3", None))])

    seqs = [stamp.seq for one in report.results if isinstance(one, Published) for stamp in one.stamps]
    assert seqs == [2, 3, None]
    assert (await far.ledger("default"))["accepted"] == 4


async def test_a_failure_whose_reply_was_lost_counts_one_attempt(
    far: PostgresOutbox, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane_id = (await published(far, event("e1", "k"))).grown[0].lane_id
    owner = await Owner.of(far)
    failure = await owner.settlement(lane_id, Retry(Instant(T0 + 5_000), "500"))
    await lose_the_reply_to_commit(far, proxy, monkeypatch)

    report = await owner.commit(failure)

    assert (frozenset(), frozenset()) == (report.fenced, report.stale)
    assert (await owner.row(lane_id)).attempts == 1
    assert len(await far.attempts("default", "e1")) == 1


@pytest.mark.parametrize("is_carried_out", [True, False], ids=["carried out", "not carried out"])
@pytest.mark.parametrize(
    ("outcome", "state", "head", "attempts"),
    [
        (DELIVERED, LaneState.ACTIVE, 2, 0),
        (Retry(Instant(T0 + 5_000), "500"), LaneState.RETRYING, 1, 1),
        (Dead("422"), LaneState.BLOCKED, 1, 1),
        (Dead("422", skip=True), LaneState.ACTIVE, 2, 0),
    ],
    ids=["delivered", "retry", "dead", "skipped"],
)
async def test_an_outcome_whose_commit_nobody_heard_of_is_durable_when_it_is_reported(
    far: PostgresOutbox,
    proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    outcome,
    state,
    head,
    attempts,
    is_carried_out,
) -> None:
    lane_id = (await published(far, event("e1", "k"), event("e2", "k"))).grown[0].lane_id
    owner = await Owner.of(far)
    write = await owner.settlement(lane_id, outcome)
    break_off_at_the_next_commit(proxy, monkeypatch, is_carried_out=is_carried_out, is_alone=outcome is DELIVERED)

    report = await owner.commit(write)

    assert (frozenset(), frozenset()) == (report.fenced, report.stale)
    row = await owner.row(lane_id)
    assert (state, head, attempts) == (row.state, row.head, row.attempts)
    assert len(await far.attempts("default", "e1")) == 1


def break_off_at_the_next_commit(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, *, is_carried_out: bool, is_alone: bool
) -> None:
    """The connection breaks at the next COMMIT, or at the statement that *is_alone*: before or after it is done."""
    broken: list[str] = []

    def breaking(verb: str, is_commit: Callable[[str], bool]) -> None:
        plain = getattr(asyncpg.Connection, verb)

        async def break_off(self: asyncpg.Connection, query: str, *args: object, **options: object) -> object:
            if broken or not is_commit(query):
                return await plain(self, query, *args, **options)
            broken.append(query)
            if not is_carried_out:
                proxy.reset_all()
                return await plain(self, query, *args, **options)
            proxy.fault = LoseReply()
            try:
                return await plain(self, query, *args, **options)
            finally:
                proxy.fault = Clear()

        monkeypatch.setattr(asyncpg.Connection, verb, break_off)

    if is_alone:
        breaking("fetch", lambda query: "INSERT INTO hooklane.ack" in query)
    else:
        breaking("execute", lambda query: query.endswith("; COMMIT"))


async def test_a_store_that_is_away_says_so_and_comes_back(far: PostgresOutbox, proxy: FaultProxy) -> None:
    proxy.fault = Refuse()
    proxy.reset_all()

    with pytest.raises(StoreUnavailable):
        await published(far, event("e1", "k"))
    proxy.fault = Clear()

    assert (await published(far, event("e1", "k"))).grown[0].seq == 1


async def test_connections_that_died_while_nobody_used_them_are_replaced(
    far: PostgresOutbox, postgres_url: str
) -> None:
    lane_id = (await published(far, event("e1", "k"))).grown[0].lane_id
    owner = await Owner.of(far)
    await published(far, event("e2", "k"))
    others = await asyncpg.connect(postgres_url)
    await others.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await others.close()
    await asyncio.sleep(0.05)  # for the news to arrive on sockets that are not read

    report = await far.publish([draft(event("e3", "k"))])
    await owner.settle(lane_id, DELIVERED)

    assert [one.seq for one in report.grown] == [3]


async def test_a_server_that_hangs_is_given_up(
    far: PostgresOutbox, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    await published(far, event("warm", "k"))
    monkeypatch.setattr(database, "COMMAND_WAIT_S", 0.3)
    monkeypatch.setattr(commits, "COMMIT_WAIT_S", 0.3)
    await far.close()
    await far.open()
    proxy.fault = BlackHole()

    with pytest.raises(StoreError):
        await published(far, event("e1", "k"))


async def test_a_cancelled_call_gives_its_connection_back(far: PostgresOutbox) -> None:
    blocker = asyncio.create_task(far.publish([draft(event("e0", "k"))]))
    blocker.cancel()
    await asyncio.gather(blocker, return_exceptions=True)

    reports = [await published(far, event(f"e{n + 1}", "k")) for n in range(20)]

    seqs = [one.seq for report in reports for one in report.grown]
    assert seqs in (list(range(1, 21)), list(range(2, 22))), "what was cancelled got in or not, and held up nothing"


async def test_nothing_acknowledged_is_lost_when_the_server_crashes(crash_postgres: PostgresServer) -> None:
    url = crash_postgres.address.create_database("crash")
    store = PostgresOutbox(url, StoreOptions(placer=places))
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    acknowledged: list[str] = []
    enough = asyncio.Event()

    async def publish(writer: int) -> None:
        for n in range(10_000):
            name = f"w{writer}-{n}"
            try:
                await published(store, event(name, f"k{writer}"))
            except StoreError:
                return
            acknowledged.append(name)
            if len(acknowledged) == 40:
                enough.set()

    writers = [asyncio.create_task(publish(writer)) for writer in range(4)]
    await enough.wait()
    crash_postgres.stop_immediate()
    await asyncio.gather(*writers)
    crash_postgres.start()

    owner = await Owner.of(store)
    stored = {one.id for lane in await owner.loaded() for _, _, one in await store.fetch([(lane, 1, 20_000)])}
    assert set(acknowledged) - stored == set()
    for row in (await owner.loaded()).values():
        seqs = [seq for _, seq, _ in await store.fetch([(row.id, 1, 20_000)])]
        assert list(range(1, row.tail + 1)) == seqs
    await store.close()


async def test_it_works_behind_a_pooler_in_transaction_mode(postgres_url: str) -> None:
    async with pooler(postgres_url) as (url, pool):
        store = PostgresOutbox(url, StoreOptions(placer=places))
        await store.open()
        assert store.db.pool.is_pooled
        await store.save_endpoint(endpoint(), expect=None)
        await asyncio.gather(*(published(store, event(f"e{n}", f"k{n % 5}")) for n in range(30)))
        owner = await Owner.of(store)
        mark = (await owner.load()).mark
        for lane_id in await owner.loaded():
            await owner.deliver(lane_id, 6)
        await published(store, event("last", "k0"))
        await store.tidy()
        news = await store.poll("w1", list(owner.epochs), mark)
        ledger = await store.ledger("default")
        await store.close()

    assert (ledger["accepted"], ledger["delivered"]) == (31, 30)
    assert [one.seq for one in news.grown] == [7]
    assert pool.transactions > 50


async def test_application_code_publishes_through_a_pooler(store: PostgresOutbox, postgres_url: str) -> None:
    """Often enough for the driver to keep its statements in the server, where the next transaction may not be."""
    async with pooler(postgres_url, size=2) as (url, _):
        outbox = await asyncio.to_thread(Outbox, url)
        seqs = [(await asyncio.to_thread(outbox.publish, "a", n, key="k")).stamps[0].seq for n in range(12)]

    assert seqs == list(range(1, 13))


async def test_a_direct_connection_is_not_taken_for_a_pooler(far: PostgresOutbox) -> None:
    lane_id = (await published(far, event("e1", "k"))).grown[0].lane_id
    owner = await Owner.of(far)

    assert not far.db.pool.is_pooled
    assert not (await owner.commit(await owner.settlement(lane_id, DELIVERED))).stale
