"""What was sent and is not there: a failover that lost the last commits, as a process finds it that remembers them."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.core.lost import mend
from hooklane.model.attempt import DELIVERED, Dead
from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.model.lost import REASON, KnownPlace, LostLane, is_lost
from hooklane.store.reads import LetterFilter
from hooklane.testing.conformance_outbox.kit import T0, Outbox, OutboxKit, Owner, endpoint, event, published
from hooklane.testing.conformance_outbox.settling import lane_of, state_of

NOW = Instant(T0 + 90_000)


async def account(store: Outbox, pid: int, sent: dict[int, str], key: str | None = "a") -> Sequence[LostLane]:
    places = [KnownPlace("default", "ep_a", key, pid, seq, event_id) for seq, event_id in sent.items()]
    return await store.account_for(places, mend, NOW)


async def pid_of(store: Outbox, lane_id: int) -> int:
    (row,) = await store.reload([lane_id])
    return row.pid


async def pass_lost(owner: Owner, lane_id: int) -> int:
    """What an engine does with a lost event; the seq that it had."""
    settlement = await owner.settlement(lane_id, Dead(REASON, skip=True))
    assert is_lost(settlement.send.event)
    settlement.result = None
    assert not (await owner.commit(settlement)).stale
    return settlement.send.seq


class Accounting(OutboxKit):
    async def test_what_is_where_it_was_sent_changes_nothing(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        before = await owner.row(lane_id)

        lost = await account(store, before.pid, {1: "e1", 2: "e2", 3: "e3"})

        assert not lost
        assert before == await owner.row(lane_id)
        await owner.deliver(lane_id)

    async def test_a_seq_that_receivers_have_seen_is_not_given_to_another_event(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        sent = {3: "e3", 4: "gone4", 5: "gone5"}

        (lost,) = await account(store, await pid_of(store, lane_id), sent)

        assert (lost.lost, lost.next_seq) == (((4, "gone4"), (5, "gone5")), 6)
        (grown,) = (await published(store, event("new", "a"))).grown
        assert (lane_id, 6) == (grown.lane_id, grown.seq)
        assert lost.note == "the database lost #4 (gone4), #5 (gone5); the lane goes on at #6"

    async def test_what_is_lost_is_passed_over_and_prev_seq_names_the_last_one_that_landed(self, store: Outbox) -> None:
        lane_id = await lane_of(store, 1)
        await account(store, await pid_of(store, lane_id), {2: "gone2", 3: "gone3"})
        await published(store, event("new", "a"))
        owner = await Owner.of(store)
        await owner.deliver(lane_id)

        passed = [await pass_lost(owner, lane_id), await pass_lost(owner, lane_id)]

        assert passed == [2, 3]
        row = await owner.row(lane_id)
        assert (row.head, row.tail, row.acked) == (4, 4, 1)
        await owner.deliver(lane_id)
        assert DeliveryState.DELIVERED is await state_of(store, "new")
        ledger = await store.ledger("default")
        assert (
            ledger["accepted"],
            ledger[DeliveryState.DELIVERED],
            ledger[DeliveryState.SKIPPED],
        ) == (4, 2, 2)

    async def test_an_event_that_got_a_seq_of_a_lost_one_moves_up_and_is_sent_once_more(self, store: Outbox) -> None:
        lane_id = await lane_of(store)  # e1, e2, e3; receivers have seen others as #2, #3 and #4
        owner = await Owner.of(store)
        await owner.deliver(lane_id)
        late = await owner.settlement(lane_id, DELIVERED)

        (lost,) = await account(store, late.send.pid, {1: "e1", 2: "gone2", 3: "gone3", 4: "gone4"})

        assert (lost.lost, lost.moved, lost.next_seq) == (((2, "gone2"), (3, "gone3"), (4, "gone4")), 2, 7)
        assert frozenset([late.send.pid]) == (await owner.commit(late)).fenced
        await owner.acquire()
        assert [await pass_lost(owner, lane_id) for _ in range(3)] == [2, 3, 4]
        for event_id, seq in (("e2", 5), ("e3", 6)):
            assert DeliveryState.QUEUED is await state_of(store, event_id)
            settled = await owner.settle(lane_id, DELIVERED)
            assert (event_id, seq) == (settled.send.event.id, settled.send.seq)
            assert DeliveryState.DELIVERED is await state_of(store, event_id)

    async def test_what_was_delivered_in_a_seq_of_a_lost_one_does_not_count_as_delivered(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        owner = await Owner.of(store)
        await owner.deliver(lane_id, 2)

        (lost,) = await account(store, await pid_of(store, lane_id), {1: "e1", 2: "gone2"})

        assert (lost.lost, lost.reused, lost.next_seq) == ((), ((2, "gone2"),), 4)
        assert DeliveryState.SKIPPED is await state_of(store, "e2")
        assert [await state_of(store, one) for one in ("e1", "e3")] == [DeliveryState.DELIVERED, DeliveryState.QUEUED]
        assert "given out twice" in lost.note
        assert not await account(store, await pid_of(store, lane_id), {1: "e1", 2: "gone2"})
        ledger = await store.ledger("default")
        assert (ledger["accepted"], ledger[DeliveryState.DELIVERED], ledger[DeliveryState.SKIPPED]) == (3, 1, 1)

    async def test_a_dead_head_that_moves_is_tried_again_in_its_new_place(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        await owner.fail(lane_id)
        await owner.kill(lane_id)

        await account(store, await pid_of(store, lane_id), {1: "gone1"})

        await owner.acquire()
        row = await owner.row(lane_id)
        assert (row.head, row.tail, row.state, row.attempts) == (1, 4, LaneState.ACTIVE, 0)
        assert not (await store.dead_letters("default", LetterFilter(), None, 9)).items
        await pass_lost(owner, lane_id)
        assert (await owner.settle(lane_id, DELIVERED)).send.event.id == "e1"

    async def test_a_lane_that_is_lost_with_its_first_event_begins_behind_it(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)

        (lost,) = await account(store, 7, {1: "gone1", 2: "gone2"}, key="new")

        assert lost.next_seq == 3
        (grown,) = (await published(store, event("e3", "new"))).grown
        assert grown.seq == 3

    async def test_what_is_lost_is_told_once(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        pid, sent = await pid_of(store, lane_id), {3: "gone3", 4: "gone4"}
        assert await account(store, pid, sent)

        again = await account(store, pid, sent)

        assert again == []

    async def test_what_was_lost_without_order_or_with_its_endpoint_is_on_record(self, store: Outbox) -> None:
        await lane_of(store)
        places = [
            KnownPlace("default", "ep_a", None, 7, 1, "loose1"),
            KnownPlace("default", "ep_gone", "k", 7, 1, "gone1"),
        ]

        lost = await store.account_for(places, mend, NOW)

        assert not await store.account_for(places, mend, NOW)
        assert {"loose1", "gone1"} == {event_id for one in lost for _, event_id in one.lost}

    async def test_what_went_with_its_tenant_is_not_lost(self, store: Outbox) -> None:
        await lane_of(store)

        lost = await store.account_for([KnownPlace("gone", "ep_gone", "k", 7, 1, "e1")], mend, NOW)

        assert not lost
