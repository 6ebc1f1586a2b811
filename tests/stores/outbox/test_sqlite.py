"""The SQLite store keeps the promises of an outbox."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest
from tests.support.sqlite_files import new_outbox_file

from hooklane.core.fanout import places
from hooklane.store.outbox import FORGOTTEN, StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.conformance_outbox import ManyWorkersConformance, Outbox, OutboxConformance
from hooklane.testing.conformance_outbox.kit import add_tenants, draft, event


class TestSqliteOutbox(OutboxConformance, ManyWorkersConformance):
    @pytest.fixture
    async def store(self, tmp_path):
        new_outbox_file(tmp_path / "outbox.db")
        store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
        await store.open()
        yield store
        await store.close()

    async def wait_for_expiry(self, store: Outbox, lease_ms: int) -> None:
        # The lease runs on the database's clock, which no test can wind forward.
        await asyncio.sleep(lease_ms / 1000 + 0.01)


async def test_a_name_that_means_another_tenants_event_is_never_answered_with_it(tmp_path):
    new_outbox_file(tmp_path / "outbox.db")
    store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
    await store.open()
    await add_tenants(store, "alice", "bob")
    await store.publish([draft(event("a1", tenant="alice"), "key:k"), draft(event("b1", tenant="bob"))])
    with sqlite3.connect(tmp_path / "outbox.db") as conn:
        conn.execute("UPDATE hooklane_idempotency SET event_n = (SELECT n FROM hooklane_event WHERE id = 'b1')")

    report = await store.publish([draft(event("a1", tenant="alice"), "key:k")])

    assert report.results == [FORGOTTEN]
    await store.close()
