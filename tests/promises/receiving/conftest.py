"""A world for each store: an application's table of effects beside the inbox, on memory, SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from tests.promises.receiving.kit import HandClock
from tests.support.pairs import soaking
from tests.support.sqlite_files import new_application_file

from hooklane.receiver import Event, Inbox
from hooklane.store.memory.inbox import MemoryInbox

HERE = Path(__file__).parent
NO_CASE = SimpleNamespace(params={})


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A promise that holds in both modes is tested on each store in one of them; in the other it soaks."""
    ours = [item for item in items if item.path.is_relative_to(HERE) and not item.get_closest_marker("soak")]
    names = [(item.nodeid.partition("[")[0], getattr(item, "callspec", NO_CASE).params) for item in ours]
    for item, soaks in zip(ours, soaking(names), strict=True):
        if soaks:
            item.add_marker(pytest.mark.soak)


class World:
    """An application's database, and inboxes on it. `effect` is a handler that leaves one line per call."""

    name: str

    def __init__(self) -> None:
        self.clock = HandClock()
        self.told: list[Any] = []
        self._inboxes: list[Inbox] = []

    def inbox(self, mode: Any = "durable", **options: Any) -> Inbox:
        defaults: dict[str, Any] = {"clock": self.clock, "roll": lambda: 0.5, "emit": self.told.append}
        inbox = Inbox(self.where(), mode, **defaults | options)
        self._inboxes.append(inbox)
        return inbox

    def where(self) -> Any:
        raise NotImplementedError

    def effect(self, event: Event, tx: Any) -> None:
        raise NotImplementedError

    async def aeffect(self, event: Event, tx: Any) -> None:
        self.effect(event, tx)

    def effects(self) -> list[str]:
        """The ids of the events that took effect, in order."""
        raise NotImplementedError

    def told_of(self, kind: type) -> list[Any]:
        return [each for each in self.told if isinstance(each, kind)]

    def close(self) -> None:
        for inbox in self._inboxes:
            inbox.close()


class MemoryWorld(World):
    name = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryInbox()

    def where(self) -> Any:
        return self.store

    def effect(self, event: Event, tx: Any) -> None:
        tx[len(tx), event.id] = event.id

    def effects(self) -> list[str]:
        return [value for _, value in sorted(self.store.data.items())]


class SqliteWorld(World):
    name = "sqlite"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        new_application_file(path)

    def where(self) -> Any:
        return f"sqlite:///{self.path}"

    def effect(self, event: Event, tx: Any) -> None:
        tx.execute("INSERT INTO effects (event_id) VALUES (?)", (event.id,))

    def effects(self) -> list[str]:
        conn = sqlite3.connect(self.path)
        try:
            return [line[0] for line in conn.execute("SELECT event_id FROM effects ORDER BY n")]
        finally:
            conn.close()


class PostgresWorld(World):
    name = "postgres"

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        with psycopg.connect(url) as conn:
            conn.execute("CREATE TABLE effects (n bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, event_id text)")

    def where(self) -> Any:
        return self.url

    def effect(self, event: Event, tx: Any) -> None:
        tx.execute("INSERT INTO effects (event_id) VALUES (%s)", (event.id,))

    async def aeffect(self, event: Event, tx: Any) -> None:
        await tx.execute("INSERT INTO effects (event_id) VALUES ($1)", event.id)

    def effects(self) -> list[str]:
        with psycopg.connect(self.url) as conn:
            return [line[0] for line in conn.execute("SELECT event_id FROM effects ORDER BY n")]


def _world(name: str, request: pytest.FixtureRequest) -> World:
    if name == "memory":
        return MemoryWorld()
    if name == "sqlite":
        return SqliteWorld(request.getfixturevalue("tmp_path") / "app.db")
    return PostgresWorld(request.getfixturevalue("postgres_url"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Each store in turn."""
    world = _world(request.param, request)
    yield world
    world.close()


@pytest.fixture(params=["sqlite", "postgres"])
def sql_world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Each store that an application shares with us."""
    world = _world(request.param, request)
    yield world
    world.close()


@pytest.fixture
def sqlite_world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = _world("sqlite", request)
    yield world
    world.close()


@pytest.fixture
def postgres_world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = _world("postgres", request)
    yield world
    world.close()
