"""Worlds on Redis and DynamoDB: the receiver's promises run on them as they do on the SQL stores.

On Redis the effects are in a database of the application's own, here a list in Redis, which the inbox cannot join.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from tests.inbox.conftest import World
from tests.support.dynamodb import DynamoDB
from tests.support.shared import shared

from hooklane.receiver import Event
from hooklane.store.dynamodb.store import by_url


class RedisWorld(World):
    name = "redis"

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.client = redis.Redis.from_url(url)

    def where(self) -> Any:
        return self.url

    def effect(self, event: Event, tx: Any) -> None:
        self.client.rpush("effects", event.id)

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
        self.table = f"effects-{urlsplit(url).netloc}"
        self.client = by_url(url)._table.client()
        self.client.create_table(
            TableName=self.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )

    def where(self) -> Any:
        return self.url

    def effect(self, event: Event, tx: Any) -> None:
        append = "SET ids = list_append(if_not_exists(ids, :none), :one)"
        tx.update(self.table, {"id": "all"}, append, values={"none": [], "one": [event.id]})

    def effects(self) -> list[str]:
        found = self.client.get_item(TableName=self.table, Key={"id": {"S": "all"}}, ConsistentRead=True)
        return [each["S"] for each in found.get("Item", {}).get("ids", {"L": []})["L"]]

    def close(self) -> None:
        super().close()
        self.client.delete_table(TableName=self.table)
        self.client.close()


def make_world(name: str, request: pytest.FixtureRequest) -> World:
    if name == "dynamodb":
        return DynamoWorld(request.getfixturevalue("dynamodb_inbox_url"))
    return RedisWorld(request.getfixturevalue("redis_url"))


@pytest.fixture(scope="session")
def dynamodb_account() -> DynamoDB:
    """One account for all tests of this process: a new one costs DynamoDB Local half a second."""
    return DynamoDB(**shared("dynamodb"), access_key=f"stores{os.getpid()}")


_tables = count(1)


@pytest.fixture
def dynamodb_inbox_url(dynamodb_account: DynamoDB, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An inbox in a table of this test's own."""
    for name, value in dynamodb_account.environment().items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://inbox{next(_tables)}?endpoint={dynamodb_account.url}"
    store = by_url(url)
    assert store.create_table()
    yield url
    store._table.client().delete_table(TableName=store.table)
    store.close()


# What these promise needs a handler whose writes are part of the commit, and Redis has none.
NEEDS_ATOMIC = {
    "test_each_handler_has_its_own_status",
    "test_a_failing_handler_is_retried_with_growing_full_jitter_and_dies_with_its_story",
    "test_a_shadow_replay_runs_new_code_and_leaves_no_trace",
    "test_a_block_that_raises_undoes_its_claim",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    stores = ["redis", "dynamodb"]
    if metafunc.function.__name__ in NEEDS_ATOMIC:
        stores.remove("redis")
    for name in ("world", "sql_world"):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, stores, indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Each store without interactive transactions in turn."""
    world = make_world(request.param, request)
    yield world
    world.close()


@pytest.fixture
def sql_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """For tests that are written for stores which an application shares with us."""
    world = make_world(request.param, request)
    yield world
    world.close()
