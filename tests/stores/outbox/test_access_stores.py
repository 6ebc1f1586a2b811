"""Every store of the sender keeps the promises about keys, sessions and event types."""

from __future__ import annotations

import pytest
from tests.support.sqlite_files import new_outbox_file

from hooklane.core.fanout import places
from hooklane.store.outbox import StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.conformance_access import AccessConformance

OPTIONS = StoreOptions(placer=places)


class TestSqliteAccess(AccessConformance):
    @pytest.fixture
    async def store(self, tmp_path):
        new_outbox_file(tmp_path / "outbox.db")
        store = SqliteOutbox(str(tmp_path / "outbox.db"), OPTIONS)
        await store.open()
        yield store
        await store.close()


class TestPostgresAccess(AccessConformance):
    @pytest.fixture
    async def store(self, postgres_url):
        store = PostgresOutbox(postgres_url, OPTIONS)
        await store.open()
        yield store
        await store.close()
