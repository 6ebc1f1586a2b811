"""Worlds on Redis and DynamoDB: the receiver's promises run on them as they do on the SQL stores.

On Redis the effects are in a database of the application's own, here a list in Redis, which the inbox cannot join.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from tests.inbox.conftest import World

from hooklane.receiver import Event


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


def make_world(name: str, request: pytest.FixtureRequest) -> World:
    return RedisWorld(request.getfixturevalue("redis_url"))


# What these promise needs a handler whose writes are part of the commit, and Redis has none.
NEEDS_ATOMIC = {
    "test_each_handler_has_its_own_status",
    "test_a_failing_handler_is_retried_with_growing_full_jitter_and_dies_with_its_story",
    "test_a_shadow_replay_runs_new_code_and_leaves_no_trace",
    "test_a_block_that_raises_undoes_its_claim",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    stores = ["redis"]
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
