"""What every store of the inbox promises. Subclass it, give it a store, and let pytest run it:

class TestMyInbox(InboxConformance):
    @pytest.fixture
    def store(self):
        return MyInbox(…)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from hooklane.model.clock import START, Instant, wall_now
from hooklane.model.inbox import Claimed, Heartbeat, Identity, NewHandling, NewRow, RowId, Search, Track
from hooklane.model.message import Message, Status
from hooklane.receiver.drive import Driver, transaction
from hooklane.store.inbox import Flow, InboxStore

T = TypeVar("T")

SOURCE, HANDLER = "shop", "book"
WORK = [(SOURCE, HANDLER)]
TRACK = Track(SOURCE, "default", HANDLER, "order:7")
OTHER = Track(SOURCE, "default", HANDLER, "order:8")
LEASE_MS = 60_000
ONE = Instant(1)


def message(event_id: str = "e1", **changes: Any) -> Message:
    values: dict[str, Any] = {
        "source": SOURCE,
        "event_id": event_id,
        "type": "order.created",
        "body": b'{"a": "\\u0000"}',
        "fingerprint": b"f1",
    }
    return Message(**values | changes)


def row(event_id: str = "e1", *handlings: NewHandling, now: Instant = ONE, **changes: Any) -> NewRow:
    own = {name: changes.pop(name) for name in ("variant", "status", "reason", "headers") if name in changes}
    return NewRow(message=message(event_id, **changes), received_at=now, handlings=handlings, **own)


def owed(**changes: Any) -> NewHandling:
    return NewHandling(**{"handler": HANDLER} | changes)


def identity(event_id: str = "e1", **changes: str) -> Identity:
    return Identity(**{"source": SOURCE, "tenant": "default", "event_id": event_id} | changes)


class InboxConformance:
    """The promises. A back-end may differ only in its `Capabilities`."""

    def run(self, store: InboxStore, flow: Flow[T]) -> T:
        """Run *flow* in one committed transaction."""
        return Driver(store).run(transaction(flow))

    def insert(self, store: InboxStore, *rows: NewRow) -> list[RowId | None]:
        return self.run(store, store.insert(list(rows)))

    def claim(self, store: InboxStore, *, limit: int = 10, lease_ms: int = LEASE_MS, **changes: Any) -> list[Claimed]:
        options: dict[str, Any] = {"expired": False, "owner": "w1", "now": wall_now()} | changes
        return self.run(store, store.claim(WORK, lease_ms=lease_ms, limit=limit, **options))

    def status(self, store: InboxStore, event_id: str = "e1") -> Status:
        (known,) = self.run(store, store.known([identity(event_id)]))
        assert known is not None
        handling = known.of(HANDLER)
        return known.status if handling is None else handling.status

    # Receiving

    def test_the_first_insert_of_an_identity_counts_and_the_second_is_told(self, store: InboxStore) -> None:
        (first,) = self.insert(store, row("e1", owed()))
        assert first is not None
        assert self.insert(store, row("e1", owed())) == [None]

    def test_an_identity_is_a_source_a_tenant_an_id_and_a_variant(self, store: InboxStore) -> None:
        others = [row("e1", tenant="t2"), row("e1", source="other"), row("e2"), row("e1", variant="conflict:1")]
        self.insert(store, row("e1"))
        assert None not in self.insert(store, *others)

    def test_of_two_copies_in_one_batch_the_first_counts(self, store: InboxStore) -> None:
        ids = self.insert(store, row("e1", owed()), row("e2", owed()), row("e1", owed()))
        assert [id is None for id in ids] == [False, False, True]
        assert len(self.claim(store)) == 2

    def test_of_many_concurrent_inserts_of_one_identity_one_counts(self, store: InboxStore) -> None:
        answers = together(8, lambda _: self.insert(store, row("e1", owed()))[0])
        assert answers.count(None) == 7
        assert len(self.claim(store)) == 1

    def test_raw_bytes_headers_and_names_come_back_as_they_went_in(self, store: InboxStore) -> None:
        sent = message(
            "e1",
            body=b"\x00\xff raw",
            key="ключ",
            seq=2**62,
            prev_seq=0,
            event_time=Instant(5),
            delivery_id="d",
            attempt=3,
            id_signed=False,
            fingerprint=b"\x00\x01",
        )
        headers = (("X-Key", "a"), ("X-Key", "b"))
        self.run(store, store.insert([NewRow(message=sent, received_at=Instant(9), headers=headers)]))
        (kept,) = self.run(store, store.rows(Search(event_id="e1")))
        assert (sent, headers, Instant(9)) == (kept.message, kept.headers, kept.received_at)

    def test_what_was_rolled_back_was_never_there(self, store: InboxStore) -> None:
        with pytest.raises(ZeroDivisionError):
            self.run(store, then_fail(store.insert([row("e1", owed())])))
        assert self.run(store, store.known([identity()])) == [None]
        assert None not in self.insert(store, row("e1", owed()))

    def test_what_is_known_tells_status_fingerprint_and_handlings(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed(), owed(handler="mail", status=Status.HELD)))
        known, missing = self.run(store, store.known([identity(), identity("nobody")]))
        assert missing is None
        assert known is not None
        assert (known.status, known.fingerprint) == (Status.PENDING, b"f1")
        assert {each.handler: each.status for each in known.handlings} == {HANDLER: Status.PENDING, "mail": Status.HELD}

    def test_a_tombstone_remembers_the_first_id_of_some_bytes(self, store: InboxStore) -> None:
        assert None is self.run(store, store.remember(SOURCE, "default", b"d", "e1", Instant(1)))
        assert self.run(store, store.remember(SOURCE, "default", b"d", "e2", Instant(2))) == "e1"
        assert None is self.run(store, store.remember(SOURCE, "t2", b"d", "e2", Instant(2)))

    def test_a_state_that_returns_is_a_new_turn_and_one_that_stays_is_not(self, store: InboxStore) -> None:
        turns = [self.run(store, store.turn(TRACK, token)) for token in ("A", "A", "B", "A", "A")]
        assert turns == [(1, True), (1, False), (2, True), (3, True), (3, False)]

    def test_copies_are_counted(self, store: InboxStore) -> None:
        (id,) = self.insert(store, row("e1"))
        assert id is not None
        self.run(store, store.count_copies([(id, 2)]))
        assert [each.copies for each in self.run(store, store.rows(Search()))] == [3]

    # Handling

    def test_a_claim_leases_raises_the_fence_and_counts_the_attempt(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (claimed,) = self.claim(store)
        assert (claimed.fence, claimed.attempts, claimed.taken_over) == (1, 1, False)
        assert message("e1") == claimed.message
        assert self.claim(store) == []
        assert self.claim(store, expired=True) == []
        assert self.status(store) == Status.IN_PROGRESS

    def test_only_registered_handlers_are_claimed(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed(handler="other")))
        assert self.claim(store) == []

    def test_what_is_due_is_claimed_oldest_first_up_to_the_limit(self, store: InboxStore) -> None:
        for number in range(4):
            self.insert(store, row(f"e{number}", owed(due_at=Instant(number)), now=Instant(number)))
        self.insert(store, row("later", owed(due_at=Instant(wall_now() + 60_000))))
        assert [each.message.event_id for each in self.claim(store, limit=3)] == ["e0", "e1", "e2"]
        assert [each.message.event_id for each in self.claim(store, limit=3)] == ["e3"]

    def test_concurrent_claims_share_the_work_without_overlap(self, store: InboxStore) -> None:
        self.insert(store, *(row(f"e{number}", owed()) for number in range(40)))
        taken = together(4, lambda _: [each.id for _ in range(5) for each in self.claim(store, limit=2)])
        ids = [id for each in taken for id in each]
        assert 40 == len(ids) == len(set(ids))

    def test_a_lease_that_ran_out_is_taken_over_with_a_higher_fence(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (first,) = self.claim(store, lease_ms=0)
        (second,) = self.claim(store, expired=True, owner="w2")
        assert (second.fence > first.fence, second.attempts, second.taken_over) == (True, 2, True)

    def test_a_zombie_cannot_complete_fail_or_renew(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (zombie,) = self.claim(store, lease_ms=0)
        (owner,) = self.claim(store, expired=True, owner="w2")
        now = wall_now()
        assert not self.run(store, store.renew(zombie.id, HANDLER, zombie.fence, now=now, lease_ms=1))
        assert not self.run(store, store.complete(zombie.id, HANDLER, zombie.fence, Status.COMPLETED, now))
        assert not self.run(store, failing(store, zombie))
        assert self.run(store, store.complete(owner.id, HANDLER, owner.fence, Status.COMPLETED, now))
        assert self.status(store) == Status.COMPLETED

    def test_a_renewed_lease_is_not_taken_over(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (claimed,) = self.claim(store, lease_ms=0)
        renewed = store.renew(claimed.id, HANDLER, claimed.fence, now=wall_now(), lease_ms=LEASE_MS)
        assert self.run(store, renewed)
        assert self.claim(store, expired=True) == []

    def test_what_is_completed_is_never_claimed_again(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (claimed,) = self.claim(store, lease_ms=0)
        self.run(store, store.complete(claimed.id, HANDLER, claimed.fence, Status.COMPLETED, wall_now()))
        assert self.claim(store) + self.claim(store, expired=True) == []
        assert not self.run(store, store.complete(claimed.id, HANDLER, claimed.fence, Status.COMPLETED, wall_now()))

    def test_a_completion_that_was_rolled_back_leaves_the_claim(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (claimed,) = self.claim(store)
        done = store.complete(claimed.id, HANDLER, claimed.fence, Status.COMPLETED, wall_now())
        with pytest.raises(ZeroDivisionError):
            self.run(store, then_fail(done))
        assert self.status(store) == Status.IN_PROGRESS

    def test_a_failure_is_due_again_when_it_says_and_keeps_its_story(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (claimed,) = self.claim(store)
        later = Instant(wall_now() + 60_000)
        assert self.run(store, failing(store, claimed, due_at=later, error="no\0 bank \ud800"))
        assert self.claim(store) == []
        (kept,) = self.run(store, store.rows(Search(status=Status.FAILED)))
        assert ("no" in str(kept.handlings[0].error), kept.handlings[0].traceback) == (True, "Traceback …")
        (again,) = self.claim(store, now=later)
        assert again.attempts == 2

    def test_a_dead_letter_is_never_claimed_until_it_is_reopened(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (claimed,) = self.claim(store)
        assert self.run(store, failing(store, claimed, status=Status.DEAD))
        assert self.claim(store) + self.claim(store, expired=True) == []
        assert self.run(store, store.reopen(claimed.id, HANDLER, now=wall_now()))
        (again,) = self.claim(store)
        assert (again.attempts, again.fence > claimed.fence) == (1, True)

    def test_what_is_in_progress_is_not_reopened_under_its_owner(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (claimed,) = self.claim(store)
        assert not self.run(store, store.reopen(claimed.id, HANDLER, now=wall_now()))

    def test_one_handling_can_be_taken_by_name_unless_it_is_held_or_done(self, store: InboxStore) -> None:
        (id,) = self.insert(store, row("e1", owed(due_at=Instant(wall_now() + 60_000))))
        assert id is not None
        one: dict[str, Any] = {"owner": "w", "lease_ms": LEASE_MS}
        claimed = self.run(store, store.claim_one(id, HANDLER, now=wall_now(), **one))
        assert claimed is not None
        assert None is self.run(store, store.claim_one(id, HANDLER, now=wall_now(), **one))
        self.run(store, store.complete(id, HANDLER, claimed.fence, Status.COMPLETED, wall_now()))
        assert None is self.run(store, store.claim_one(id, HANDLER, now=wall_now(), **one))

    def test_copies_at_work_at_the_same_time_are_told_apart_where_the_store_locks(self, store: InboxStore) -> None:
        first, second = store.begin(), None
        try:
            assert perform(first, store.try_lock(identity()))
            if store.capabilities.locks:
                second = store.begin()
                assert not perform(second, store.try_lock(identity()))
                assert perform(second, store.try_lock(identity("another")))
        finally:
            first.close()
            if second is not None:
                second.close()

    # Order

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

    # Keeping

    def test_pruning_removes_what_is_old_and_settled_and_nothing_else(self, store: InboxStore) -> None:
        settled = [Status.COMPLETED, Status.STALE, Status.IGNORED]
        open_ = [Status.PENDING, Status.FAILED, Status.HELD, Status.DEAD]
        self.insert(store, *(row(status.value, owed(status=status)) for status in settled + open_))
        self.insert(store, row("in_progress", owed(due_at=Instant(0))))
        self.insert(store, row("bare", status=Status.IGNORED), row("poison", status=Status.DEAD))
        self.insert(store, row("young", owed(status=Status.COMPLETED), now=Instant(100)))
        self.run(store, store.cursor(TRACK, 3))
        self.run(store, store.claim(WORK, expired=False, owner="w", now=Instant(0), lease_ms=LEASE_MS, limit=1))
        assert self.run(store, store.prune(before=Instant(50), source=None, limit=100)) == 4
        left = {each.message.event_id for each in self.run(store, store.rows(Search()))}
        assert {status.value for status in open_} | {"in_progress", "poison", "young"} == left
        assert self.run(store, store.applied(TRACK)) == 3

    def test_pruning_goes_in_batches_and_by_source(self, store: InboxStore) -> None:
        self.insert(store, *(row(f"e{number}", status=Status.IGNORED) for number in range(5)))
        assert self.run(store, store.prune(before=Instant(50), source="other", limit=3)) == 0
        assert [self.run(store, store.prune(before=Instant(50), source=SOURCE, limit=3)) for _ in range(3)] == [3, 2, 0]

    def test_a_purged_payload_still_guards_its_id(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed(status=Status.COMPLETED)), row("e2", owed()))
        assert self.run(store, store.purge(before=Instant(50), source=None, limit=10)) == 1
        assert self.run(store, store.purge(before=Instant(50), source=None, limit=10)) == 0
        purged, kept = self.run(store, store.rows(Search()))
        assert (purged.purged, purged.message.body, kept.purged) == (True, b"", False)
        assert self.insert(store, row("e1")) == [None]

    def test_tombstones_are_forgotten_when_they_are_old(self, store: InboxStore) -> None:
        self.run(store, store.remember(SOURCE, "default", b"old", "e1", Instant(1)))
        self.run(store, store.remember(SOURCE, "default", b"new", "e2", Instant(90)))
        assert self.run(store, store.forget(before=Instant(50), source=None, limit=10)) == 1
        assert self.run(store, store.remember(SOURCE, "default", b"new", "e3", Instant(91))) == "e2"

    def test_the_heartbeat_is_kept(self, store: InboxStore) -> None:
        assert None is self.run(store, store.heartbeat())
        for beat in (Heartbeat(Instant(1)), Heartbeat(Instant(5), 3, Instant(4))):
            self.run(store, store.beat(beat))
            assert beat == self.run(store, store.heartbeat())

    def test_what_a_person_gives_up_is_settled_with_a_note(self, store: InboxStore) -> None:
        (id,) = self.insert(store, row("e1", owed(status=Status.DEAD)))
        assert id is not None
        assert self.run(store, store.settle(id, HANDLER, Status.IGNORED, "known bug", wall_now()))
        assert not self.run(store, store.settle(id, HANDLER, Status.IGNORED, "again", wall_now()))
        assert self.status(store) == Status.IGNORED

    # Reading

    def test_rows_are_found_by_what_they_are(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed(status=Status.DEAD), key="k", now=Instant(10)))
        self.insert(store, row("e2", owed(), type="order.paid", now=Instant(20)), row("e3", status=Status.CONFLICT))

        def found(**search: Any) -> list[str]:
            return [each.message.event_id for each in self.run(store, store.rows(Search(**search)))]

        assert found(source=SOURCE) == ["e1", "e2", "e3"]
        assert ["e1"] == found(status=Status.DEAD) == found(key="k") == found(event_id="e1") == found(limit=1)
        assert ["e2"] == found(type="order.paid") == found(status=Status.PENDING)
        assert found(status=Status.CONFLICT) == ["e3"]
        assert found(handler=HANDLER) == ["e1", "e2"]
        assert found(received_from=Instant(11)) == ["e2"]
        assert found(received_until=Instant(5)) == ["e3"]
        assert found(source="nobody") + found(tenant="nobody") + found(ids=()) == []
        first = self.run(store, store.rows(Search(event_id="e1")))[0].id
        assert found(ids=(first,)) == ["e1"]
        assert found(after=first) == ["e2", "e3"]

    def test_counts_tell_how_much_is_in_which_status(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed(), now=Instant(7)), row("e2", owed()), row("e3", status=Status.IGNORED))
        counted = {
            (each.source, each.handler, each.status): (each.rows, each.oldest_at)
            for each in self.run(store, store.counts())
        }
        expected = {
            (SOURCE, HANDLER, Status.PENDING): (2, Instant(1)),
            (SOURCE, None, Status.IGNORED): (1, Instant(1)),
        }
        assert expected == counted


def held(seq: int, due_at: Instant = START) -> NewHandling:
    return owed(status=Status.HELD, key=TRACK.key, seq=seq, prev_seq=seq - 1, due_at=due_at)


def failing(
    store: InboxStore,
    claimed: Claimed,
    *,
    status: Status = Status.FAILED,
    due_at: Instant = START,
    error: str = "no bank",
) -> Flow[bool]:
    return store.fail(
        claimed.id,
        HANDLER,
        claimed.fence,
        status=status,
        due_at=due_at,
        error=error,
        traceback="Traceback …",
        now=wall_now(),
    )


def then_fail(flow: Flow[Any]) -> Flow[None]:
    yield from flow
    raise ZeroDivisionError


def perform(session: Any, flow: Flow[T]) -> T:
    """Run *flow* in a transaction that stays open."""
    try:
        step = next(flow)
        while True:
            step = flow.send(session.perform(step))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def together(number: int, work: Callable[[int], T]) -> list[T]:
    """Call *work* in so many threads that start at the same moment; their results."""
    barrier = threading.Barrier(number)
    results: list[T] = []
    errors: list[BaseException] = []

    def one(index: int) -> None:
        barrier.wait()
        try:
            results.append(work(index))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
