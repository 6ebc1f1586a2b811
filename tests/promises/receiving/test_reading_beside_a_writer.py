"""SQLite has one writer: whoever only looks needs no turn."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.promises.receiving.conftest import SqliteWorld
from tests.promises.receiving.kit import own_source, signed
from tests.support.pace import scaled_s

from hooklane import Inbox
from hooklane.errors import ConfigError


@pytest.fixture
def writer(sqlite_world: SqliteWorld) -> Any:
    """A world with one event, whose file another connection has been writing to for long."""
    inbox = sqlite_world.inbox()
    own_source(inbox, order="none").on("*")(sqlite_world.effect)
    inbox.receive(signed())
    inbox.run_once()
    inbox.receive(signed())  # a copy, to be counted when there is a turn
    conn = sqlite3.connect(sqlite_world.path, isolation_level=None)
    conn.execute("BEGIN IMMEDIATE")
    yield inbox
    conn.execute("ROLLBACK")
    conn.close()


def test_rows_and_figures_are_read_beside_a_writer(writer: Inbox) -> None:
    began = time.monotonic()
    (row,) = writer.rows()
    stats = writer.stats()

    assert (row.message.event_id, str(row.overall)) == ("evt_1", "completed")
    assert [(str(count.status), count.rows) for count in stats.counts] == [("completed", 1)]
    assert time.monotonic() - began < 4, "it waited for the writer"


def test_a_process_that_opens_the_file_beside_a_writer_can_look(writer: Inbox, sqlite_world: SqliteWorld) -> None:
    command = [sys.executable, "-m", "hooklane", "inbox", "stats", "--store", sqlite_world.where(), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=scaled_s(60))

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_a_command_that_has_to_write_says_that_the_store_is_held_and_not_that_it_is_away(
    writer: Inbox, sqlite_world: SqliteWorld
) -> None:
    command = [sys.executable, "-m", "hooklane", "inbox", "replay", "1", "--yes", "--store", sqlite_world.where()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=scaled_s(60))

    assert done.returncode == 1, "5 stands for a store that cannot be reached"
    assert "a transaction elsewhere that is still open holds the database" in done.stderr


def test_copies_that_could_not_be_counted_are_counted_later(sqlite_world: SqliteWorld) -> None:
    inbox = sqlite_world.inbox()
    own_source(inbox, order="none").on("*")(sqlite_world.effect)
    for _ in range(3):
        inbox.receive(signed())
    conn = sqlite3.connect(sqlite_world.path, isolation_level=None)
    conn.execute("BEGIN IMMEDIATE")
    inbox.stats()
    conn.execute("ROLLBACK")
    conn.close()
    inbox.stats()

    assert [row.copies for row in inbox.rows()] == [3]


def test_what_is_read_is_what_was_committed_last(sqlite_world: SqliteWorld) -> None:
    inbox = sqlite_world.inbox()
    own_source(inbox, order="none").on("*")(sqlite_world.effect)
    for number in range(20):
        inbox.receive(signed(f"evt_{number}"))
        assert len(inbox.rows()) == number + 1


@pytest.mark.parametrize("nonsense", ["sqlite:///app.db", 7, object(), {"publish": 1}, lambda: None])
def test_an_outbox_that_is_none_is_refused_at_construction(sqlite_world: SqliteWorld, nonsense: Any) -> None:
    with pytest.raises(ConfigError, match="outbox"):
        Inbox(sqlite_world.where(), outbox=nonsense)
