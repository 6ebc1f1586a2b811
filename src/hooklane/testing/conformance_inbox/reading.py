"""People find what they look for."""

from __future__ import annotations

from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.inbox import Search
from hooklane.model.message import Status
from hooklane.store.inbox import InboxStore
from hooklane.testing.conformance_inbox.kit import HANDLER, SOURCE, InboxKit, owed, row


class Reading(InboxKit):
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
        assert found(source="nobody") + found(account="nobody") + found(ids=()) == []
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
