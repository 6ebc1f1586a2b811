"""What may go, and what never does."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.attempt import DELIVERED
from hooklane.model.clock import START, Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import JobState, Op
from hooklane.model.redelivery import Redelivery
from hooklane.store.outbox import Published
from hooklane.store.reads import LetterFilter
from hooklane.store.recovery import Cutoffs, Wanted
from hooklane.testing.conformance_outbox.kit import (
    T0,
    OutboxKit,
    Owner,
    draft,
    endpoint,
    event,
    published,
)
from hooklane.testing.conformance_recovery.kit import (
    ALL,
    DAY_MS,
    LATER,
    NOW,
    Store,
    act,
    all_members,
    balanced,
    lane_with,
    planned,
    pruned,
)


class Retaining(OutboxKit):
    async def test_what_is_owed_dead_or_young_is_never_pruned(self, store: Store, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        events = [event(f"{key}{n}", key, at=n) for key in ("queued", "sick", "dead", "young") for n in (1, 2)]
        report = await published(store, *events, event("loose", None), event("deadloose", None))
        lanes = {one.event.id: one.lane_id for one in report.grown if one.event is not None}
        await owner.fail(lanes["sick1"])
        await owner.kill(lanes["dead1"])
        await owner.kill(lanes["deadloose"])
        await owner.settle(lanes["young1"], DELIVERED, at=20 * DAY_MS)  # waited long, landed a moment ago

        await pruned(store, replace(ALL, events=Instant(T0 + 10 * DAY_MS), attempts=Instant(T0 + 10 * DAY_MS)))

        for one in (*events, event("loose", None), event("deadloose", None)):
            assert await store.event("default", one.id) is not None, one.id
        assert [one.outcome for one in await store.attempts("default", "dead1")] == ["dead"]
        await balanced(store)

    async def test_what_is_settled_goes_and_the_ledger_adds_up_as_before(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 6)
        report = await published(store, event("l1", None), event("l2", None), event("l3", None))
        await owner.deliver(lane_id)
        for _ in range(2):  # two in a row are passed over
            letter = await owner.kill(lane_id)
            await store.skip("default", letter.id, note="x", actor="me", now=NOW)
        await owner.deliver(lane_id, 2)
        await owner.deliver(report.grown[0].lane_id)
        await owner.kill(report.grown[1].lane_id)
        letter2 = (await store.dead_letters("default", LetterFilter(), None, 1)).items[0]
        await store.skip("default", letter2.id, note="x", actor="me", now=NOW)
        before = await store.ledger("default")

        removed = await pruned(store, ALL)
        again = await pruned(store, ALL)

        assert (removed["events"], again.get("events", 0)) == (7, 0)
        assert [await store.event("default", f"e{n}") is None for n in range(1, 7)] == [True] * 5 + [False]
        assert before == await store.ledger("default")
        row = await owner.row(lane_id)
        assert (row.head, row.tail, row.acked) == (6, 6, 5)
        assert list(await store.attempts("default", "e1")) == []
        await balanced(store)
        await owner.deliver(lane_id)
        (stamp,) = (await published(store, event("e7", "a"))).results[0].stamps  # type: ignore[union-attr]
        assert stamp.seq == 7, "a lane never starts again"

    async def test_the_predecessor_of_a_kept_event_is_still_known(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 4)
        await owner.deliver(lane_id)
        for _ in range(2):
            letter = await owner.kill(lane_id)
            await store.skip("default", letter.id, note="x", actor="me", now=NOW)
        await owner.settle(lane_id, DELIVERED, at=20 * DAY_MS)

        for _ in range(3):
            await pruned(store, replace(ALL, events=Instant(T0 + 10 * DAY_MS), attempts=START))

        assert await store.event("default", "e3") is None
        members = await all_members(store, Wanted(state=DeliveryState.DELIVERED))
        assert [one.event_id for one in members] == ["e4"]
        job = await planned(store, Op.REPLAY, members)
        done = await store.carry_out(job.id, Op.REPLAY, [1], act=act("job.released"))
        ((_, _, again),) = await store.fetch([(done.lanes[0], 1, 1)])
        assert isinstance(again, Redelivery)
        assert (again.seq, again.prev_seq) == (4, 1)

    async def test_attempts_may_go_before_their_event(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 3)
        await owner.deliver(lane_id, 2)

        removed = await pruned(store, Cutoffs(attempts=LATER))

        assert removed["attempts"] == 2
        assert await store.event("default", "e1") is not None
        assert list(await store.attempts("default", "e1")) == []

    async def test_attempts_that_were_too_young_go_when_they_are_old(self, store: Store, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("old", "a"), event("young", "a", at=10 * DAY_MS))
        await owner.deliver(report.grown[0].lane_id)
        await owner.settle(report.grown[0].lane_id, DELIVERED, at=10 * DAY_MS)

        first = await pruned(store, Cutoffs(attempts=Instant(T0 + 5 * DAY_MS)))
        kept = await store.attempts("default", "young")
        second = await pruned(store, Cutoffs(attempts=LATER))

        assert (first["attempts"], len(kept), second["attempts"]) == (1, 1, 1)
        assert list(await store.attempts("default", "young")) == []

    async def test_a_repeated_publish_gets_the_same_answer_after_its_event_was_pruned(self, store: Store) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        named = draft(event("e1", "a"), "key:once", "id:e1")
        first = await store.publish([named])
        owner = await Owner.of(store)
        await owner.deliver(first.grown[0].lane_id)
        await pruned(store, replace(ALL, idempotency=START))
        assert await store.event("default", "e1") is None

        (again,) = (await store.publish([named])).results

        assert isinstance(again, Published)
        assert isinstance(first.results[0], Published)
        assert replace(first.results[0], repeated=True) == again
        assert (await store.ledger("default"))["accepted"] == 1

    async def test_a_name_lives_at_least_as_long_as_its_event(self, store: Store, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        named = draft(event("e1", "a"), "id:e1")
        first = await store.publish([named])

        assert (await pruned(store, ALL)).get("idempotency", 0) == 0
        (again,) = (await store.publish([named])).results
        assert isinstance(again, Published)
        assert again.repeated
        await owner.deliver(first.grown[0].lane_id)
        assert (await pruned(store, ALL)).get("idempotency") == 1

    async def test_an_event_that_is_being_sent_again_is_not_pruned(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 2)
        await owner.deliver(lane_id, 2)
        job = await planned(store, Op.REPLAY, await all_members(store, Wanted(state=DeliveryState.DELIVERED)))
        running = replace(job, state=JobState.RUNNING, job_id="job_1")
        await store.save_job(running, expect=job)
        await store.carry_out(job.id, Op.REPLAY, [1], act=act("job.released"))

        await pruned(store, ALL)

        assert await store.event("default", "e1") is not None
        assert await store.event("default", "e2") is None
        assert list(await store.changed(job.id)) == [2]
        done = await store.carry_out(job.id, Op.REPLAY, [2], act=act("job.released"))
        assert [n for n, _ in done.refused] == [2]

    async def test_old_plans_and_jobs_go_and_running_ones_stay(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 1)
        await owner.kill(lane_id)
        members = await all_members(store, Wanted())
        old, running = (
            await planned(store, Op.REPLAY, members * 5, "pln_0000000000000000"),
            await planned(store, Op.REPLAY, members, "pln_0000000000000001"),
        )
        await store.save_job(replace(running, state=JobState.RUNNING, job_id="job_1"), expect=running)

        await pruned(store, ALL)

        assert await store.job("default", old.id) is None
        assert list(await store.members(old.id, after=0, limit=9)) == []
        assert await store.job("default", running.id) is not None
        assert len(await store.members(running.id, after=0, limit=9)) == 1

    async def test_a_drained_endpoint_is_forgotten_only_when_nothing_is_owed(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 2)
        letter = await owner.kill(lane_id)
        (one,) = await store.endpoints()
        await store.save_endpoint(replace(one, state=EndpointState.DRAINING), expect=one)

        for still_owed in (True, True, False):
            await store.tidy()
            if still_owed:
                assert len(await store.endpoints()) == 1
            if await store.dead_letter("default", letter.id):
                await store.skip("default", letter.id, note="x", actor="me", now=NOW)
            elif still_owed:
                await owner.deliver(lane_id)
        await self.wait_for_tombstone(store)
        await store.tidy()
        assert list(await store.endpoints()) == []
        await balanced(store)

    async def test_a_drained_endpoint_is_not_forgotten_while_something_is_sent_to_it_again(self, store: Store) -> None:
        lane_id = await lane_with(store, 1)
        owner = await Owner.of(store)
        await owner.deliver(lane_id)
        job = await planned(store, Op.REPLAY, await all_members(store, Wanted(state=DeliveryState.DELIVERED)))
        (again,) = (await store.carry_out(job.id, Op.REPLAY, [1], act=act("job.released"))).lanes
        (one,) = await store.endpoints()
        await store.save_endpoint(replace(one, state=EndpointState.DRAINING), expect=one)
        await self.wait_for_tombstone(store)

        await store.tidy()
        still_owed = await store.endpoints()
        await owner.deliver(again)
        await store.tidy()

        assert [found.id for found in still_owed] == [one.id]
        assert list(await store.endpoints()) == []
        await balanced(store)

    async def wait_for_tombstone(self, store: Store) -> None:
        """Return when a store that keeps tombstones for a while would let them go."""
