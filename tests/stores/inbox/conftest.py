"""Fixtures of the stores without interactive transactions: the receiver's promises run on them as on the SQL stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.stores.inbox.worlds import EFFECTS, DynamoWorld, RedisWorld
from tests.support.dynamodb import DynamoDB
from tests.support.shared import shared

from hooklane.store.dynamodb.store import by_url


def make_world(name: str, request: pytest.FixtureRequest) -> World:
    if name == "dynamodb":
        return DynamoWorld(request.getfixturevalue("dynamodb_inbox_url"))
    return RedisWorld(request.getfixturevalue("redis_url"))


@pytest.fixture(scope="session")
def dynamodb_account() -> Iterator[DynamoDB]:
    """One account for all tests of this process, with a table of effects: a new one costs half a second."""
    account = DynamoDB(**shared("dynamodb"), access_key=f"stores{os.getpid()}")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in account.environment().items():
            patch.setenv(name, value)
        client = by_url(f"dynamodb://inbox?endpoint={account.url}")._table.client()
    client.create_table(
        TableName=EFFECTS,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    yield account
    client.close()


_tables = count(1)


@pytest.fixture
def dynamodb_inbox_url(dynamodb_account: DynamoDB, monkeypatch: pytest.MonkeyPatch) -> str:
    """An inbox in a table of this test's own; the server forgets it when it ends."""
    for name, value in dynamodb_account.environment().items():
        monkeypatch.setenv(name, value)
    url = f"dynamodb://inbox{next(_tables)}?endpoint={dynamodb_account.url}"
    store = by_url(url)
    assert store.create_table()
    store.close()
    return url


# What these promise needs a handler whose writes are part of the commit, and Redis has none.
NEEDS_ATOMIC = {
    "test_r2_the_same_receiver_runs_on_every_store",
    "test_each_handler_has_its_own_status",
    "test_a_failing_handler_is_retried_with_growing_full_jitter_and_dies_with_its_story",
    "test_a_shadow_replay_runs_new_code_and_leaves_no_trace",
    "test_a_block_that_raises_undoes_its_claim",
    "test_a_state_is_applied_by_every_handler_and_after_a_failure_too",
    "test_twenty_events_in_four_processes_have_twenty_effects",
    "test_killed_at_any_point_and_delivered_again_there_is_one_effect",
    "test_a_zombies_work_is_rolled_back",
    "test_a_message_that_kills_its_workers_ends_as_a_dead_letter",
    "test_a_commit_that_fails_is_answered_503_and_leaves_nothing",
    "test_a_store_that_was_away_is_downtime_although_the_process_ran",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """DynamoDB Local answers slowly: what Redis shows too soaks there, but for the rows of promise.md."""
    name = metafunc.function.__name__
    stores: list[Any] = ["redis", pytest.param("dynamodb", marks=() if name.startswith("test_r") else pytest.mark.soak)]
    if name in NEEDS_ATOMIC:
        stores = ["dynamodb"]
    if "world" in metafunc.fixturenames:
        metafunc.parametrize("world", stores, indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Each store without interactive transactions in turn."""
    world = make_world(request.param, request)
    yield world
    world.close()


@pytest.fixture
def sql_world(world: World) -> World:
    """For tests that need a store which an application can share with us, or another process."""
    return world


@pytest.fixture
def postgres_world(world: World) -> World:
    """For tests that need a store with many writers."""
    return world
