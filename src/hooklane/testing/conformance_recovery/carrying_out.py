"""What a job does to its members, and how it learns what became of them."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.attempt import Dead
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import JobState, Member, Op, Progress
from hooklane.store.recovery import AuditFilter, Mark, Wanted
from hooklane.testing.conformance_outbox.kit import (
    OutboxKit,
    Owner,
    endpoint,
    event,
    published,
)
from hooklane.testing.conformance_recovery.kit import NOW, Store, act, all_members, balanced, lane_with, planned


class CarryingOut(OutboxKit):
    async def test_a_job_replays_dead_heads_and_learns_what_became_of_them(self, store: Store, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", f"k{n}") for n in range(1, 5)), event("loose", None))
        for one in report.grown:
            await owner.kill(one.lane_id)
        lanes = {one.event.id: one.lane_id for one in report.grown if one.event is not None}
        job = await planned(store, Op.REPLAY, sorted(await all_members(store, Wanted()), key=lambda one: one.event_id))
        (fourth,) = await store.members(job.id, after=3, limit=1)
        await store.skip("default", fourth.member.name, note="x", actor="you", now=NOW)

        done = await store.carry_out(job.id, Op.REPLAY, [1, 2, 3, 4, 5], act=act("job.released"))

        assert [n for n, _ in done.refused] == [4]
        assert {lanes["e1"], lanes["e2"], lanes["e3"], lanes["loose"]} == set(done.lanes)
        assert list(await store.sweep(job.id)) == []
        await owner.deliver(lanes["e1"])
        await owner.settle(lanes["e2"], Dead("500"))
        await owner.deliver(lanes["loose"])
        assert [Mark(1, Progress.DELIVERED), Mark(2, Progress.FAILED, "500"), Mark(5, Progress.DELIVERED)] == list(
            await store.sweep(job.id)
        )
        assert list(await store.sweep(job.id)) == [], "told once"
        found = await store.members(job.id, after=0, limit=10)
        assert [str(one.progress) for one in found] == ["delivered", "failed", "released", "refused", "delivered"]
        assert [one.n for one in await store.members(job.id, after=0, limit=9, progress=[Progress.RELEASED])] == [3]
        await balanced(store)

    async def test_a_replayed_head_wakes_its_owner(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 2)
        await owner.kill(lane_id)
        job = await planned(store, Op.REPLAY, await all_members(store, Wanted()))
        mark = (await owner.load()).mark

        await store.carry_out(job.id, Op.REPLAY, [1], act=act("job.released"))

        news = await store.poll("w1", list(owner.epochs), mark)
        assert [lane_id] == list(news.recovered)
        row = await owner.row(lane_id)
        assert (row.head, row.attempts) == (1, 0)

    async def test_carrying_out_twice_does_it_once(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 2)
        await owner.kill(lane_id)
        job = await planned(store, Op.SKIP, await all_members(store, Wanted()))

        first = await store.carry_out(job.id, Op.SKIP, [1], act=act("job.released", "why"))
        again = await store.carry_out(job.id, Op.SKIP, [1], act=act("job.released", "why"))

        assert ([lane_id], []) == (list(first.lanes), list(again.lanes))
        assert (await owner.row(lane_id)).head == 2
        (line,) = (await store.audit("default", AuditFilter(), None, 9)).items
        assert (line.act.action, line.act.note) == ("dead_letter.skipped", "why")
        (member,) = await store.members(job.id, after=0, limit=9)
        assert member.progress is Progress.SKIPPED
        await balanced(store)

    async def test_a_letter_that_is_twice_in_a_plan_is_carried_out_once(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 3)
        letter = await owner.kill(lane_id)
        job = await planned(store, Op.SKIP, await all_members(store, Wanted(ids=["e1", letter.id])))

        done = await store.carry_out(job.id, Op.SKIP, [1, 2], act=act("job.released", "why"))

        assert ([2], [lane_id]) == ([n for n, _ in done.refused], list(done.lanes))
        assert (await owner.row(lane_id)).head == 2
        await balanced(store)

    async def test_a_published_member_closes_the_letter_of_the_skipped_event(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 1)
        letter = await owner.kill(lane_id)
        await store.skip("default", letter.id, note="x", actor="me", now=NOW)
        job = await planned(store, Op.REPLAY, await all_members(store, Wanted(state=DeliveryState.SKIPPED)))
        assert await store.changed(job.id) == []

        await store.mark(job.id, [Mark(1, Progress.PUBLISHED, "evt_new")])

        assert await all_members(store, Wanted(state=DeliveryState.SKIPPED)) == []
        (member,) = await store.members(job.id, after=0, limit=9)
        assert (member.progress, member.result) == (Progress.PUBLISHED, "evt_new")
        await balanced(store)

    async def test_a_stopped_job_releases_nothing_more_and_what_it_released_is_not_cancelled(
        self, store: Store
    ) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", f"k{n}") for n in range(1, 4)))
        owner = await Owner.of(store)
        for one in report.grown:
            await owner.kill(one.lane_id)
        job = await planned(store, Op.REPLAY, await all_members(store, Wanted()))
        first = await store.carry_out(job.id, Op.REPLAY, [1], act=act("job.released"))

        assert await store.save_job(replace(job, state=JobState.STOPPED), expect=job)
        late = await store.carry_out(job.id, Op.REPLAY, [2, 3], act=act("job.released"))
        made = await store.mark(job.id, [Mark(n, Progress.CANCELLED) for n in (1, 2, 3)])

        assert (list(first.done), list(late.done), list(late.lanes)) == ([1], [], [])
        assert sorted(one.n for one in made) == [2, 3]
        counts = {str(word): many for word, many in (await store.count_members(job.id)).items() if many}
        assert counts == {"released": 1, "cancelled": 2}
        await balanced(store)

    async def test_what_was_cancelled_stays_cancelled(self, store: Store) -> None:
        job = await planned(store, Op.REPLAY, [await skipped_event(store)])
        await store.mark(job.id, [Mark(1, Progress.CANCELLED)])

        made = await store.mark(job.id, [Mark(1, Progress.PUBLISHED, "evt_new")])
        done = await store.carry_out(job.id, Op.REPLAY, [1], act=act("job.released"))

        assert (list(made), list(done.done)) == ([], [])
        (member,) = await store.members(job.id, after=0, limit=9)
        assert (member.progress, member.result) == (Progress.CANCELLED, "")
        assert len(await all_members(store, Wanted(state=DeliveryState.SKIPPED))) == 1

    async def test_the_letter_of_a_skipped_event_is_closed_by_one_job_alone(self, store: Store) -> None:
        member = await skipped_event(store)
        jobs = [await planned(store, Op.REPLAY, [member], id=f"pln_{n}") for n in (1, 2, 3)]
        released = [await store.carry_out(one.id, Op.REPLAY, [1], act=act("job.released")) for one in jobs[:2]]

        made = [await store.mark(one.id, [Mark(1, Progress.PUBLISHED, "evt_new")]) for one in jobs[:2]]
        late = await store.carry_out(jobs[2].id, Op.REPLAY, [1], act=act("job.released"))

        assert [list(one.done) for one in released] == [[1], [1]]
        assert [[one.progress for one in some] for some in made] == [[Progress.PUBLISHED], [Progress.REFUSED]]
        assert (list(late.done), [n for n, _ in late.refused]) == ([], [1])


async def skipped_event(store: Store) -> Member:
    lane_id = await lane_with(store, 1)
    owner = await Owner.of(store)
    letter = await owner.kill(lane_id)
    await store.skip("default", letter.id, note="x", actor="me", now=NOW)
    (member,) = await all_members(store, Wanted(state=DeliveryState.SKIPPED))
    return member
