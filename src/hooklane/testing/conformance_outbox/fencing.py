"""What fences and stale heads keep out, and that a commit twice is as good as once."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.attempt import DELIVERED, Cancel, Dead, Gone, Outcome, Retry, Start, Write
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.testing.conformance_outbox.kit import (
    LEASE_MS,
    T0,
    Outbox,
    OutboxKit,
    Owner,
    endpoint,
    event,
    published,
)
from hooklane.testing.conformance_outbox.settling import LATER, lane_of, state_of


class Fencing(OutboxKit):
    async def test_a_worker_that_lost_its_partition_cannot_write(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        late = await Owner.of(store, "w1")
        row = await late.row(lane_id)
        writes: list[Write] = [
            await late.settlement(lane_id, DELIVERED),
            await late.settlement(lane_id, Retry(LATER, "500")),
            await late.settlement(lane_id, Dead("500")),
            await late.settlement(lane_id, Dead("500", skip=True)),
            await late.settlement(lane_id, Gone("410")),
            Start(lane_id, row.pid, 1, 1, row.rev),
            Cancel(lane_id, row.pid, 1, 3, row.rev),
        ]
        await self.lease_runs_out(store, "w1")
        owner = await Owner.of(store, "w2", LEASE_MS)

        for write in writes:
            report = await late.commit(write)
            assert {row.pid} == report.fenced

        assert row == (await owner.loaded())[lane_id]
        assert [endpoint()] == list(await store.endpoints())

    async def test_a_worker_that_released_a_partition_cannot_write_to_it(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        settlement = await owner.settlement(lane_id, DELIVERED)
        pid = settlement.send.pid
        await store.release("w1", [pid])

        first = await owner.commit(settlement)
        again = {taken.pid: taken.epoch for taken in await store.acquire("w1", 256)}
        second = await owner.commit(settlement)

        assert {pid} == first.fenced == second.fenced
        assert set(again) == {pid}
        assert (await owner.row(lane_id)).head == 1

    async def test_a_fence_stops_its_own_partition_and_no_other(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", f"k{n}") for n in range(2)))
        (mine, lost), owner = [one.lane_id for one in report.grown], await Owner.of(store)
        pids = [one.pid for one in report.grown]
        assert len(set(pids)) == 2, "the two keys must be in two partitions for this test to say something"
        writes = [await owner.settlement(lane, DELIVERED) for lane in (mine, lost)]
        await store.release("w1", [pids[1]])

        committed = await owner.commit(*writes)

        assert {pids[1]} == committed.fenced
        assert ((await owner.row(mine)).head, (await owner.row(lost)).head) == (2, 1)

    async def test_an_expired_lease_alone_fences_nobody(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        owner = await Owner.of(store, "w1")
        settlement = await owner.settlement(lane_id, DELIVERED)
        await self.lease_runs_out(store, "w1")

        report = await owner.commit(settlement)

        # No worker has taken over, so the fact is still the newest one and is worth keeping.
        assert not report.fenced
        assert (await owner.row(lane_id)).head == 2

    async def test_a_failure_that_comes_after_a_death_does_not_revive_the_head(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        owner = await Owner.of(store)
        await owner.kill(lane_id)
        late = await owner.settlement(lane_id, Retry(LATER, "500"), at=2_000)

        report = await owner.commit(late)

        assert {lane_id} == report.stale
        assert (await owner.row(lane_id)).state is LaneState.BLOCKED

    async def test_repeating_a_commit_changes_nothing(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(
            store, *(event(f"e{n}", f"k{n % 4}") for n in range(8)), event("loose1", None), event("loose2", None)
        )
        lanes = list(dict.fromkeys(one.lane_id for one in report.grown))
        outcomes: list[Outcome] = [
            DELIVERED,
            Retry(LATER, "503"),
            Dead("400"),
            Dead("400", skip=True),
            DELIVERED,
            Retry(LATER, "503"),
        ]
        writes = [await owner.settlement(lane, outcome) for lane, outcome in zip(lanes, outcomes, strict=True)]
        await owner.commit(*writes)
        event_ids = [one.event.id for one in report.grown if one.event is not None]
        rows, states = await owner.loaded(), await store.deliveries("default", event_ids)
        attempts = [await store.attempts("default", one) for one in event_ids]

        again = await owner.commit(*writes)
        await store.tidy()
        and_again = await owner.commit(*writes)

        assert not again.fenced
        assert not and_again.fenced
        assert rows == await owner.loaded()
        assert states == await store.deliveries("default", event_ids)
        assert attempts == [await store.attempts("default", one) for one in event_ids]

    async def test_a_head_is_never_lowered(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        row = await owner.row(lane_id)
        late: list[Write] = [
            await owner.settlement(lane_id, Retry(LATER, "500")),
            await owner.settlement(lane_id, Dead("500")),
            Start(lane_id, row.pid, 1, 1, row.rev),
        ]
        await owner.deliver(lane_id, 2)

        for folded in (False, True):
            if folded:
                await store.tidy()
            for write in late:
                assert {lane_id} == (await owner.commit(write)).stale
                row = (await owner.loaded())[lane_id]
                assert (row.head, row.attempts, row.state) == (3, 0, LaneState.ACTIVE)

    async def test_an_ack_that_is_told_again_late_moves_nothing(self, store: Outbox, owner: Owner) -> None:
        """Whatever has become of the next head since, be it a lane's first ack or not, be it folded or not."""
        outcomes: list[Outcome] = [DELIVERED, Retry(LATER, "500"), Dead("500"), Dead("500", skip=True)]
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{key}{n}", f"k{key}") for key in range(4) for n in range(4)))
        lanes = sorted({one.lane_id for one in report.grown})
        acks = [await owner.settle(lane_id, DELIVERED) for lane_id in lanes * 2]
        for lane_id, outcome in zip(lanes, outcomes, strict=True):
            await owner.settle(lane_id, outcome)
        rows = [await owner.row(lane_id) for lane_id in lanes]

        for folded in (False, True):
            if folded:
                await store.tidy()
            for ack in acks:
                await owner.commit(ack)

            assert rows == [await owner.row(lane_id) for lane_id in lanes]

    async def test_a_write_about_an_attempt_of_the_past_is_stale(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        first = await owner.fail(lane_id, at=5_000)
        await owner.fail(lane_id, at=9_000)

        report = await owner.commit(first)
        dead = await owner.commit(replace(first, outcome=Dead("500")))

        assert {lane_id} == report.stale == dead.stale
        row = await owner.row(lane_id)
        assert (row.attempts, row.next_at, row.state) == (2, T0 + 9_000, LaneState.RETRYING)

    async def test_a_stale_lane_does_not_keep_others_from_being_written(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", "a"), event("e2", "b"))
        stale, fresh = (one.lane_id for one in report.grown)
        old = await owner.fail(stale)
        await owner.fail(stale)

        committed = await owner.commit(old, await owner.settlement(fresh, DELIVERED))

        assert {stale} == committed.stale
        assert DeliveryState.DELIVERED is await state_of(store, "e2")
