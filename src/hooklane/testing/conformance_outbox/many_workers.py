"""Several live workers on one store: which gets what, and that no other takes it away."""

from __future__ import annotations

from hooklane.model.attempt import DELIVERED
from hooklane.model.lane import PARTITIONS
from hooklane.testing.conformance_outbox.kit import (
    LEASE_MS,
    Outbox,
    OutboxKit,
    Owner,
    endpoint,
    event,
    published,
)


class ManyWorkers(OutboxKit):
    async def test_nobody_takes_partitions_of_a_living_worker(self, store: Outbox) -> None:
        await store.join("w1", LEASE_MS)
        await store.join("w2", LEASE_MS)
        first = await store.acquire("w1", 100)

        second = await store.acquire("w2", PARTITIONS)

        assert len(second) == PARTITIONS - 100
        assert set() == {one.pid for one in first} & {one.pid for one in second}
        roster = await store.roster()
        assert (dict(roster.owned), roster.free) == ({"w1": 100, "w2": PARTITIONS - 100}, 0)

    async def test_a_newcomer_is_in_the_roster_before_it_owns_anything(self, store: Outbox) -> None:
        await Owner.of(store, "w1")

        await store.join("w2", LEASE_MS)

        assert dict((await store.roster()).owned) == {"w1": PARTITIONS, "w2": 0}

    async def test_released_partitions_move_to_the_newcomer(self, store: Outbox) -> None:
        before = await Owner.of(store, "w1")
        await store.join("w2", LEASE_MS)
        await store.release("w1", [5, 6])

        taken = await store.acquire("w2", PARTITIONS)

        assert {5, 6} == {one.pid for one in taken}
        assert all(not one.unclean and one.epoch > before.epochs[one.pid] for one in taken)

    async def test_nobody_releases_partitions_of_others(self, store: Outbox) -> None:
        await Owner.of(store, "w1")
        await store.join("w2", LEASE_MS)

        await store.release("w2", [5, 6])

        assert list(await store.acquire("w2", PARTITIONS)) == []

    async def test_a_living_worker_keeps_its_own_while_a_dead_one_is_inherited(self, store: Outbox) -> None:
        await store.join("w1", LEASE_MS)
        lost = {one.pid for one in await store.acquire("w1", 100)}
        await store.join("w2", LEASE_MS)
        await store.acquire("w2", PARTITIONS)
        await self.lease_runs_out(store, "w1")

        roster = await store.roster()
        taken = await store.acquire("w2", PARTITIONS)

        assert (dict(roster.owned), roster.free) == ({"w2": PARTITIONS - 100}, 100)
        assert lost == {one.pid for one in taken}
        assert all(one.unclean for one in taken)

    async def test_each_owner_is_told_of_its_own_lanes_only(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", f"k{n}") for n in range(20)))
        for worker in ("w1", "w2"):
            await store.join(worker, LEASE_MS)
        epochs = {
            worker: {one.pid: one.epoch for one in await store.acquire(worker, PARTITIONS // 2)}
            for worker in ("w1", "w2")
        }

        loads = [await store.load(worker, mine) for worker, mine in epochs.items()]

        lanes = [{row.id for rows in load.lanes.values() for row in rows} for load in loads]
        assert set() == lanes[0] & lanes[1]
        assert {one.lane_id for one in report.grown} == lanes[0] | lanes[1]

    async def test_the_successor_starts_where_the_dead_owner_stopped(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", "a") for n in range(1, 5)))
        lane_id = report.grown[0].lane_id
        late = await Owner.of(store, "w1")
        await late.deliver(lane_id, 2)
        await late.fail(lane_id)
        settlement = await late.settlement(lane_id, DELIVERED)
        await self.lease_runs_out(store, "w1")
        heir = await Owner.of(store, "w2")

        row = (await heir.loaded())[lane_id]
        report_of_the_late = await late.commit(settlement)

        assert (row.head, row.attempts) == (3, 1), "what was counted before the takeover stays counted"
        assert {row.pid} == report_of_the_late.fenced
        assert row == (await heir.loaded())[lane_id]
