"""`event.send`: what a handler sends is in our outbox by the same commit, or not at all."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.promises.receiving.conftest import PostgresWorld, SqliteWorld, World
from tests.promises.receiving.kit import own_source, signed, statuses

from hooklane import Outbox
from hooklane.errors import ConfigError, Reject, UsageError
from hooklane.receiver import Event, Inbox
from hooklane.telemetry.events import CommitHookFailed


def published(world: World) -> list[str]:
    if isinstance(world, SqliteWorld):
        conn: Any = sqlite3.connect(world.path)
        table = "hooklane_event"
    else:
        assert isinstance(world, PostgresWorld)
        conn, table = psycopg.connect(world.url), "hooklane.event"
    try:
        return [row[0] for row in conn.execute(f"SELECT type FROM {table} ORDER BY type").fetchall()]
    finally:
        conn.close()


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_an_event_sent_on_is_published_by_the_same_commit(sql_world: World, mode: Any) -> None:
    inbox = sql_world.inbox(mode, outbox=Outbox(sql_world.where()))

    @own_source(inbox, order="none").on("*")
    def ship(event: Event, tx: Any) -> None:
        sql_world.effect(event, tx)
        event.send(f"shipped.{event.id}", {"id": 7}, key="order:7")
        if event.type == "order.bad":
            raise Reject("no")

    inbox.receive(signed("evt_1"))
    inbox.receive(signed("evt_1"))
    inbox.receive(signed("evt_2", type="order.bad"))
    inbox.run_once()

    assert published(sql_world) == ["shipped.evt_1"]
    assert sql_world.effects() == ["evt_1"]


async def test_async_handlers_send_on_too(sql_world: World) -> None:
    inbox = sql_world.inbox(outbox=Outbox(sql_world.where()))

    @own_source(inbox).on("*")
    async def ship(event: Event, tx: Any) -> None:
        event.send("shipped", {"id": 7}, key="order:7")

    await inbox.areceive(signed())
    await inbox.arun_once()
    assert published(sql_world) == ["shipped"]
    await inbox.aclose()


def test_what_cannot_be_sent_takes_everything_with_it(sql_world: World) -> None:
    inbox = sql_world.inbox(outbox=Outbox(sql_world.where()))

    @own_source(inbox).on("*")
    def ship(event: Event, tx: Any) -> None:
        sql_world.effect(event, tx)
        event.send("shipped", {"at": object()})

    inbox.receive(signed())
    inbox.run_once()
    assert (statuses(inbox), sql_world.effects(), published(sql_world)) == (["dead"], [], [])


def test_what_is_sent_after_the_handler_has_ended_is_refused_and_told(sql_world: World) -> None:
    """Naive: it is kept in a list that nobody looks at any more."""
    inbox = sql_world.inbox(outbox=Outbox(sql_world.where()))
    late: list[Event] = []

    @own_source(inbox).on("*")
    def ship(event: Event, tx: Any) -> None:
        late.append(event)
        event.on_commit(lambda: event.send("shipped", {}))

    inbox.receive(signed())
    inbox.run_once()

    (failed,) = sql_world.told_of(CommitHookFailed)
    assert "after its handler had ended" in failed.error
    with pytest.raises(UsageError, match="after its handler had ended"):
        late[0].send("shipped", {})
    assert (statuses(inbox), published(sql_world)) == (["completed"], [])


def test_an_outbox_elsewhere_is_refused_at_construction(sql_world: World, tmp_path: Path) -> None:
    elsewhere = Outbox(f"sqlite:///{tmp_path / 'elsewhere.db'}")
    with pytest.raises(ConfigError, match="not in the database"):
        Inbox(sql_world.where(), outbox=elsewhere)
    with pytest.raises(ConfigError, match="memory"):
        Inbox("memory://", outbox=elsewhere)


def test_sending_without_an_outbox_says_what_is_missing(world: World) -> None:
    inbox = world.inbox()

    @own_source(inbox).on("*")
    def ship(event: Event, tx: Any) -> None:
        with pytest.raises(UsageError, match="outbox"):
            event.send("shipped", {})
        world.effect(event, tx)

    inbox.receive(signed())
    inbox.run_once()
    assert world.effects() == ["evt_1"]
