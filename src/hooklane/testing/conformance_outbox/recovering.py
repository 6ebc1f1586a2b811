"""Dead letters: what a person sees of them, and the two ways out."""

from __future__ import annotations

from hooklane.model.attempt import DELIVERED, Dead
from hooklane.model.clock import Instant
from hooklane.model.ids import dead_letter_id
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.store.reads import LetterFilter
from hooklane.testing.conformance_outbox.kit import T0, Outbox, OutboxKit, Owner, endpoint, event, published
from hooklane.testing.conformance_outbox.settling import lane_of, state_of

NOW = Instant(T0 + 90_000)


class Recovering(OutboxKit):
    async def test_a_dead_letter_has_one_id_per_event_and_endpoint(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)

        letter = await owner.kill(lane_id)

        assert dead_letter_id("e1", T0, "ep_a") == letter.id
        assert letter == await store.dead_letter("default", letter.id)
        assert ("e1", "order.created", "ep_a", lane_id, "a", 1) == (
            letter.event_id,
            letter.type,
            letter.endpoint_id,
            letter.lane_id,
            letter.key,
            letter.seq,
        )
        assert (
            letter.attempts,
            letter.reason,
            letter.died_at,
            letter.waiting,
            letter.note,
        ) == (1, "422", T0 + 1_010, 2, "")

    async def test_a_replay_revives_the_same_head_with_attempts_anew(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        await owner.fail(lane_id)
        letter = await owner.kill(lane_id)
        before = await owner.row(lane_id)

        recovery = await store.replay("default", letter.id, actor="me", now=NOW)

        assert recovery is not None
        assert (lane_id, "ep_a", "a", 1, 2) == (
            recovery.lane_id,
            recovery.endpoint_id,
            recovery.key,
            recovery.seq,
            recovery.released,
        )
        row = (await owner.loaded())[lane_id]
        assert (row.head, row.attempts, row.state) == (1, 0, LaneState.ACTIVE)
        assert row.next_at <= NOW
        assert row.rev > before.rev
        assert DeliveryState.QUEUED is await state_of(store, "e1")

    async def test_a_skip_releases_what_waits_and_says_so_to_the_next(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        await owner.deliver(lane_id)
        letter = await owner.kill(lane_id)

        recovery = await store.skip("default", letter.id, note="unknown sku", actor="me", now=NOW)

        assert recovery is not None
        assert (recovery.seq, recovery.released) == (2, 1)
        row = (await owner.loaded())[lane_id]
        assert (row.head, row.acked, row.attempts, row.state) == (3, 1, 0, LaneState.ACTIVE)
        assert DeliveryState.SKIPPED is await state_of(store, "e2")
        await owner.deliver(lane_id)
        assert (await owner.row(lane_id)).acked == 3

    async def test_skipping_the_last_event_leaves_an_idle_lane(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store, 1)
        letter = await owner.kill(lane_id)

        await store.skip("default", letter.id, note="", actor="me", now=NOW)

        assert await owner.loaded() == {}
        await published(store, event("e2", "a"))
        row = (await owner.loaded())[lane_id]
        assert (row.head, row.tail, row.acked) == (2, 2, 0)

    async def test_only_the_first_of_two_recoveries_counts(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        letter = await owner.kill(lane_id)

        assert await store.replay("default", letter.id, actor="me", now=NOW) is not None
        assert await store.replay("default", letter.id, actor="you", now=NOW) is None
        assert await store.skip("default", letter.id, note="", actor="you", now=NOW) is None
        assert (await owner.row(lane_id)).head == 1
        assert await store.dead_letter("default", letter.id) is None

    async def test_nobody_recovers_what_is_not_dead_or_not_theirs(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        alive = dead_letter_id("e1", T0, "ep_a")
        assert await store.replay("default", alive, actor="me", now=NOW) is None
        letter = await owner.kill(lane_id)

        assert await store.replay("other", letter.id, actor="me", now=NOW) is None
        assert await store.skip("other", letter.id, note="", actor="me", now=NOW) is None
        assert await store.replay("default", "dlv_nothing", actor="me", now=NOW) is None
        assert LaneState.BLOCKED is (await owner.row(lane_id)).state

    async def test_a_late_repeat_of_the_death_cannot_undo_a_recovery(self, store: Outbox, owner: Owner) -> None:
        for number, verb in enumerate(("replay", "skip"), start=1):
            await store.save_endpoint(endpoint(f"ep_{verb}", types=(verb,)), expect=None)
            report = await published(store, event(f"{verb}1", "a", type=verb), event(f"{verb}2", "a", type=verb))
            lane_id = report.grown[0].lane_id
            settlement = await owner.settle(lane_id, Dead("422"))
            letter_id = dead_letter_id(f"{verb}1", T0, f"ep_{verb}")
            if verb == "replay":
                await store.replay("default", letter_id, actor="me", now=NOW)
            else:
                await store.skip("default", letter_id, note="", actor="me", now=NOW)

            committed = await owner.commit(settlement)

            assert {lane_id} == committed.stale
            row = await owner.row(lane_id)
            assert (number, LaneState.ACTIVE) == (row.head, row.state)
            assert await store.dead_letter("default", letter_id) is None

    async def test_a_replayed_event_may_die_again_under_the_same_id(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        first = await owner.kill(lane_id)
        await store.replay("default", first.id, actor="me", now=NOW)

        second = await owner.kill(lane_id)

        assert first.id == second.id
        page = await store.dead_letters("default", LetterFilter(), None, 10)
        assert [second] == list(page.items)

    async def test_a_replayed_event_that_lands_is_no_dead_letter_any_more(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        letter = await owner.kill(lane_id)
        await store.replay("default", letter.id, actor="me", now=NOW)

        await owner.settle(lane_id, DELIVERED)

        assert DeliveryState.DELIVERED is await state_of(store, "e1")
        page = await store.dead_letters("default", LetterFilter(), None, 10)
        assert (list(page.items), page.next) == ([], None)

    async def test_a_poll_wakes_the_lanes_that_a_person_recovered(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        letter = await owner.kill(lane_id)
        mark = (await owner.load()).mark
        await store.replay("default", letter.id, actor="me", now=NOW)

        news = await store.poll("w1", list(owner.epochs), mark)
        later = await store.poll("w1", list(owner.epochs), news.mark)

        assert [lane_id] == list(news.recovered)
        assert list(later.recovered) == []
        pid = (await owner.row(lane_id)).pid
        others = await store.poll("w1", [one for one in owner.epochs if one != pid], mark)
        assert list(others.recovered) == []

    async def test_loose_dead_letters_are_replayed_and_skipped(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", None), event("e2", None))
        first, second = (one.lane_id for one in report.grown)
        letters = [await owner.kill(first), await owner.kill(second)]

        replayed = await store.replay("default", letters[0].id, actor="me", now=NOW)
        skipped = await store.skip("default", letters[1].id, note="n", actor="me", now=NOW)

        assert replayed is not None
        assert skipped is not None
        assert (first, None, 0) == (replayed.lane_id, replayed.key, replayed.released)
        row = (await owner.loaded())[first]
        assert (row.head, row.tail, row.attempts) == (1, 1, 0)
        assert list(await store.reload([second])) == []
        assert DeliveryState.SKIPPED is await state_of(store, "e2")
        await owner.deliver(first)
        assert DeliveryState.DELIVERED is await state_of(store, "e1")

    async def test_a_note_stays_with_its_dead_letter(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        letter = await owner.kill(lane_id)

        assert await store.set_note("default", letter.id, "asked the customer")
        assert not await store.set_note("other", letter.id, "not mine")
        assert not await store.set_note("default", "dlv_nothing", "nobody")
        found = await store.dead_letter("default", letter.id)
        assert found is not None
        assert found.note == "asked the customer"
        await store.replay("default", letter.id, actor="me", now=NOW)
        assert (await owner.kill(lane_id)).note == "asked the customer"
