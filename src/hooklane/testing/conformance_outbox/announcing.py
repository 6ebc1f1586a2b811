"""Attempts that are announced: on record until they come to something, lest it be forgotten of which a worker died."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hooklane.model.attempt import DELIVERED, Dead, Retry, Settlement, Start
from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState, LaneId, LaneRow, LaneState
from hooklane.store.reads import LetterFilter
from hooklane.testing.conformance_outbox.kit import T0, Outbox, OutboxKit, Owner, event, published
from hooklane.testing.conformance_outbox.settling import lane_of, state_of

LATER = Instant(T0 + 60_000)


def start_of(row: LaneRow, starts: int, *, alone: bool = False) -> Start:
    """The announcement that an engine would make of the next attempt."""
    return Start(row.id, row.pid, row.head, row.attempts + alone, row.rev, starts)


async def announce(owner: Owner, lane_id: LaneId, *, alone: bool = False) -> Start:
    """Announce an attempt at the head of a lane, and insist that the store took it."""
    row = await owner.row(lane_id)
    start = start_of(row, row.starts + 1, alone=alone)
    report = await owner.commit(start)
    assert (report.fenced, report.stale) == (frozenset(), frozenset())
    return start


async def last_of(owner: Owner, lane_id: LaneId, outcome: Dead) -> Settlement:
    """The end of a head of which workers died: it was not seen, and its last attempt is counted already."""
    settlement = await owner.settlement(lane_id, outcome)
    send = replace(settlement.send, attempt=settlement.send.attempt - 1)
    return Settlement(send, outcome, settlement.at, None)


class Announcing(OutboxKit):
    @pytest.mark.parametrize("key", ["a", None])
    async def test_an_announcement_is_on_record_and_changes_nothing_else(self, store: Outbox, key: str | None) -> None:
        lane_id = await lane_of(store, 1, key)
        owner = await Owner.of(store)
        await owner.fail(lane_id)
        before = await owner.row(lane_id)

        await announce(owner, lane_id)
        await announce(owner, lane_id)

        assert await owner.row(lane_id) == replace(before, starts=2)
        assert (await owner.loaded())[lane_id] == replace(before, starts=2)
        assert DeliveryState.RETRYING is await state_of(store, "e1")

    @pytest.mark.parametrize("key", ["a", None])
    async def test_an_attempt_that_is_announced_alone_counts(self, store: Outbox, key: str | None) -> None:
        lane_id = await lane_of(store, 1, key)
        owner = await Owner.of(store)

        await announce(owner, lane_id, alone=True)

        row = await owner.row(lane_id)
        assert (row.head, row.attempts, row.starts) == (1, 1, 1)

    @pytest.mark.parametrize("key", ["a", None])
    @pytest.mark.parametrize("alone", [False, True])
    async def test_a_repeated_announcement_is_one(self, store: Outbox, key: str | None, alone: bool) -> None:
        lane_id = await lane_of(store, 1, key)
        owner = await Owner.of(store)
        start = await announce(owner, lane_id, alone=alone)

        report = await owner.commit(start)

        row = await owner.row(lane_id)
        assert not report.stale
        assert (row.attempts, row.starts) == (alone, 1)

    @pytest.mark.parametrize("key", ["a", None])
    async def test_announcements_may_be_passed_over_but_not_taken_back(self, store: Outbox, key: str | None) -> None:
        lane_id = await lane_of(store, 1, key)
        owner = await Owner.of(store)
        row = await owner.row(lane_id)

        ahead = await owner.commit(start_of(row, 3, alone=True))
        behind = await owner.commit(start_of(row, 2, alone=True))
        other = await owner.commit(start_of(replace(row, attempts=1), 3, alone=True))

        assert not ahead.stale
        assert {lane_id} == behind.stale == other.stale
        assert (await owner.row(lane_id)).starts == 3

    @pytest.mark.parametrize("key", ["a", None])
    @pytest.mark.parametrize("alone", [False, True])
    async def test_a_failure_wipes_announcements_out_and_counts_once(
        self, store: Outbox, key: str | None, alone: bool
    ) -> None:
        lane_id = await lane_of(store, 1, key)
        owner = await Owner.of(store)
        failure = await owner.settlement(lane_id, Retry(LATER, "500"))
        await announce(owner, lane_id, alone=alone)

        first = await owner.commit(failure)
        again = await owner.commit(failure)

        row = await owner.row(lane_id)
        assert (first.stale, again.stale) == (frozenset(), frozenset())
        assert (row.head, row.attempts, row.next_at, row.starts) == (1, 1, LATER, 0)
        assert row.state is LaneState.RETRYING

    @pytest.mark.parametrize("alone", [False, True])
    async def test_a_delivery_leaves_announcements_behind(self, store: Outbox, owner: Owner, alone: bool) -> None:
        lane_id = await lane_of(store)
        success = await owner.settlement(lane_id, DELIVERED)
        await announce(owner, lane_id, alone=alone)

        report = await owner.commit(success)

        assert not report.stale
        for _ in range(2):  # before and after the acks were folded
            row = (await owner.loaded())[lane_id]
            assert (row.head, row.attempts, row.starts, row.state) == (2, 0, 0, LaneState.ACTIVE)
            await store.tidy()

    async def test_an_announcement_right_behind_a_delivery_belongs_to_the_new_head(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        owner = await Owner.of(store)
        await owner.fail(lane_id)
        await owner.deliver(lane_id)

        await announce(owner, lane_id)

        for _ in range(2):
            row = await owner.row(lane_id)
            assert (row.head, row.attempts, row.starts, row.acked) == (2, 0, 1, 1)
            assert (row.state, row.next_at <= T0) == (LaneState.ACTIVE, True)
            await store.tidy()

    async def test_an_announcement_survives_its_worker(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        loose = (await published(store, event("e9", None))).grown[0].lane_id
        first = await Owner.of(store, "w1")
        await announce(first, lane_id)
        await announce(first, loose)
        await self.lease_runs_out(store, "w1")

        second = await Owner.of(store, "w2")

        rows = await second.loaded()
        assert (rows[lane_id].starts, rows[loose].starts) == (1, 1)

    async def test_a_head_that_was_replayed_meanwhile_is_not_announced_under_its_old_name(self, store: Outbox) -> None:
        lane_id = await lane_of(store)
        owner = await Owner.of(store)
        old = start_of(await owner.row(lane_id), 1)
        letter = await owner.kill(lane_id)
        dead = await owner.commit(old)
        await store.replay("default", letter.id, actor="me", now=T0)

        late = await owner.commit(old)

        assert {lane_id} == dead.stale == late.stale
        assert (await owner.row(lane_id)).starts == 0

    @pytest.mark.parametrize("key", ["a", None])
    async def test_a_head_of_which_workers_died_is_a_dead_letter_and_a_replay_starts_anew(
        self, store: Outbox, key: str | None
    ) -> None:
        lane_id = await lane_of(store, 1, key)
        owner = await Owner.of(store)
        await announce(owner, lane_id, alone=True)
        await announce(owner, lane_id, alone=True)
        last = await last_of(owner, lane_id, Dead("worker_died"))

        first = await owner.commit(last)
        again = await owner.commit(last)

        (letter,) = (await store.dead_letters("default", LetterFilter(), None, 9)).items
        assert (first.stale, again.stale) == (frozenset(), frozenset())
        assert (letter.lane_id, letter.attempts, letter.reason) == (lane_id, 2, "worker_died")
        await store.replay("default", letter.id, actor="me", now=T0)
        row = await owner.row(lane_id)
        assert (row.head, row.attempts, row.starts, row.state) == (1, 0, 0, LaneState.ACTIVE)

    async def test_a_head_of_which_workers_died_is_skipped_where_the_policy_says_so(self, store: Outbox) -> None:
        lane_id = await lane_of(store, 2)
        loose = (await published(store, event("e9", None))).grown[0].lane_id
        owner = await Owner.of(store)
        for one in (lane_id, loose):
            await announce(owner, one, alone=True)
        writes = [await last_of(owner, one, Dead("worker_died", skip=True)) for one in (lane_id, loose)]

        report = await owner.commit(*writes)
        await owner.commit(*writes)  # a repeat changes nothing

        assert not report.stale
        row = await owner.row(lane_id)
        assert (row.head, row.attempts, row.starts, row.acked, row.state) == (2, 0, 0, 0, LaneState.ACTIVE)
        states = [await state_of(store, one) for one in ("e1", "e9", "e2")]
        assert [str(state) for state in states] == ["skipped", "skipped", "queued"]
        assert list(await store.reload([loose])) == []
        assert not (await store.dead_letters("default", LetterFilter(), None, 9)).items
