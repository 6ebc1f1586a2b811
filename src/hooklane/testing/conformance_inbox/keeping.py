"""What is old and settled may go; what is owed, held or dead stays."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from hooklane.errors import StoreBusy
from hooklane.model.clock import Instant, wall_now
from hooklane.model.inbox import Heartbeat, Search
from hooklane.model.message import Status
from hooklane.store.inbox import Flow, InboxStore
from hooklane.testing.conformance_inbox.kit import (
    HANDLER,
    LEASE_MS,
    SOURCE,
    TRACK,
    WORK,
    InboxKit,
    owed,
    row,
    together,
)


class Keeping(InboxKit):
    def test_pruning_removes_what_is_old_and_settled_and_nothing_else(self, store: InboxStore) -> None:
        settled = [Status.COMPLETED, Status.STALE, Status.IGNORED]
        open_ = [Status.PENDING, Status.FAILED, Status.HELD, Status.DEAD]
        self.insert(store, *(row(status.value, owed(status=status)) for status in settled + open_))
        self.insert(store, row("in_progress", owed(due_at=Instant(0))))
        self.insert(store, row("bare", status=Status.IGNORED), row("poison", status=Status.DEAD))
        self.insert(store, row("young", owed(status=Status.COMPLETED), now=Instant(100)))
        self.run(store, store.cursor(TRACK, 3))
        self.run(store, store.claim(WORK, expired=False, now=Instant(0), lease_ms=LEASE_MS, limit=1))
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

    def test_a_dead_row_that_no_handler_was_given_can_be_given_up_and_then_goes(self, store: InboxStore) -> None:
        (id,) = self.insert(store, row("poison", status=Status.DEAD))
        assert id is not None
        act = partial(store.restate, id, Status.IGNORED, "skipped: known", wall_now(), was=Status.DEAD)
        assert [self.run(store, act()), self.run(store, act())] == [True, False]
        (given_up,) = self.run(store, store.rows(Search(ids=(id,))))
        assert (given_up.status, given_up.reason) == (Status.IGNORED, "skipped: known")
        assert self.run(store, store.rows(Search(status=Status.DEAD))) == []
        assert [(each.status, each.rows) for each in self.run(store, store.counts())] == [(Status.IGNORED, 1)]
        assert self.run(store, store.prune(before=Instant(50), source=None, limit=10)) == 1

    def test_a_dead_row_that_a_handler_is_given_is_dead_no_more(self, store: InboxStore) -> None:
        (id,) = self.insert(store, row("poison", status=Status.DEAD))
        assert id is not None
        self.run(store, store.attach(id, owed()))
        assert not self.run(store, store.restate(id, Status.IGNORED, "late", wall_now(), was=Status.DEAD))
        (claimed,) = self.claim(store)
        assert self.run(store, store.complete(id, HANDLER, claimed.fence, Status.COMPLETED, wall_now()))
        assert self.status(store, "poison") == Status.COMPLETED
        assert self.run(store, store.rows(Search(status=Status.DEAD))) == []
        assert [(each.status, each.rows) for each in self.run(store, store.counts())] == [(Status.COMPLETED, 1)]
        assert self.run(store, store.prune(before=Instant(50), source=None, limit=10)) == 1

    def test_what_was_skipped_is_not_replayed_by_one_who_saw_it_dead(self, store: InboxStore) -> None:
        (id,) = self.insert(store, row("e1", owed(status=Status.DEAD)))
        assert id is not None
        assert self.run(store, store.settle(id, HANDLER, Status.IGNORED, "known", wall_now(), was=Status.DEAD))
        assert not self.run(store, store.reopen(id, HANDLER, now=wall_now(), was=Status.DEAD))
        assert (self.status(store), self.claim(store)) == (Status.IGNORED, [])

    def test_what_was_replayed_is_not_skipped_by_one_who_saw_it_dead(self, store: InboxStore) -> None:
        (id,) = self.insert(store, row("e1", owed(status=Status.DEAD)))
        assert id is not None
        assert self.run(store, store.reopen(id, HANDLER, now=wall_now(), was=Status.DEAD))
        assert not self.run(store, store.settle(id, HANDLER, Status.IGNORED, "known", wall_now(), was=Status.DEAD))
        (claimed,) = self.claim(store)
        assert claimed.id == id

    def test_what_has_no_payload_any_more_is_owed_to_nobody_again(self, store: InboxStore) -> None:
        """Who replays it saw it while it was whole: its handler would run on an empty body."""
        (id,) = self.insert(store, row("e1", owed(status=Status.COMPLETED)))
        assert id is not None
        assert self.run(store, store.purge(before=Instant(50), source=None, limit=10)) == 1
        assert not self.run(store, store.reopen(id, HANDLER, now=wall_now(), was=Status.COMPLETED))
        with suppress(StoreBusy):
            self.run(store, store.attach(id, owed(handler="mail")))
        work = [*WORK, (SOURCE, "mail")]
        assert self.run(store, store.claim(work, expired=False, now=wall_now(), lease_ms=1, limit=9)) == []
        (kept,) = self.run(store, store.rows(Search()))
        assert [(each.handler, each.status) for each in kept.handlings] == [(HANDLER, Status.COMPLETED)]

    def test_of_a_skip_and_a_replay_at_the_same_moment_one_is_done(self, store: InboxStore) -> None:
        for number in range(10):
            (id,) = self.insert(store, row(f"e{number}", owed(status=Status.DEAD)))
            assert id is not None
            acts = [
                store.settle(id, HANDLER, Status.IGNORED, "known", wall_now(), was=Status.DEAD),
                store.reopen(id, HANDLER, now=wall_now(), was=Status.DEAD),
            ]
            skipped, replayed = together(2, partial(self._act, store, acts))
            assert [skipped, replayed].count(True) == 1
            assert len(self.claim(store)) == int(replayed), "the handler runs only when it was replayed"

    def _act(self, store: InboxStore, acts: list[Flow[bool]], index: int) -> bool:
        try:
            return self.run(store, acts[index])
        except StoreBusy:
            return False  # another was quicker, which this store found out when it wrote
