"""The SQLite store keeps the promises of an outbox."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.sqlite_files import new_outbox_file

from hooklane.core.fanout import places
from hooklane.store.outbox import StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.conformance_outbox import ManyWorkersConformance, Outbox, OutboxConformance


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
