"""A claim is leased and fenced: of those who work on an event one can finish it."""

from __future__ import annotations

from typing import Any

import pytest

from hooklane.model.clock import Instant, wall_now
from hooklane.model.inbox import Search
from hooklane.model.message import Status
from hooklane.store.inbox import InboxStore
from hooklane.testing.conformance_inbox.kit import (
    HANDLER,
    LEASE_MS,
    InboxKit,
    failing,
    identity,
    message,
    owed,
    perform,
    row,
    then_fail,
    together,
)


class Handling(InboxKit):
    def test_a_claim_leases_raises_the_fence_and_counts_the_attempt(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (claimed,) = self.claim(store)
        assert (claimed.fence > 0, claimed.attempts, claimed.taken_over) == (True, 1, False)
        assert message("e1") == claimed.message
        assert self.claim(store) == []
        assert self.claim(store, expired=True) == []
        assert self.status(store) == Status.IN_PROGRESS

    def test_only_registered_handlers_are_claimed(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed(handler="other")))
        assert self.claim(store) == []

    def test_what_is_due_is_claimed_oldest_first_up_to_the_limit(self, store: InboxStore) -> None:
        for number in (2, 0, 3, 1):
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
        (second,) = self.claim(store, expired=True)
        assert (second.fence > first.fence, second.attempts, second.taken_over) == (True, 2, True)

    def test_a_zombie_cannot_complete_fail_or_renew(self, store: InboxStore) -> None:
        self.insert(store, row("e1", owed()))
        (zombie,) = self.claim(store, lease_ms=0)
        (owner,) = self.claim(store, expired=True)
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
        one: dict[str, Any] = {"lease_ms": LEASE_MS}
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
