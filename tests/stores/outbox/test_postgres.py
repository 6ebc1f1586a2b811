"""The PostgreSQL store keeps the promises of an outbox, also with many workers."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from hooklane.core.fanout import places
from hooklane.store.outbox import FORGOTTEN, StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.testing.conformance_outbox import ManyWorkersConformance, Outbox, OutboxConformance
from hooklane.testing.conformance_outbox.kit import add_tenants, draft, event


class TestPostgresOutbox(OutboxConformance, ManyWorkersConformance):
    @pytest.fixture
    async def store(self, postgres_url):
        store = PostgresOutbox(postgres_url, StoreOptions(placer=places))
        await store.open()
        yield store
        await store.close()

    async def wait_for_expiry(self, store: Outbox, lease_ms: int) -> None:
        # The lease runs on the database's clock, which no test can wind forward.
        await asyncio.sleep(lease_ms / 1000 + 0.01)


async def test_a_name_that_means_another_tenants_event_is_never_answered_with_it(postgres_url):
    """As after a copy of an older hooklane, which gave the numbers of pruned events once more."""
    store = PostgresOutbox(postgres_url, StoreOptions(placer=places))
    await store.open()
    await add_tenants(store, "alice", "bob")
    await store.publish([draft(event("a1", tenant="alice"), "key:k"), draft(event("b1", tenant="bob"))])
    with psycopg.connect(postgres_url) as conn:
        (bobs,) = conn.execute("SELECT n FROM hooklane.event WHERE id = 'b1'").fetchone() or ()
        conn.execute("UPDATE hooklane.idempotency SET event_n = %s", (bobs,))

    report = await store.publish([draft(event("a1", tenant="alice"), "key:k")])

    assert report.results == [FORGOTTEN]
    await store.close()
