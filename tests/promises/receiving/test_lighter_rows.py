"""On SQLite a row tells by itself what was settled with it: an upgrade, a replay and a prune lose nothing by that."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import DAY_MS, beat_through, outcome, own_source, signed

from hooklane.model.clock import Instant
from hooklane.model.message import Status
from hooklane.receiver import Event, Inbox
from hooklane.store.sql.migration_files import migrations_of
from hooklane.store.sqlite.database import connect, migrate

MIGRATIONS = migrations_of("hooklane.store.sqlite.inbox.migrations")
OLD_ROW = """
INSERT INTO hooklane_inbox_row (id, tenant, source, event_id, variant, type, id_signed, fingerprint, body, headers,
    status, received_at)
VALUES (?, 'default', 'hooklane', ?, '', 'order.created', 1, x'00', ?, '[]', ?, 1000)
"""
OLD_HANDLING = """
INSERT INTO hooklane_inbox_handling (row_id, handler, tenant, source, status, due_at, attempts, fence, error)
VALUES (?, ?, 'default', 'hooklane', ?, 2000, 3, 4, ?)
"""


def older(path: Path) -> None:
    """A file as the first schema left it: owed, dead and done events, and a larger id that was pruned."""
    conn = connect(str(path))
    migrate(conn, "inbox", MIGRATIONS[:1], str(path))
    for id, status in ((7, "pending"), (8, "pending"), (9, "ignored"), (900, "pending")):
        conn.execute(OLD_ROW, (id, f"evt_{id}", b"body %d" % id, status))
    conn.execute(OLD_HANDLING, (7, "first", "dead", "it broke"))
    conn.execute(OLD_HANDLING, (7, "second", "completed", None))
    conn.execute(OLD_HANDLING, (8, "first", "pending", None))
    conn.execute("DELETE FROM hooklane_inbox_row WHERE id = 900")
    conn.close()


WHERE: dict[str, Callable[[Path], Any]] = {
    "url": lambda path: f"sqlite:///{path}",
    "sqlalchemy": lambda path: create_engine(f"sqlite:///{path}"),
    "factory": lambda path: lambda: sqlite3.connect(path),
}


@pytest.mark.parametrize("where", list(WHERE))
def test_an_upgrade_keeps_every_event_and_what_its_handlers_owe(tmp_path: Path, where: str) -> None:
    path = tmp_path / "app.db"
    older(path)
    inbox = Inbox(WHERE[where](path))
    rows = inbox.rows()
    own_source(inbox).on("order.*")(lambda event, tx: None)
    inbox.receive(signed("evt_new"))
    newest = inbox.rows()[-1]
    inbox.close()

    assert [(row.id, row.message.event_id, row.message.body) for row in rows] == [
        (7, "evt_7", b"body 7"),
        (8, "evt_8", b"body 8"),
        (9, "evt_9", b"body 9"),
    ]
    assert [(each.handler, each.status, each.attempts, each.fence, each.error) for each in rows[0].handlings] == [
        ("first", Status.DEAD, 3, 4, "it broke"),
        ("second", Status.COMPLETED, 3, 4, None),
    ]
    assert [row.overall for row in rows] == [Status.DEAD, Status.PENDING, Status.IGNORED]
    assert newest.id == 901, "an id that was pruned before the upgrade is not given out again"
    conn = sqlite3.connect(path)
    try:
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        conn.execute("PRAGMA foreign_keys = ON")
        conn.execute("DELETE FROM hooklane_inbox_row WHERE id = 7")
        left = conn.execute("SELECT row_id FROM hooklane_inbox_handling ORDER BY row_id").fetchall()
        assert left == [(8,), (901,)], "what belongs to a row goes with it, and nothing else does"
    finally:
        conn.close()


@pytest.mark.parametrize("where", list(WHERE))
def test_what_was_settled_with_its_row_is_shown_searched_counted_and_replayed(tmp_path: Path, where: str) -> None:
    calls: list[int] = []

    def paid(event: Event, tx: Any) -> None:
        calls.append(event.attempt)

    inbox = Inbox(WHERE[where](tmp_path / "app.db"), "inline")
    own_source(inbox).on("order.*", name="paid")(paid)
    first = inbox.receive(signed("evt_1"))
    inbox.receive(signed("evt_2"))
    again = inbox.receive(signed("evt_1"))
    (row,) = inbox.rows(event_id="evt_1")
    found = [inbox.rows(status=status, handler=handler) for status, handler in _SEARCHES]
    replayed = inbox.replay([row.id])
    owed = inbox.stats()
    inbox.run_once()
    done = inbox.stats()
    inbox.close()

    assert (outcome(first), outcome(again)) == ("applied", "duplicate")
    assert [(each.handler, each.status, each.attempts) for each in row.handlings] == [("paid", Status.COMPLETED, 1)]
    assert [len(rows) for rows in found] == [2, 2, 0, 0]
    assert replayed == 1
    assert [(each.handler, each.status, each.rows) for each in owed.counts] == [
        ("paid", Status.COMPLETED, 1),
        ("paid", Status.PENDING, 1),
    ]
    assert [(each.handler, each.status, each.rows) for each in done.counts] == [("paid", Status.COMPLETED, 2)]
    assert calls == [1, 1, 1]


_SEARCHES = (("completed", None), ("completed", "paid"), ("completed", "another"), ("dead", "paid"))


def test_an_id_is_not_given_out_again_when_the_newest_row_was_pruned(sqlite_world: World) -> None:
    inbox = sqlite_world.inbox("inline")
    own_source(inbox).on("*")(sqlite_world.effect)
    inbox.receive(signed("evt_1"))
    (before,) = inbox.rows()
    beat_through(inbox, sqlite_world.clock, days=31)
    pruned = inbox.prune()
    inbox.receive(signed("evt_2", at=sqlite_world.clock.now))
    (after,) = inbox.rows()

    assert pruned.rows == 1
    assert (before.id, after.id) == (1, 2)


def test_pruning_takes_all_that_is_old_and_nothing_else(sqlite_world: World) -> None:
    inbox, clock = sqlite_world.inbox("inline"), sqlite_world.clock
    own_source(inbox).on("*")(sqlite_world.effect)
    for number in range(150):
        inbox.receive(signed(f"old_{number}", at=clock.now))
    beat_through(inbox, clock, days=20)
    for number in range(70):
        inbox.receive(signed(f"new_{number}", at=clock.now))
    beat_through(inbox, clock, days=11)
    first = inbox.prune().rows
    left = [row.message.event_id for row in inbox.rows(limit=1000)]
    beat_through(inbox, clock, days=20)
    second = inbox.prune().rows

    assert (first, second) == (150, 70)
    assert left == [f"new_{number}" for number in range(70)]


def test_what_came_while_the_clock_was_wrong_is_pruned_in_its_time(sqlite_world: World) -> None:
    inbox, clock = sqlite_world.inbox("inline"), sqlite_world.clock
    own_source(inbox).on("*")(sqlite_world.effect)
    right = clock.now
    for number in range(70):
        clock.now = Instant(right - (40 * DAY_MS if number > 65 else 0))
        inbox.receive(signed(f"evt_{number}", at=clock.now))
    clock.now = right
    beat_through(inbox, clock, days=1)
    early = inbox.prune().rows
    beat_through(inbox, clock, days=30)
    later = inbox.prune().rows

    assert early + later == 70
    assert inbox.rows() == []
