"""Cursors, predecessors, marks and gaps: what a key waits for, and what is too old for it."""

from __future__ import annotations

from hooklane.model.clock import Instant, wall_now
from hooklane.model.message import Status
from hooklane.store.inbox import InboxStore
from hooklane.testing.conformance_inbox.kit import OTHER, TRACK, InboxKit, failing, held, owed, row


class Ordering(InboxKit):
    def test_a_cursor_begins_at_its_baseline_and_moves_forward_only(self, store: InboxStore) -> None:
        assert None is self.run(store, store.applied(TRACK))
        assert self.run(store, store.cursor(TRACK, 4)) == 4
        assert self.run(store, store.cursor(TRACK, 9)) == 4
        assert not self.run(store, store.advance(TRACK, prev_seq=5, seq=6))
        assert self.run(store, store.advance(TRACK, prev_seq=4, seq=5))
        assert not self.run(store, store.advance(TRACK, prev_seq=4, seq=5))
        assert self.run(store, store.advance(TRACK, prev_seq=3, seq=8))
        assert self.run(store, store.applied(TRACK)) == 8

    def test_many_cursors_are_begun_and_read_at_once(self, store: InboxStore) -> None:
        self.run(store, store.cursor(TRACK, 4))
        assert self.run(store, store.cursors({OTHER: 2, TRACK: 9})) == {TRACK: 4, OTHER: 2}

    def test_what_waited_for_its_predecessor_is_released(self, store: InboxStore) -> None:
        if "sequence" not in store.capabilities.orders:
            return  # and a source that asks for it is refused
        for seq in (2, 3, 4):
            self.insert(store, row(f"e{seq}", held(seq)))
        assert self.claim(store) == []
        assert self.run(store, store.release(TRACK, 1, wall_now())) == 1
        assert [each.message.event_id for each in self.claim(store)] == ["e2"]

    def test_whether_a_predecessor_is_here_can_be_asked(self, store: InboxStore) -> None:
        if "sequence" not in store.capabilities.orders:
            return  # and a source that asks for it is refused
        self.insert(store, row("e2", held(2)))
        assert self.run(store, store.arrived([(TRACK, 2), (TRACK, 1), (OTHER, 2)])) == [True, False, False]

    def test_the_newest_wins_and_ties_go_by_the_tie_breaker(self, store: InboxStore) -> None:
        marks = [(5, "b"), (4, "z"), (5, "b"), (5, "a"), (5, "c"), (6, "")]
        assert [self.run(store, store.newer(TRACK, at, tie)) for at, tie in marks] == [
            True,
            False,
            False,
            False,
            True,
            True,
        ]
        assert self.run(store, store.mark(TRACK)) == (6, "")

    def test_tie_breakers_are_compared_by_their_bytes(self, store: InboxStore) -> None:
        assert self.run(store, store.newer(TRACK, 1, "Z"))
        assert self.run(store, store.newer(TRACK, 1, "a"))
        assert not self.run(store, store.newer(TRACK, 1, "B"))

    def test_older_hints_about_a_key_are_covered_by_one_fetch(self, store: InboxStore) -> None:
        if "refetch" not in store.capabilities.orders:
            return  # as above
        self.insert(store, row("e1", owed(key="order:7")), row("e2", owed(key="order:7")))
        until = self.run(store, store.latest_row())
        self.insert(store, row("e3", owed(key="order:7")), row("e4", owed(key="order:8")))
        assert self.run(store, store.coalesce(TRACK, until, wall_now())) == 2
        assert {"e3", "e4"} == {each.message.event_id for each in self.claim(store)}

    def test_a_gap_is_a_key_that_waits_for_what_never_came(self, store: InboxStore) -> None:
        if "sequence" not in store.capabilities.orders:
            return  # and a source that asks for it is refused
        self.run(store, store.cursor(TRACK, 1))
        self.insert(store, row("e3", held(3, due_at=Instant(100))), row("e4", held(4, due_at=Instant(200))))
        assert self.run(store, store.gaps(Instant(50), 10)) == []
        (gap,) = self.run(store, store.gaps(Instant(150), 10))
        assert (TRACK, 1, 2, Instant(100)) == (gap.track, gap.seq, gap.prev_seq, gap.since)
        self.insert(store, row("e2", owed(key="order:7", seq=2, prev_seq=1)))
        assert self.run(store, store.gaps(Instant(150), 10)) == []

    def test_what_was_passed_over_keeps_no_gap_open(self, store: InboxStore) -> None:
        if "sequence" not in store.capabilities.orders:
            return  # as above
        self.run(store, store.cursor(TRACK, 0))
        self.insert(store, row("e1", owed(key="order:7", seq=1, prev_seq=0)))
        (first,) = self.claim(store)
        self.run(store, failing(store, first, status=Status.DEAD))
        self.insert(store, row("e3", held(3, due_at=Instant(100))))
        assert self.run(store, store.gaps(Instant(150), 10)) == []
        self.run(store, store.advance(TRACK, prev_seq=0, seq=1))
        (gap,) = self.run(store, store.gaps(Instant(150), 10))
        assert (gap.seq, gap.prev_seq) == (1, 2)
