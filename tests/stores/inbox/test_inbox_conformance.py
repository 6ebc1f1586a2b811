"""Every store of the inbox keeps the same promises."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.support.processes import until

from hooklane.model.clock import Instant, wall_now
from hooklane.model.message import Status
from hooklane.receiver.drivers import Driver
from hooklane.receiver.steps import transaction
from hooklane.store.inbox import InboxStore
from hooklane.store.open_inbox import open_inbox
from hooklane.testing.conformance_inbox import HANDLER, WORK, InboxConformance, owed, perform, row


class TestMemoryInbox(InboxConformance):
    @pytest.fixture
    def store(self) -> InboxStore:
        return open_inbox("memory://")


class TestSqliteInbox(InboxConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[InboxStore]:
        store = open_inbox(f"sqlite:///{tmp_path / 'inbox.db'}")
        yield store
        store.close()


class TestPostgresInbox(InboxConformance):
    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[InboxStore]:
        store = open_inbox(postgres_url)
        yield store
        store.close()

    @pytest.mark.parametrize("verb", ["prune", "purge"])
    def test_what_is_replayed_in_the_moment_in_which_it_would_go_stays_whole(
        self, verb: str, store: InboxStore, postgres_url: str
    ) -> None:
        def run(flow: Any) -> Any:
            return Driver(store).run(transaction(flow))

        (id,) = run(store.insert([row("e1", owed(status=Status.COMPLETED))]))
        replaying = store.begin()
        assert perform(replaying, store.reopen(id, HANDLER, now=wall_now()))
        with ThreadPoolExecutor(1) as thread, psycopg.connect(postgres_url, autocommit=True) as watch:
            removing = thread.submit(run, getattr(store, verb)(before=Instant(50), source=None, limit=10))
            waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            until(lambda: removing.done() or watch.execute(waiting).fetchone(), what="the end of it, or its wait")
            replaying.commit()
            replaying.close()
            assert removing.result() == 0
        (claimed,) = run(store.claim(WORK, expired=False, now=wall_now(), lease_ms=60_000, limit=9))
        assert claimed.message.body == row("e1").message.body
