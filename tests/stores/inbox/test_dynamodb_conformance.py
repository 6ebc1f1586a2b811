"""The inbox on DynamoDB keeps the promises that every store keeps."""

from collections.abc import Iterator

import pytest

from hooklane.store.dynamodb.store import DynamoInbox, by_url
from hooklane.testing.conformance_inbox import InboxConformance


class TestDynamoInbox(InboxConformance):
    @pytest.fixture
    def store(self, dynamodb_inbox_url: str) -> Iterator[DynamoInbox]:
        store = by_url(dynamodb_inbox_url)
        yield store
        store.close()
