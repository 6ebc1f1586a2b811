"""Events that are sent again: in order, under the same name, and beside the heads."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.attempt import DELIVERED, Cancel, Dead, Retry, Start
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.lane import DeliveryState, LaneId
from hooklane.model.plan import Job, Op, Progress
from hooklane.model.redelivery import Redelivery, is_redelivery
from hooklane.store.reads import LetterFilter
from hooklane.store.recovery import Mark, Wanted
from hooklane.testing.conformance_outbox.kit import (
    T0,
    OutboxKit,
    Owner,
)
from hooklane.testing.conformance_recovery.kit import NOW, Store, act, all_members, balanced, lane_with, planned


class Redelivering(OutboxKit):
    async def sent_again(self, store: Store, owner: Owner, many: int = 3) -> tuple[LaneId, Job]:
        """A key whose first events are delivered, one of them skipped, and are being sent again."""
        lane_id = await lane_with(store, many + 2)
        await owner.deliver(lane_id)
        letter = await owner.kill(lane_id)
        await store.skip("default", letter.id, note="x", actor="me", now=NOW)
        await owner.deliver(lane_id, many - 1)
        members = await all_members(store, Wanted(state=DeliveryState.DELIVERED))
        job = await planned(store, Op.REPLAY, members)
        done = await store.carry_out(job.id, Op.REPLAY, range(1, many + 1), act=act("job.released"))
        (again,) = done.lanes
        assert is_redelivery(again)
        return again, job

    async def test_a_redelivery_has_the_key_seq_and_predecessor_of_the_first_time(self, store: Store) -> None:
        owner = await Owner.of(store)
        again, _ = await self.sent_again(store, owner)

        found = await store.fetch([(again, 1, 10)])

        copies = [(pos, one) for _, pos, one in found if isinstance(one, Redelivery)]
        places = [(pos, one.id, one.lane_key, one.seq, one.prev_seq) for pos, one in copies]
        assert places == [(1, "e1", "a", 1, 0), (2, "e3", "a", 3, 1), (3, "e4", "a", 4, 3)]
        first = await store.event("default", "e1")
        assert first is not None
        assert found[0][2].data == first.data

    async def test_a_redelivery_is_found_by_load_poll_and_reload(self, store: Store, owner: Owner) -> None:
        mark = (await owner.load()).mark
        again, _ = await self.sent_again(store, owner)

        news = await store.poll("w1", list(owner.epochs), mark)
        row = (await owner.loaded())[again]

        assert max(one.seq for one in news.grown if one.lane_id == again) == 3
        assert (row.head, row.tail, row.key, row.endpoint_id) == (1, 3, None, "ep_a")
        assert [row] == list(await store.reload([again]))

    async def test_what_is_owed_holds_redeliveries_too(self, store: Store, owner: Owner) -> None:
        again, _ = await self.sent_again(store, owner)

        owed = await store.owed(owner.worker, owner.epochs)

        found = {row.id: row for rows in owed.values() for row in rows}
        assert found == await owner.loaded()
        assert again in found

    async def test_redeliveries_keep_their_order_and_move_no_head(self, store: Store, owner: Owner) -> None:
        again, job = await self.sent_again(store, owner)
        lane_id = (await store.members(job.id, after=0, limit=1))[0].member.lane_id
        before, ledger = await owner.row(lane_id), await store.ledger("default")

        await owner.settle(again, Retry(Instant(T0 + 9_000), "500"), at=2_000)
        held = await owner.row(again)
        await owner.settle(again, DELIVERED, at=9_000)
        await owner.deliver(again)

        assert (held.head, held.attempts, held.next_at) == (1, 1, T0 + 9_000)
        row = await owner.row(again)
        assert (row.head, row.attempts) == (3, 0)
        assert before == await owner.row(lane_id)
        assert ledger == await store.ledger("default")
        assert [Mark(1, Progress.DELIVERED), Mark(2, Progress.DELIVERED)] == list(await store.sweep(job.id))
        tries = await store.attempts("default", "e1")
        assert [(one.seq, one.outcome) for one in tries] == [(1, "delivered"), (1, "retry"), (1, "delivered")]
        await owner.deliver(again)
        assert list(await store.reload([again])) == []
        await balanced(store)

    async def test_a_key_stops_at_its_first_failed_redelivery_without_a_dead_letter(self, store: Store) -> None:
        owner = await Owner.of(store)
        again, job = await self.sent_again(store, owner)
        await owner.deliver(again)

        await owner.settle(again, Dead("500"))

        assert [
            Mark(1, Progress.DELIVERED),
            Mark(2, Progress.FAILED, "500"),
            Mark(3, Progress.HELD),
        ] == list(await store.sweep(job.id))
        assert (await store.dead_letters("default", LetterFilter(), None, 9)).items == []
        assert again not in await owner.loaded()
        await balanced(store)

    async def test_a_repeated_write_of_a_redelivery_changes_nothing(self, store: Store, owner: Owner) -> None:
        again, _ = await self.sent_again(store, owner)
        row = await owner.row(again)
        await owner.commit(Start(again, row.pid, 1, 1, row.rev))
        assert (await owner.row(again)).attempts == 1
        settlement = await owner.settlement(again, DELIVERED)
        settlement.send.attempt = 1

        for _ in range(2):
            report = await owner.commit(settlement)
            assert (report.fenced, report.stale) == (frozenset(), frozenset())
            assert (await owner.row(again)).head == 2

    async def test_the_announcement_of_a_redelivery_stands_until_it_comes_to_something(self, store: Store) -> None:
        owner = await Owner.of(store)
        again, _ = await self.sent_again(store, owner)
        row = await owner.row(again)

        for starts, attempt in ((1, 0), (3, 1), (3, 1)):
            report = await owner.commit(Start(again, row.pid, 1, attempt, row.rev, starts))
            found = (await owner.loaded())[again]
            assert (report.stale, found.starts, found.attempts) == (frozenset(), starts, attempt)
        behind = await owner.commit(Start(again, row.pid, 1, 1, row.rev, 2))
        failure = await owner.settlement(again, Retry(NOW, "500"))
        failure.send.attempt = 1
        await owner.commit(failure)
        failed = await owner.row(again)
        await owner.commit(Start(again, row.pid, 1, 1, row.rev, 1))
        await owner.deliver(again)

        assert behind.stale == {again}
        assert (failed.starts, failed.attempts) == (0, 1)
        assert ((await owner.row(again)).head, (await owner.row(again)).starts) == (2, 0)

    async def test_a_worker_that_lost_its_partition_cannot_move_a_redelivery(self, store: Store, owner: Owner) -> None:
        again, _ = await self.sent_again(store, owner)
        settlement = await owner.settlement(again, DELIVERED)
        await store.leave("w1")
        await Owner.of(store, "w2")

        report = await owner.commit(settlement)

        assert {settlement.send.pid} == report.fenced
        (row,) = await store.reload([again])
        assert row.head == 1

    async def test_a_deleted_endpoint_cancels_its_redeliveries_and_takes_no_new_ones(self, store: Store) -> None:
        owner = await Owner.of(store)
        again, job = await self.sent_again(store, owner)
        row = await owner.row(again)
        (one,) = await store.endpoints()
        await store.save_endpoint(replace(one, state=EndpointState.CANCELLING), expect=one)

        await owner.commit(Cancel(again, row.pid, row.head, row.tail, row.rev))
        (member,) = await all_members(store, Wanted(ids=["e1"]))
        later = await planned(store, Op.REPLAY, [member], "pln_2")
        done = await store.carry_out(later.id, Op.REPLAY, [1], act=act("job.released"))

        assert {Progress.CANCELLED} == {one.progress for one in await store.sweep(job.id)}
        assert [n for n, _ in done.refused] == [1]
        assert again not in await owner.loaded()
