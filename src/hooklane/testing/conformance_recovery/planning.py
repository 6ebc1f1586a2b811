"""Which deliveries a plan means, and whether they are still as it saw them."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.attempt import Dead
from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState
from hooklane.model.plan import JobState, Op
from hooklane.store.recovery import AuditFilter, Wanted
from hooklane.testing.conformance_outbox.kit import (
    T0,
    OutboxKit,
    Owner,
    endpoint,
    event,
    published,
)
from hooklane.testing.conformance_recovery.kit import NOW, Store, act, all_members, lane_with, planned


class Planning(OutboxKit):
    async def test_dead_letters_are_selected_by_what_they_are(self, store: Store, owner: Owner) -> None:
        await store.save_endpoint(endpoint("ep_a", types=("order.*",)), expect=None)
        await store.save_endpoint(endpoint("ep_b", types=("user.*",)), expect=None)
        drafts = [event(f"e{n}", f"k{n}", type="user.new" if n == 3 else "order.paid") for n in range(1, 4)]
        report = await published(store, *drafts, event("loose", None, type="order.void"))
        for at, (one, reason) in enumerate(zip(report.grown, ("422", "503", "timeout", "500"), strict=True)):
            await owner.settle(one.lane_id, Dead(reason), at=1_000 * (at + 1))

        async def found(**wanted: object) -> list[str]:
            return sorted(one.event_id for one in await all_members(store, Wanted(**wanted), limit=2))  # type: ignore[arg-type]

        assert await found() == ["e1", "e2", "e3", "loose"]
        assert await found(endpoint_id="ep_b") == ["e3"]
        assert await found(key="k2") == ["e2"]
        assert await found(type="order.*") == ["e1", "e2", "loose"]
        assert await found(reason="5??") == ["e2", "loose"]
        assert await found(reason="timeout") == ["e3"]
        assert await found(after=Instant(T0 + 2_010)) == ["e2", "e3", "loose"]
        assert await found(before=Instant(T0 + 2_010)) == ["e1"]
        assert await all_members(store, Wanted(), tenant="other") == []

    async def test_a_member_says_where_it_stands_and_what_waits_behind_it(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 4)
        await owner.deliver(lane_id)
        letter = await owner.kill(lane_id)

        (member,) = await all_members(store, Wanted())

        assert (member.event_id, member.type, member.endpoint_id, member.lane_id, member.key, member.seq) == (
            "e2",
            "order.created",
            "ep_a",
            lane_id,
            "a",
            2,
        )
        assert (member.state, member.dead_letter_id, member.waiting, member.reason) == (
            DeliveryState.DEAD,
            letter.id,
            2,
            "422",
        )
        assert member.pid == (await owner.row(lane_id)).pid

    async def test_delivered_events_are_selected_since_a_time(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 5)
        await owner.deliver(lane_id, 4)

        found = await all_members(store, Wanted(state=DeliveryState.DELIVERED, after=Instant(T0 + 2)), limit=2)

        assert [(one.event_id, one.seq) for one in found] == [("e2", 2), ("e3", 3), ("e4", 4)]

    async def test_ids_find_events_and_letters_in_any_state(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 4)
        await owner.deliver(lane_id)
        skipped = await owner.kill(lane_id)
        await store.skip("default", skipped.id, note="", actor="me", now=NOW)
        dead = await owner.kill(lane_id)

        found = await all_members(store, Wanted(ids=["e1", skipped.id, dead.id, "e4", "nothing"]))

        assert [(one.event_id, str(one.state)) for one in found] == [
            ("e1", "delivered"),
            ("e2", "skipped"),
            ("e3", "dead"),
            ("e4", "queued"),
        ]
        assert await all_members(store, Wanted(ids=["e1"]), tenant="other") == []

    async def test_ids_can_be_meant_at_one_endpoint_alone(self, store: Store, owner: Owner) -> None:
        await store.save_endpoint(endpoint("ep_a"), expect=None)
        await store.save_endpoint(endpoint("ep_b"), expect=None)
        report = await published(store, event("e1"))
        letters = {one.endpoint_id: await owner.kill(one.lane_id) for one in report.grown}

        async def found(endpoint_id: str | None, *ids: str) -> list[str]:
            members = await all_members(store, Wanted(ids=ids, endpoint_id=endpoint_id))
            return sorted(one.endpoint_id for one in members)

        assert await found(None, "e1") == ["ep_a", "ep_b"]
        assert await found("ep_b", "e1") == ["ep_b"]
        assert await found("ep_b", letters["ep_b"].id) == ["ep_b"]
        assert await found("ep_b", letters["ep_a"].id) == []

    async def test_a_member_that_was_named_tells_as_much_as_one_that_was_found(self, store: Store) -> None:
        lane_id = await lane_with(store, 4)
        owner = await Owner.of(store)
        skipped = await owner.kill(lane_id)
        await store.skip("default", skipped.id, note="", actor="me", now=NOW)
        dead = await owner.kill(lane_id)

        given_up, blocking = await all_members(store, Wanted(ids=[skipped.id, dead.id]))

        assert [blocking] == await all_members(store, Wanted())
        assert (given_up.reason, given_up.version) == ("422", str(skipped.died_at))

    async def test_a_page_of_members_that_is_added_twice_is_there_once(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 2)
        await owner.kill(lane_id)
        members = await all_members(store, Wanted())
        job = await planned(store, Op.REPLAY, members)

        await store.add_members(job.id, "default", 1, members)

        assert [one.n for one in await store.members(job.id, after=0, limit=9)] == [1]

    async def test_a_plan_knows_which_of_its_members_changed(self, store: Store, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", f"k{n}") for n in range(1, 5)))
        lanes = [one.lane_id for one in report.grown]
        for lane_id in lanes[:3]:
            await owner.kill(lane_id)
        await owner.deliver(lanes[3])
        members = await all_members(store, Wanted())
        members += await all_members(store, Wanted(state=DeliveryState.DELIVERED))
        job = await planned(store, Op.REPLAY, members)
        assert await store.changed(job.id) == []

        await store.skip("default", members[0].dead_letter_id or "", note="", actor="you", now=NOW)
        await store.replay("default", members[1].dead_letter_id or "", actor="you", now=NOW)
        await owner.settle(members[1].lane_id, Dead("422"), at=5_000)  # it died again: another death

        assert await store.changed(job.id) == [1, 2]

    async def test_a_job_is_saved_only_where_it_is_still_as_known(self, store: Store) -> None:
        job = await planned(store, Op.REPLAY, [])
        running = replace(job, state=JobState.RUNNING, job_id="job_1", rate=2.5, asked={"type": "a*"})

        assert await store.save_job(running, expect=job, act=act("job.started"))
        assert not await store.save_job(replace(job, state=JobState.STOPPED), expect=job, act=act("job.stopped"))

        assert running == await store.job("default", "pln_1") == await store.job("default", "job_1")
        assert [running] == list(await store.open_jobs())
        assert await store.job("other", "pln_1") is None
        lines = (await store.audit("default", AuditFilter(), None, 9)).items
        assert [one.act.action for one in lines] == ["job.started"]
