"""F61, F62: receivers behind gunicorn and uvicorn are killed at each crash point, on each store, under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.receiver.kills import POINTS, SENDERS, run
from tests.promises.receiving.conftest import PostgresWorld, SqliteWorld, World
from tests.stores.inbox.conftest import dynamodb_account, dynamodb_inbox_url
from tests.stores.inbox.worlds import DynamoWorld, RedisWorld

__all__ = ["dynamodb_account", "dynamodb_inbox_url"]

SHARE = {("flask", "inline", "sqlite")}
CASES = [
    pytest.param(framework, mode, store, marks=[] if (framework, mode, store) in SHARE else [pytest.mark.soak])
    for framework in ("flask", "fastapi", "django")
    for mode in ("durable", "inline")
    for store in ("sqlite", "postgres", "redis", "dynamodb")
    if framework != "django" or store in ("sqlite", "postgres")
]


@pytest.fixture
def world(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World
    if store == "sqlite":
        made = SqliteWorld(tmp_path / "app.db")
    elif store == "postgres":
        made = PostgresWorld(request.getfixturevalue("postgres_url"))
    elif store == "redis":
        made = RedisWorld(request.getfixturevalue("redis_url"))
    else:
        made = DynamoWorld(request.getfixturevalue("dynamodb_inbox_url"))
    yield made
    made.close()


@pytest.mark.parametrize(("framework", "mode", "store"), CASES)
def test_f61_f62_a_receiver_that_is_killed_at_each_point_loses_nothing_and_doubles_no_effect(
    framework: str, mode: str, world: World, tmp_path: Path
) -> None:
    report = run(world, framework, mode, tmp_path)

    assert report.kills == len(POINTS)
    assert report.lost == set()
    assert report.duplicates > 0
    if world.name == "redis":  # its handlers' effects are elsewhere: at least once, and only what was under way twice
        assert len(report.twice) <= report.kills * SENDERS
    else:
        assert report.twice == []
