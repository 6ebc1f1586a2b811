"""The memory store keeps the promises of an outbox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hooklane.core.fanout import places
from hooklane.model.attempt import DELIVERED, Cancel, Dead, Retry
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import StoreOptions
from hooklane.testing.conformance_outbox import ManyWorkersConformance, Outbox, OutboxConformance
from hooklane.testing.conformance_outbox.kit import T0, Owner, endpoint, event
from hooklane.testing.conformance_outbox.settling import LATER, lane_of


class TestMemoryOutbox(OutboxConformance, ManyWorkersConformance):
    @pytest.fixture
    async def store(self):
        self.now = Instant(1_760_000_000_000)
        return MemoryOutbox(StoreOptions(placer=places), clock=lambda: self.now)

    async def wait_for_expiry(self, store: Outbox, lease_ms: int) -> None:
        self.now = Instant(self.now + lease_ms)

    # --- what it says at once, or more strictly than others: a simulated engine that is wrong is found out ---

    async def test_a_success_that_comes_after_a_death_or_a_replay_moves_nothing(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        owner = await Owner.of(store)
        late = await owner.settlement(lane_id, DELIVERED)
        letter = await owner.kill(lane_id)

        dead = await owner.commit(late)
        await store.replay("default", letter.id, actor="me", now=T0)
        replayed = await owner.commit(late)

        assert {lane_id} == dead.stale == replayed.stale
        assert (await owner.row(lane_id)).head == 1

    async def test_an_outcome_of_an_event_that_does_not_stand_there_moves_nothing(self, store: Outbox) -> None:
        """As where the store lost its last moments, and gave the place out once more."""
        lane_id = await lane_of(store)
        owner = await Owner.of(store)
        for outcome in (DELIVERED, Retry(LATER, "500"), Dead("500")):
            settlement = await owner.settlement(lane_id, outcome)
            other = replace(settlement.send, event=event("gone", "a"))

            report = await owner.commit(replace(settlement, send=other))

            assert {lane_id} == report.stale
        row = await owner.row(lane_id)
        assert (row.head, row.attempts) == (1, 0)

    async def test_a_success_further_on_than_the_head_moves_nothing(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        settlement = await owner.settlement(lane_id, DELIVERED)
        second = replace(settlement.send, seq=2, event=event("e2", "a"))

        assert {lane_id} == (await owner.commit(replace(settlement, send=second))).stale
        assert (await owner.row(lane_id)).head == 1

    async def test_what_is_written_twice_is_not_stale(self, store: Outbox, owner: Owner) -> None:
        lane_id = await lane_of(store)
        ack = await owner.settle(lane_id, DELIVERED)
        row = await owner.row(lane_id)
        cancel = Cancel(lane_id, row.pid, 2, 3, row.rev)

        for write in (ack, cancel, cancel):
            assert not (await owner.commit(write)).stale

    async def test_acks_that_are_folded_are_forgotten(self, store: Outbox, owner: Owner) -> None:
        await owner.deliver(await lane_of(store))

        await store.tidy()

        assert store.tables.acks == {}

    async def test_a_poll_tells_nothing_of_an_endpoint_that_is_forgotten(self, store: Outbox, owner: Owner) -> None:
        one = endpoint()
        await store.save_endpoint(one, expect=None)
        mark = (await owner.load()).mark
        await store.save_endpoint(replace(one, state=EndpointState.CANCELLING), expect=one)
        await store.tidy()

        assert list((await store.poll("w1", list(owner.epochs), mark)).endpoints) == []
