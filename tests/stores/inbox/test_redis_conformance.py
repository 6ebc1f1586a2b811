"""The inbox on Redis and Valkey keeps the promises that every store keeps."""

from collections.abc import Iterator

import pytest

from hooklane.store.inbox import InboxStore
from hooklane.store.open_inbox import open_inbox
from hooklane.testing.conformance_inbox import InboxConformance


class TestRedisInbox(InboxConformance):
    @pytest.fixture
    def store(self, each_redis_url: str) -> Iterator[InboxStore]:
        store = open_inbox(each_redis_url)
        yield store
        store.close()
