"""Leases, epochs, and what an owner reads: loads, polls, reloads and fetches."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.attempt import DELIVERED
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.lane import PARTITIONS, LaneState
from hooklane.testing.conformance_outbox.kit import (
    LEASE_MS,
    T0,
    Outbox,
    OutboxKit,
    Owner,
    endpoint,
    event,
    published,
    tails,
)


class Owning(OutboxKit):
    async def test_a_lease_runs_by_the_clock_of_the_store(self, store: Outbox) -> None:
        lease = await store.join("w1", LEASE_MS)

        assert lease.until == lease.now + LEASE_MS

    async def test_a_living_lease_is_renewed(self, store: Outbox) -> None:
        joined = await store.join("w1", LEASE_MS)

        renewed = await store.renew("w1", LEASE_MS)

        assert renewed is not None
        assert renewed.until >= joined.until

    async def test_an_expired_lease_is_never_renewed(self, store: Outbox) -> None:
        await store.join("w1", LEASE_MS)
        await self.lease_runs_out(store, "w1")

        assert await store.renew("w1", LEASE_MS) is None
        assert await store.renew("w1", LEASE_MS) is None
        assert await store.renew("w_never_joined", LEASE_MS) is None

    async def test_a_worker_whose_lease_expired_acquires_nothing(self, store: Outbox) -> None:
        await store.join("w1", LEASE_MS)
        await self.lease_runs_out(store, "w1")

        assert list(await store.acquire("w1", PARTITIONS)) == []

    async def test_a_worker_that_joins_again_owns_nothing_until_it_acquires(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1"))
        before = await Owner.of(store)
        late = await before.settlement(report.grown[0].lane_id, DELIVERED)

        await store.join("w1", LEASE_MS)

        assert (await store.roster()).owned == {"w1": 0}
        assert {late.send.pid} == (await before.commit(late)).fenced
        after = await Owner.of(store)
        assert {late.send.pid} == (await before.commit(late)).fenced, "under the old epoch"
        assert (await after.row(late.send.lane_id)).head == 1

    async def test_the_first_owner_takes_what_it_asks_for(self, store: Outbox) -> None:
        await store.join("w1", LEASE_MS)

        some = await store.acquire("w1", 10)
        rest = await store.acquire("w1", PARTITIONS)

        assert (len(some), len(rest)) == (10, PARTITIONS - 10)
        assert set(range(PARTITIONS)) == {taken.pid for taken in (*some, *rest)}
        assert not any(taken.unclean for taken in (*some, *rest))
        assert {1} == {taken.epoch for taken in (*some, *rest)}, "by which an engine knows that nobody was before it"
        assert list(await store.acquire("w1", PARTITIONS)) == []

    async def test_the_roster_says_who_owns_how_much(self, store: Outbox) -> None:
        await store.join("w1", LEASE_MS)
        await store.acquire("w1", 10)

        roster = await store.roster()

        assert (dict(roster.owned), roster.free) == ({"w1": 10}, PARTITIONS - 10)

    async def test_a_takeover_after_expiry_bumps_every_epoch_and_is_unclean(self, store: Outbox) -> None:
        before = await Owner.of(store, "w1")
        await self.lease_runs_out(store, "w1")
        await store.join("w2", LEASE_MS)

        taken = await store.acquire("w2", PARTITIONS)

        assert set(before.epochs) == {one.pid for one in taken}
        assert all(one.unclean and one.epoch > before.epochs[one.pid] for one in taken)
        roster = await store.roster()
        assert (dict(roster.owned), roster.free) == ({"w2": PARTITIONS}, 0)

    async def test_what_was_released_changes_hands_cleanly(self, store: Outbox) -> None:
        owner = await Owner.of(store, "w1")

        await store.release("w1", [3, 4])
        again = await store.acquire("w1", PARTITIONS)

        assert {3, 4} == {taken.pid for taken in again}
        assert all(not taken.unclean and taken.epoch > owner.epochs[taken.pid] for taken in again)

    async def test_a_worker_that_leaves_gives_everything_back_cleanly(self, store: Outbox) -> None:
        await Owner.of(store, "w1")

        await store.leave("w1")

        roster = await store.roster()
        assert (dict(roster.owned), roster.free) == ({}, PARTITIONS)
        assert await store.renew("w1", LEASE_MS) is None
        await store.join("w2", LEASE_MS)
        assert not any(taken.unclean for taken in await store.acquire("w2", PARTITIONS))

    async def test_a_worker_that_is_certainly_gone_is_expired_at_once_and_fenced(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1"))
        gone = await Owner.of(store, "w1")
        late = await gone.settlement(report.grown[0].lane_id, DELIVERED)

        await store.expire(["w1", "w_never_joined"])

        roster = await store.roster()
        assert (dict(roster.owned), roster.free) == ({}, PARTITIONS)
        assert await store.renew("w1", LEASE_MS) is None
        await store.join("w2", LEASE_MS)
        taken = await store.acquire("w2", PARTITIONS)
        assert all(one.unclean and one.epoch > gone.epochs[one.pid] for one in taken)
        assert {late.send.pid} == (await gone.commit(late)).fenced

    async def test_a_load_brings_only_lanes_with_work(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", "a"), event("e2", "b"), event("e3", "b"), event("e4", None))
        done, half, _, loose = (one.lane_id for one in report.grown)
        for lane_id in (done, half, loose):
            await owner.deliver(lane_id)

        rows = await owner.loaded()

        assert {half} == set(rows)

    async def test_a_load_says_where_each_lane_stands(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", "a") for n in range(1, 5)))
        lane_id = report.grown[0].lane_id
        await owner.deliver(lane_id, 2)
        await owner.fail(lane_id, at=7_000)

        for _ in range(2):  # before and after the acks were folded
            row = (await owner.loaded())[lane_id]
            assert (row.head, row.tail, row.acked) == (3, 4, 2)
            assert (row.state, row.attempts, row.next_at) == (LaneState.RETRYING, 1, T0 + 7_000)
            assert ("ep_a", "a", report.grown[0].pid) == (row.endpoint_id, row.key, row.pid)
            await store.tidy()

    async def test_an_ack_leaves_the_attempts_of_its_predecessor_behind(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", "a"), event("e2", "a"))
        lane_id = report.grown[0].lane_id
        await owner.fail(lane_id)
        await owner.deliver(lane_id)

        for _ in range(2):
            row = (await owner.loaded())[lane_id]
            assert (row.head, row.attempts, row.state) == (2, 0, LaneState.ACTIVE)
            assert row.next_at <= T0
            await store.tidy()

    async def test_a_load_brings_the_endpoints_and_leaves_out_partitions_of_others(self, store: Outbox) -> None:
        one = endpoint()
        await store.save_endpoint(one, expect=None)
        report = await published(store, event("e1", "a"))
        pid = report.grown[0].pid
        owner = await Owner.of(store)
        await store.release("w1", [pid])

        load = await owner.load()

        assert [one] == list(load.endpoints)
        assert not load.lanes.get(pid)

    async def test_a_poll_finds_everything_published_since_the_load(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        await published(store, event("e1", "a"))
        mark = (await owner.load()).mark
        first = await published(store, event("e2", "a"), event("e3", "b"), event("e4", None))

        news = await store.poll("w1", list(owner.epochs), mark)
        second = await published(store, event("e5", "a"))
        later = await store.poll("w1", list(owner.epochs), news.mark)
        nothing = await store.poll("w1", list(owner.epochs), later.mark)

        assert tails(first.grown) == tails(news.grown)
        assert tails(second.grown) == tails(later.grown)
        assert list(nothing.grown) == []
        (grown,) = [one for one in news.grown if one.key == "b"]
        assert (first.grown[1].lane_id, first.grown[1].pid, "ep_a") == (grown.lane_id, grown.pid, grown.endpoint_id)

    async def test_a_poll_tells_nothing_of_partitions_it_was_not_asked_about(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        mark = (await owner.load()).mark
        report = await published(store, *(event(f"e{n}", f"key-{n}") for n in range(20)))
        pids = sorted({one.pid for one in report.grown})
        mine = pids[: len(pids) // 2]

        news = await store.poll("w1", mine, mark)

        assert {one.lane_id for one in report.grown if one.pid in mine} == {one.lane_id for one in news.grown}

    async def test_a_poll_from_an_older_mark_leaves_nothing_out(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        mark = (await owner.load()).mark
        first = await published(store, event("e1", "a"))
        await store.poll("w1", list(owner.epochs), mark)
        second = await published(store, event("e2", "b"))

        news = await store.poll("w1", list(owner.epochs), mark)

        assert tails([*first.grown, *second.grown]) == tails(news.grown)

    async def test_a_poll_tells_of_changed_endpoints(self, store: Outbox, owner: Owner) -> None:
        one = endpoint()
        await store.save_endpoint(one, expect=None)
        mark = (await owner.load()).mark
        paused = replace(one, state=EndpointState.PAUSED)
        await store.save_endpoint(paused, expect=one)
        await store.save_endpoint(endpoint("ep_new"), expect=None)

        news = await store.poll("w1", list(owner.epochs), mark)
        later = await store.poll("w1", list(owner.epochs), news.mark)

        found = {changed.id: changed for changed in news.endpoints}
        assert (paused, endpoint("ep_new")) == (found["ep_a"], found["ep_new"])
        assert list(later.endpoints) == []

    async def test_a_reload_says_where_a_lane_stands_now(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", "a"), event("e2", "a"), event("e3", None))
        lane_id, _, loose = (one.lane_id for one in report.grown)

        rows = {row.id: row for row in await store.reload([lane_id, loose])}
        assert {(1, 2), (1, 1)} == {(row.head, row.tail) for row in rows.values()}
        await owner.deliver(lane_id)
        await owner.deliver(loose)

        (row,) = await store.reload([lane_id, loose])
        assert (lane_id, 2, 2, 1) == (row.id, row.head, row.tail, row.acked)

    async def test_a_fetch_reads_events_in_order_from_where_it_is_told(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", "a") for n in range(1, 6)), event("e9", None))
        lane_id, loose = report.grown[0].lane_id, report.grown[-1].lane_id

        items = await store.fetch([(lane_id, 2, 3), (loose, 1, 1)])
        beyond = await store.fetch([(lane_id, 5, 16), (lane_id, 6, 16), (lane_id + 1_000, 1, 16)])

        assert [seq for one, seq, _ in items if one == lane_id] == [2, 3, 4]
        assert [event.id for one, _, event in items if one == lane_id] == ["e2", "e3", "e4"]
        assert [event.id for one, _, event in items if one == loose] == ["e9"]
        assert [seq for _, seq, _ in beyond] == [5]

    async def test_every_verb_of_an_owner_tells_the_time_of_the_store(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", "a"))
        load = await owner.load()
        news = await store.poll("w1", list(owner.epochs), load.mark)
        settlement = await owner.settlement(report.grown[0].lane_id, DELIVERED)
        committed = await owner.commit(settlement)

        times: list[Instant] = [load.now, news.now, committed.now, (await store.roster()).now]
        assert sorted(times) == times

    # --- what is owed, whatever a mark says ---

    async def test_what_is_owed_in_a_partition_is_what_a_load_of_it_finds(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        await published(store, *(event(f"e{n}", f"k{n % 7}") for n in range(20)), event("loose", None))
        lane_id = next(one for one in await owner.loaded() if one > 0)
        await owner.fail(lane_id)
        loaded = (await owner.load()).lanes

        for pid, rows in loaded.items():
            owed = await store.owed("w1", {pid: owner.epochs[pid]})
            assert {pid: sorted(rows, key=lambda row: row.id)} == {
                one: sorted(found, key=lambda row: row.id) for one, found in owed.items()
            }

    async def test_nothing_is_told_of_what_is_owed_in_partitions_that_are_not_ours_any_more(
        self, store: Outbox
    ) -> None:
        owner = await Owner.of(store)

        owed = await store.owed("w1", {7: owner.epochs[7] - 1, 8: owner.epochs[8]})

        assert list(owed) == [8]
        assert not await store.owed("w_other", owner.epochs)
