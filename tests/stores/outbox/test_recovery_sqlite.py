"""The SQLite store keeps the promises of recovery."""

from __future__ import annotations

import pytest
from tests.support.sqlite_files import new_outbox_file

from hooklane.core.fanout import places
from hooklane.store.outbox import StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.testing.conformance_recovery import RecoveryConformance


class TestSqliteRecovery(RecoveryConformance):
    @pytest.fixture
    async def store(self, tmp_path):
        new_outbox_file(tmp_path / "outbox.db")
        store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
        await store.open()
        yield store
        await store.close()
