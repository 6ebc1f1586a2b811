"""Commits: what each outcome changes."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.attempt import DELIVERED, Cancel, Dead, Gone, Outcome, Retry
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.lane import DeliveryState, LaneId, LaneState
from hooklane.store.reads import LetterFilter
from hooklane.testing.conformance_outbox.kit import (
    T0,
    Outbox,
    OutboxKit,
    Owner,
    answer,
    endpoint,
    event,
    published,
)

LATER = Instant(T0 + 60_000)


async def lane_of(store: Outbox, many: int = 3, key: str | None = "a") -> LaneId:
    """A lane with events e1 … at a fresh endpoint."""
    await store.save_endpoint(endpoint(), expect=None)
    report = await published(store, *(event(f"e{n}", key) for n in range(1, many + 1)))
    return report.grown[0].lane_id


async def state_of(store: Outbox, event_id: str) -> DeliveryState:
    (delivery,) = (await store.deliveries("default", [event_id]))[event_id]
    return delivery.state


class Settling(OutboxKit):
    async def test_a_delivered_head_moves_its_lane_on_by_one(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)

        await owner.deliver(lane_id)

        row = await owner.row(lane_id)
        assert (row.head, row.tail, row.acked, row.state) == (2, 3, 1, LaneState.ACTIVE)

    async def test_a_lane_that_delivered_all_is_idle_and_wakes_with_the_next_event(self, store: Outbox) -> None:
        lane_id = await lane_of(store, 1)
        owner = await Owner.of(store)
        await owner.deliver(lane_id)
        assert await owner.loaded() == {}

        await published(store, event("e2", "a"))

        row = (await owner.loaded())[lane_id]
        assert (row.head, row.tail, row.acked) == (2, 2, 1)

    async def test_a_failed_head_keeps_its_place_and_its_count(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)

        await owner.fail(lane_id, at=5_000)
        await owner.fail(lane_id, at=9_000)

        row = await owner.row(lane_id)
        assert (row.head, row.attempts, row.next_at, row.state) == (1, 2, T0 + 9_000, LaneState.RETRYING)

    async def test_a_lane_says_when_its_head_failed_last(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)

        for at in (1_000, 5_000):
            failure = await owner.settle(lane_id, Retry(LATER, "500"), at=at)

        lane = await store.lane("default", "ep_a", "a")
        assert lane is not None
        assert (lane.since, lane.attempts) == (failure.at, 2)

    async def test_a_dead_head_stops_its_lane(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)

        await owner.kill(lane_id)

        row = (await owner.loaded())[lane_id]
        assert (row.head, row.state) == (1, LaneState.BLOCKED)
        await published(store, event("e4", "a"))
        row = await owner.row(lane_id)
        assert (row.head, row.tail, row.state) == (1, 4, LaneState.BLOCKED)

    async def test_a_gap_at_the_receiver_stops_the_lane_like_a_death(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)

        letter = await owner.kill(lane_id, gap=True)

        assert LaneState.BLOCKED is (await owner.row(lane_id)).state
        assert letter.seq == 1

    async def test_a_head_given_up_by_policy_is_recorded_and_the_lane_moves_on(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        owner = await Owner.of(store)
        await owner.deliver(lane_id)

        await owner.settle(lane_id, Dead("422", skip=True))

        row = await owner.row(lane_id)
        assert (row.head, row.acked, row.state, row.attempts) == (3, 1, LaneState.ACTIVE, 0)
        assert DeliveryState.SKIPPED is await state_of(store, "e2")

    async def test_410_disables_the_endpoint_and_keeps_what_is_owed(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        mark = (await owner.load()).mark

        await owner.settle(lane_id, Gone("410"), result=answer(410))

        (one,) = await store.endpoints()
        assert EndpointState.DISABLED is one.state
        row = await owner.row(lane_id)
        assert (row.head, row.state) == (1, LaneState.RETRYING)
        news = await store.poll("w1", list(owner.epochs), mark)
        assert [one] == list(news.endpoints)

    async def test_a_repeated_410_does_not_disable_an_endpoint_that_was_resumed(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        owner = await Owner.of(store)
        settlement = await owner.settle(lane_id, Gone("410"), result=answer(410))
        (disabled,) = await store.endpoints()
        await store.save_endpoint(endpoint(), expect=disabled)

        await owner.commit(settlement)

        assert [endpoint()] == list(await store.endpoints())

    async def test_410_leaves_a_paused_endpoint_paused(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        late = await owner.settlement(lane_id, Gone("410"), result=answer(410))
        paused = replace(endpoint(), state=EndpointState.PAUSED)
        await store.save_endpoint(paused, expect=endpoint())

        await owner.commit(late)

        assert [paused] == list(await store.endpoints()), "a person's word: it is asked again after the resume"

    async def test_cancelling_ends_everything_that_is_owed_up_to_the_tail(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store, 4)
        await owner.deliver(lane_id)
        row = await owner.row(lane_id)

        report = await owner.commit(Cancel(lane_id, row.pid, 2, 4, row.rev))
        await owner.commit(Cancel(lane_id, row.pid, 2, 4, row.rev))  # a repeat changes nothing

        assert not report.stale
        assert await owner.loaded() == {}
        await published(store, event("e5", "a"))
        states = [await state_of(store, f"e{n}") for n in range(1, 6)]
        cancelled = DeliveryState.CANCELLED
        assert [DeliveryState.DELIVERED, cancelled, cancelled, cancelled, DeliveryState.QUEUED] == states
        assert (await owner.row(lane_id)).head == 5

    async def test_what_was_decided_before_a_replay_cancels_nothing(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        row = await owner.row(lane_id)
        letter = await owner.kill(lane_id)
        await store.replay("default", letter.id, actor="me", now=T0)

        report = await owner.commit(Cancel(lane_id, row.pid, 1, 3, row.rev))

        assert {lane_id} == report.stale
        assert DeliveryState.QUEUED is await state_of(store, "e1")

    async def test_what_was_decided_of_an_older_head_cancels_nothing(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store, 3)
        row = await owner.row(lane_id)
        await owner.deliver(lane_id)

        report = await owner.commit(Cancel(lane_id, row.pid, 1, 3, row.rev))

        assert {lane_id} == report.stale
        states = [await state_of(store, f"e{n}") for n in range(1, 4)]
        assert states == [DeliveryState.DELIVERED, DeliveryState.QUEUED, DeliveryState.QUEUED]

    async def test_a_dead_head_can_be_cancelled(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store, 2)
        letter = await owner.kill(lane_id)
        row = await owner.row(lane_id)

        await owner.commit(Cancel(lane_id, row.pid, 1, 2, row.rev))

        assert await owner.loaded() == {}
        assert await store.dead_letter("default", letter.id) is None
        assert await store.replay("default", letter.id, actor="me", now=T0) is None

    async def test_loose_deliveries_fail_die_and_land_on_their_own(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", None) for n in range(1, 6)))
        landed, failed, died, given_up, _ = (one.lane_id for one in report.grown)

        await owner.deliver(landed)
        await owner.fail(failed, at=8_000)
        letter = await owner.kill(died)
        await owner.settle(given_up, Dead("422", skip=True))

        states = [await state_of(store, f"e{n}") for n in range(1, 6)]
        assert [str(state) for state in states] == ["delivered", "retrying", "dead", "skipped", "queued"]
        row = await owner.row(failed)
        assert (row.head, row.tail, row.attempts, row.next_at) == (1, 1, 1, T0 + 8_000)
        assert (letter.key, letter.seq, letter.waiting) == (None, None, 0)

    async def test_a_loose_delivery_that_failed_before_ends_as_any_other_and_once(self, store: Outbox) -> None:
        outcomes: list[Outcome] = [DELIVERED, Retry(LATER, "503"), Dead("422"), Dead("422", skip=True)]
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", None) for n in range(len(outcomes))))
        lanes = [one.lane_id for one in report.grown]
        owner = await Owner.of(store)
        for lane_id in lanes:
            await owner.fail(lane_id)

        writes = [await owner.settle(lane, outcome) for lane, outcome in zip(lanes, outcomes, strict=True)]
        for write in writes:
            await owner.commit(write)

        states = [await state_of(store, f"e{n}") for n in range(len(outcomes))]
        assert [str(state) for state in states] == ["delivered", "retrying", "dead", "skipped"]
        ledger = await store.ledger("default")
        assert [ledger[name] for name in ("accepted", "delivered", "dead", "skipped")] == [4, 1, 1, 1]
        assert {lanes[1]} == set(await owner.loaded())

    async def test_loose_deliveries_can_be_cancelled(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store, 1, key=None)
        row = await owner.row(lane_id)

        await owner.commit(Cancel(lane_id, row.pid, 1, 1, row.rev))

        assert DeliveryState.CANCELLED is await state_of(store, "e1")
        assert list(await store.reload([lane_id])) == []

    async def test_a_loose_delivery_that_was_skipped_is_not_cancelled_any_more(self, store: Outbox) -> None:
        lane_id = await lane_of(store, 1, key=None)
        owner = await Owner.of(store)
        row = await owner.row(lane_id)
        await owner.settle(lane_id, Dead("422", skip=True))

        await owner.commit(Cancel(lane_id, row.pid, 1, 1, row.rev))

        assert DeliveryState.SKIPPED is await state_of(store, "e1")

    async def test_one_commit_takes_many_lanes(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", f"k{n}") for n in range(4)))
        lanes = [one.lane_id for one in report.grown]
        outcomes: list[Outcome] = [DELIVERED, Retry(LATER, "503"), Dead("400"), DELIVERED]

        writes = [await owner.settlement(lane, outcome) for lane, outcome in zip(lanes, outcomes, strict=True)]
        committed = await owner.commit(*writes)

        assert (frozenset(), frozenset()) == (committed.fenced, committed.stale)
        states = [await state_of(store, f"e{n}") for n in range(4)]
        assert [str(state) for state in states] == ["delivered", "retrying", "dead", "delivered"]

    async def test_tidying_changes_nothing_of_what_owners_and_people_see(self, store: Outbox, owner: Owner) -> None:
        """Whatever two outcomes a lane has had: what waits to be folded says the same before and after."""
        outcomes: list[Outcome] = [DELIVERED, Retry(LATER, "503"), Dead("422"), Dead("422", skip=True)]
        acts = ("", "skip", "replay")
        await store.save_endpoint(endpoint(), expect=None)
        kinds = [(first, second, act) for first in outcomes for second in outcomes for act in acts]
        report = await published(store, *(event(f"e{n}-{seq}", f"k{n}") for n in range(len(kinds)) for seq in range(4)))
        lanes = list(dict.fromkeys(one.lane_id for one in report.grown))
        for outcome_of in ([first for first, _, _ in kinds], [second for _, second, _ in kinds]):
            alive = [lane for lane, row in (await owner.loaded()).items() if row.state is not LaneState.BLOCKED]
            writes = [await owner.settlement(lane, outcome_of[lanes.index(lane)]) for lane in alive]
            await owner.commit(*writes)
        letters = (await store.dead_letters("default", LetterFilter(), None, 200)).items
        for letter in letters:
            match kinds[lanes.index(letter.lane_id)][2]:
                case "skip":
                    await store.skip("default", letter.id, note="", actor="test", now=LATER)
                case "replay":
                    await store.replay("default", letter.id, actor="test", now=LATER)
        rows, ledger = await owner.loaded(), await store.ledger("default")
        states = await store.deliveries("default", [one.event.id for one in report.grown if one.event])

        await store.tidy()

        assert rows == await owner.loaded()
        assert ledger == await store.ledger("default")
        assert states == await store.deliveries("default", [one.event.id for one in report.grown if one.event])
