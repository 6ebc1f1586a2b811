"""The SQLite store keeps the promises of an outbox."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from tests.support.sqlite_files import new_outbox_file

from hooklane.core.fanout import places
from hooklane.model.endpoint import EndpointState
from hooklane.store.outbox import FORGOTTEN, StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.conformance_outbox import ManyWorkersConformance, Outbox, OutboxConformance
from hooklane.testing.conformance_outbox.kit import add_tenants, draft, endpoint, event


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


async def test_an_endpoint_that_is_owed_something_after_its_deletion_holds_up_no_writer(tmp_path):
    """Whether anything is owed is looked for in all of its lanes: a second for 200,000, every two seconds."""
    new_outbox_file(tmp_path / "outbox.db")
    store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places, busy_wait_ms=1))
    await store.open()
    await store.save_endpoint(endpoint(), expect=None)
    await store.publish([draft(event("e1", "k"))])
    (one,) = await store.endpoints()
    await store.save_endpoint(replace(one, state=EndpointState.DRAINING), expect=one)
    with closing(sqlite3.connect(tmp_path / "outbox.db", isolation_level=None)) as conn:
        conn.execute("BEGIN IMMEDIATE")

        await store.tidy()

    assert len(await store.endpoints()) == 1
    await store.close()
