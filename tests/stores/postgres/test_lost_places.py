"""A failover loses an event that was sent already, and another gets its place: the late outcome is not the other's."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.support.failover import Pair, synchronous_pair

from hooklane.core.fanout import places
from hooklane.errors import StoreError
from hooklane.model.attempt import DELIVERED, Dead, Gone, Outcome, Retry
from hooklane.model.clock import Instant
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


@pytest.mark.parametrize("key", ["k", None], ids=["ordered", "loose"])
async def test_the_outcome_of_an_event_that_a_failover_lost_is_not_that_of_the_event_in_its_place(
    pair: Pair, key: str | None
) -> None:
    async with opened(pair) as store:
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
        new = {one.endpoint_id: one for one in (await published(store, event("new", key))).grown}
        assert {id: (one.lane_id, one.seq) for id, one in new.items()} == {
            id: (one.lane_id, one.seq) for id, one in lost.items()
        }, "the new event must be in the place of the lost one, or this test shows nothing"

        reports = [await owner.commit(one) for one in late]

        assert [report.stale for report in reports] == [frozenset({one.lane_id}) for one in late]
        rows = await store.reload([one.lane_id for one in new.values()])
        assert {(row.head, row.tail, str(row.state), row.attempts) for row in rows} == {(1, 1, "active", 0)}
        assert len(rows) == len(OUTCOMES)
        assert not await store.attempts("default", "new")
        assert {str(one.state) for one in await store.endpoints()} == {"active"}
        for one in new.values():
            await owner.settle(one.lane_id, DELIVERED)
        ledger = await store.ledger("default")
        assert (ledger["accepted"], ledger["delivered"]) == (len(OUTCOMES), len(OUTCOMES))


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
