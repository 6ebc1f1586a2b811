"""Every store of the inbox keeps the same promises."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hooklane.store.inbox import InboxStore
from hooklane.store.open_inbox import open_inbox
from hooklane.testing.conformance_inbox import InboxConformance


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
