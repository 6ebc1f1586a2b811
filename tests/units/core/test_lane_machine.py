"""The lane machine is a table, and the store walks it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hooklane.core.fanout import places
from hooklane.core.machine import NEXT, Move, after
from hooklane.model.attempt import Dead, Retry
from hooklane.model.clock import Instant
from hooklane.model.lane import LaneState
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import StoreOptions
from hooklane.store.reads import LetterFilter
from hooklane.testing.conformance_outbox.kit import T0, Owner, endpoint, event, published

T = TypeVar("T")
STORED = [state for state in LaneState if state is not LaneState.PAUSED]


@given(st.lists(st.sampled_from(Move), max_size=60))
def test_only_a_person_or_a_policy_moves_a_lane_past_a_dead_head(moves: list[Move]) -> None:
    state = LaneState.IDLE
    for move in moves:
        if (state, move) not in NEXT:
            continue
        before, state = state, after(state, move)
        if before is LaneState.BLOCKED and state is not LaneState.BLOCKED:
            assert move in (Move.REPLAY, Move.SKIP, Move.SKIP_LAST)


def test_paused_is_never_stored() -> None:
    assert all(LaneState.PAUSED not in (state, following) for (state, _), following in NEXT.items())


def test_nothing_happens_to_an_idle_lane_but_growth() -> None:
    assert [move for state, move in NEXT if state is LaneState.IDLE] == [Move.GROW]


@given(st.sampled_from(STORED), st.sampled_from(Move))
def test_a_move_that_the_table_does_not_know_is_a_bug(state: LaneState, move: Move) -> None:
    assume((state, move) not in NEXT)

    with pytest.raises(KeyError):
        after(state, move)


class StoreWalk(RuleBasedStateMachine):
    """A lane of the memory store, move by move beside the table and a count of what became of each event."""

    @initialize()
    def begin(self) -> None:
        self.store = MemoryOutbox(StoreOptions(placer=places), clock=lambda: T0)
        self.now(self.store.save_endpoint(endpoint(), expect=None))
        self.owner = self.now(Owner.of(self.store))
        self.state = LaneState.IDLE
        self.tail = self.head = self.attempts = 0
        self.acked = 0
        self.lane = 0

    def now(self, verb: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(verb)

    def move(self, move: Move) -> None:
        self.state = after(self.state, move)

    def is_live(self) -> bool:
        return self.state in (LaneState.ACTIVE, LaneState.RETRYING)

    def is_dead(self) -> bool:
        return self.state is LaneState.BLOCKED

    @property
    def letter(self) -> str:
        (letter,) = self.now(self.store.dead_letters("default", LetterFilter(), None, 9)).items
        return letter.id

    def done_with(self) -> bool:
        self.head += 1
        self.attempts = 0
        return self.head > self.tail

    @rule()
    def publish(self) -> None:
        self.tail += 1
        self.head = self.head or 1
        self.lane = self.now(published(self.store, event(f"e{self.tail}"))).grown[0].lane_id
        self.move(Move.GROW)

    @precondition(is_live)
    @rule()
    def deliver(self) -> None:
        self.now(self.owner.deliver(self.lane))
        self.acked = self.head
        self.move(Move.ACK_LAST if self.done_with() else Move.ACK)

    @precondition(is_live)
    @rule(ms=st.integers(1, 10**6))
    def fail(self, ms: int) -> None:
        self.now(self.owner.settle(self.lane, Retry(Instant(T0 + ms), "500")))
        self.attempts += 1
        self.move(Move.FAIL)

    @precondition(is_live)
    @rule()
    def die(self) -> None:
        self.now(self.owner.settle(self.lane, Dead("422")))
        self.attempts += 1
        self.move(Move.DIE)

    @precondition(is_live)
    @rule()
    def give_up(self) -> None:
        self.now(self.owner.settle(self.lane, Dead("422", skip=True)))
        self.move(Move.SKIP_LAST if self.done_with() else Move.SKIP)

    @precondition(is_dead)
    @rule()
    def replay(self) -> None:
        assert self.now(self.store.replay("default", self.letter, actor="me", now=T0)) is not None
        self.attempts = 0
        self.move(Move.REPLAY)

    @precondition(is_dead)
    @rule()
    def skip(self) -> None:
        assert self.now(self.store.skip("default", self.letter, note="", actor="me", now=T0)) is not None
        self.move(Move.SKIP_LAST if self.done_with() else Move.SKIP)

    @rule()
    def tidy(self) -> None:
        self.now(self.store.tidy())

    @invariant()
    def the_store_stands_where_the_table_says(self) -> None:
        if not self.tail:
            return
        (row,) = self.now(self.store.reload([self.lane]))
        assert (self.state, self.head, self.tail) == (row.state, row.head, row.tail)
        assert (self.attempts, self.acked) == (row.attempts, row.acked)

    @invariant()
    def the_ledger_adds_up(self) -> None:
        counts = dict(self.now(self.store.ledger("default")))
        assert counts.pop("accepted") == sum(counts.values()) == self.tail


TestStoreWalk = StoreWalk.TestCase
TestStoreWalk.settings = settings(stateful_step_count=30, deadline=None)
