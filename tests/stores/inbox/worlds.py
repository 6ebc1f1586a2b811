"""Worlds on Redis and DynamoDB: an application's effects beside the inbox.

On Redis they are a list of the application's own, which the inbox cannot join. On DynamoDB they are a list in an item
of the application's own table, appended in the handler's transaction.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import redis
from tests.promises.receiving.conftest import World

from hooklane.receiver import Event
from hooklane.store.dynamodb.store import by_url

EFFECTS = "effects"
"""One table for all tests of an account: each test's effects are one item of it, named after its inbox."""


def write_effect(url: str, event: Event, tx: Any) -> None:
    """Leave one line for a call of a handler."""
    if url.startswith("redis"):
        with redis.Redis.from_url(url) as client:
            client.rpush("effects", event.id)
    else:
        append = "SET ids = list_append(if_not_exists(ids, :none), :one)"
        tx.update(EFFECTS, {"id": urlsplit(url).netloc}, append, values={"none": [], "one": [event.id]})


class RedisWorld(World):
    name = "redis"

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.client = redis.Redis.from_url(url)

    def where(self) -> Any:
        return self.url

    def effect(self, event: Event, tx: Any) -> None:
        write_effect(self.url, event, tx)

    def effects(self) -> list[str]:
        return [each.decode() for each in self.client.lrange("effects", 0, -1)]

    def close(self) -> None:
        super().close()
        self.client.close()


class DynamoWorld(World):
    """The effects are one list in an item of the application's own table, appended in the handler's transaction."""

    name = "dynamodb"

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.table = EFFECTS
        self.client = by_url(url)._table.client()

    def where(self) -> Any:
        return self.url

    def effect(self, event: Event, tx: Any) -> None:
        write_effect(self.url, event, tx)

    def effects(self) -> list[str]:
        found = self.client.get_item(
            TableName=self.table, Key={"id": {"S": urlsplit(self.url).netloc}}, ConsistentRead=True
        )
        return [each["S"] for each in found.get("Item", {}).get("ids", {"L": []})["L"]]

    def close(self) -> None:
        super().close()
        self.client.close()
