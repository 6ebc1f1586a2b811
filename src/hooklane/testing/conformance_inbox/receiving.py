"""What is received counts once, and comes back as it went in."""

from __future__ import annotations

import pytest

from hooklane.model.clock import Instant
from hooklane.model.inbox import NewRow, Search
from hooklane.model.message import Status
from hooklane.store.inbox import InboxStore
from hooklane.testing.conformance_inbox.kit import (
    HANDLER,
    SOURCE,
    TRACK,
    InboxKit,
    identity,
    message,
    owed,
    row,
    then_fail,
    together,
)


class Receiving(InboxKit):
    def test_the_first_insert_of_an_identity_counts_and_the_second_is_told(self, store: InboxStore) -> None:
        (first,) = self.insert(store, row("e1", owed()))
        assert first is not None
        assert self.insert(store, row("e1", owed())) == [None]

    def test_an_identity_is_a_source_an_account_an_id_and_a_variant(self, store: InboxStore) -> None:
        others = [row("e1", account="t2"), row("e1", source="other"), row("e2"), row("e1", variant="conflict:1")]
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
