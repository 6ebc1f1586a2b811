"""The PostgreSQL store keeps the promises of recovery."""

from __future__ import annotations

import asyncpg
import pytest

from hooklane.core.fanout import places
from hooklane.store.outbox import StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.testing.conformance_recovery import RecoveryConformance, Store


class TestPostgresRecovery(RecoveryConformance):
    @pytest.fixture
    async def store(self, postgres_url):
        self.url = postgres_url
        store = PostgresOutbox(postgres_url, StoreOptions(placer=places))
        await store.open()
        yield store
        await store.close()

    async def wait_for_tombstone(self, store: Store) -> None:
        # A day of grace, for transactions that may have seen the endpoint alive: no test waits that long.
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute("UPDATE hooklane.endpoint SET changed_at = 0")
        finally:
            await connection.close()
