"""A failover loses an event that was sent already, and another gets its place: the late outcome is not the other's."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.support.failover import Pair, synchronous_pair

from hooklane.core.fanout import places
from hooklane.errors import StoreError
from hooklane.model.attempt import DELIVERED, Dead, Gone, Outcome, Retry
from hooklane.model.clock import Instant
from hooklane.model.lane import LaneId
from hooklane.store.outbox import StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.testing.conformance_outbox.kit import T0, Owner, endpoint, event, published

OUTCOMES: dict[str, Outcome] = {
    "delivered": DELIVERED,
    "retry": Retry(Instant(T0 + 60_000), "500"),
    "dead": Dead("422"),
    "skipped": Dead("422", skip=True),
    "gone": Gone("410"),
}

OTHERS = 20
"""So many other events, each for every endpoint: enough that one of them is in a partition of its own."""


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Commits do not wait for this standby: a failover loses what it had not got yet."""
    with synchronous_pair() as servers:
        servers.commits_wait_for("")
        yield servers


@asynccontextmanager
async def opened(pair: Pair) -> AsyncIterator[PostgresOutbox]:
    store = PostgresOutbox(pair.url(), StoreOptions(placer=places))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def survived(store: PostgresOutbox) -> None:
    """The store has met the new primary: the first call finds its connections dead."""
    for _ in range(20):
        try:
            await store.roster()
            return
        except StoreError:
            continue
    raise AssertionError("the store does not find the new primary")


async def one_taken_since(elsewhere: PostgresOutbox, owner: Owner, pids: set[int]) -> LaneId:
    """A lane in none of *pids* whose partition the owner took from the server as it is now."""
    grown = (await published(elsewhere, *(event(f"other{n}", f"other{n}") for n in range(OTHERS)))).grown
    (row, *_) = [row for row in await elsewhere.reload([one.lane_id for one in grown]) if row.pid not in pids]
    await owner.store.release(owner.worker, [row.pid])
    await owner.acquire()
    return row.id


@pytest.mark.parametrize("key", ["k", None], ids=["ordered", "loose"])
async def test_the_outcome_of_an_event_that_a_failover_lost_is_not_that_of_the_event_in_its_place(
    pair: Pair, key: str | None
) -> None:
    async with opened(pair) as store, AsyncExitStack() as others:
        for name in OUTCOMES:
            await store.save_endpoint(endpoint(f"ep_{name}"), expect=None)
        owner = await Owner.of(store)
        pair.wait_until_followed()
        pair.freeze()
        lost = {one.endpoint_id: one for one in (await published(store, event("lost", key))).grown}
        late = [await owner.settlement(lost[f"ep_{name}"].lane_id, OUTCOMES[name]) for name in OUTCOMES]
        pair.fail_over()
        pair.commits_wait_for("")
        await survived(store)
        # The worker's own process tells and reads nothing of the new server until it has joined anew.
        elsewhere = await others.enter_async_context(opened(pair))
        new = {one.endpoint_id: one for one in (await published(elsewhere, event("new", key))).grown}
        assert {id: (one.lane_id, one.seq) for id, one in new.items()} == {
            id: (one.lane_id, one.seq) for id, one in lost.items()
        }, "the new event must be in the place of the lost one, or this test shows nothing"

        fresh = await one_taken_since(elsewhere, owner, {one.send.pid for one in late})
        beside = await owner.commit(late[0], await owner.settlement(fresh, DELIVERED))
        reports = [await owner.commit(one) for one in late]

        assert {late[0].lane_id} == beside.stale, "what was taken from two runs of a server is trusted as little"
        assert [report.stale for report in reports] == [frozenset({one.lane_id}) for one in late]
        rows = await store.reload([one.lane_id for one in new.values()])
        assert {(row.head, row.tail, str(row.state), row.attempts) for row in rows} == {(1, 1, "active", 0)}
        assert len(rows) == len(OUTCOMES)
        assert not await store.attempts("default", "new")
        assert {str(one.state) for one in await store.endpoints()} == {"active"}
        for one in new.values():
            await owner.settle(one.lane_id, DELIVERED)
        ledger = await store.ledger("default")
        assert (ledger["accepted"], ledger["delivered"]) == (len(OUTCOMES) * (1 + OTHERS), len(OUTCOMES) + 1)


async def test_an_ack_is_one_round_trip_while_the_server_runs_on(
    store: PostgresOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane_id = (await published(store, event("e1"))).grown[0].lane_id
    owner = await Owner.of(store)
    ack = await owner.settlement(lane_id, DELIVERED)

    async def longer(_: object) -> None:
        raise AssertionError("the longer way")

    monkeypatch.setattr(store.db, "write", longer)

    assert (await owner.commit(ack)).stale == frozenset()
