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
LONGER_THAN_THE_WINDOW = 40
"""Days; ids are kept for 30."""
CASES = [
    pytest.param(
        *(framework, mode, store, LONGER_THAN_THE_WINDOW if mode == "durable" else 0),
        marks=[] if (framework, mode, store) in SHARE else [pytest.mark.soak],
        id=f"{framework}-{mode}-{store}",
    )
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


@pytest.mark.parametrize(("framework", "mode", "store", "down_days"), CASES)
def test_f61_f62_a_receiver_that_is_killed_at_each_point_loses_nothing_and_doubles_no_effect(
    framework: str, mode: str, world: World, down_days: int, tmp_path: Path
) -> None:
    report = run(world, framework, mode, tmp_path, down_days=down_days)

    assert report.kills == len(POINTS)
    assert report.lost == set()
    assert report.duplicates > 0
    if world.name == "redis":  # its handlers' effects are elsewhere: at least once, and only what was under way twice
        assert len(report.twice) <= report.kills * SENDERS
    else:
        assert report.twice == []
