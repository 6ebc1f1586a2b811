"""What the helpers for writes (`latest.apply`, `insert_once`, `transition`, `ledger_entry`) refuse, and what they take.

A refusal is told before anything is written: with each of these calls the write was made, and was not the one that
was meant.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, cast

import psycopg
import pytest
from tests.promises.receiving.conftest import PostgresWorld, SqliteWorld, World

from hooklane import Inbox, Request, insert_once, latest, ledger_entry, profile_of, token_scheme, transition
from hooklane.errors import Reject, UsageError
from hooklane.model.message import Status

LIFE = ["created", "paid", "shipped"]


class Booked:
    """What `ledger_entry` asks an event for."""

    def step_key(self, step: str) -> str:
        return f"evt_1:{step}"


BOOKED: Any = Booked()


@pytest.fixture
def conn(sql_world: World) -> Iterator[Any]:
    """A connection of an application's own, in a transaction."""
    is_file = isinstance(sql_world, SqliteWorld)
    connection: Any = (
        sqlite3.connect(sql_world.path) if is_file else psycopg.connect(cast(PostgresWorld, sql_world).url)
    )
    yield connection
    connection.close()


def rows(conn: Any, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in conn.execute(f"SELECT * FROM {table}").fetchall()]


def test_a_key_that_is_null_is_refused_as_a_unique_index_takes_it_any_number_of_times(conn: Any) -> None:
    conn.execute("CREATE TABLE orders (id text UNIQUE, line text, status text, at bigint, UNIQUE (id, line))")
    calls: list[Callable[[], object]] = [
        lambda: insert_once(conn, "orders", {"id": None, "status": "paid"}, key=["id"]),
        lambda: insert_once(conn, "orders", {"id": "7", "line": None}, key=["id", "line"]),
        lambda: latest.apply(conn, "orders", key={"id": None}, at=1, set={"status": "paid"}),
        lambda: transition(conn, "orders", key={"id": None}, to="paid", order=LIFE),
    ]
    for call in calls:
        with pytest.raises(Reject, match="key"):
            call()
    assert rows(conn, "orders") == []


def test_a_column_is_written_by_one_argument_only(conn: Any) -> None:
    conn.execute("CREATE TABLE orders (id text UNIQUE, status text, at bigint, tie text)")
    conn.execute("CREATE TABLE entries (entry text UNIQUE, account text, amount bigint)")
    calls: list[Callable[[], object]] = [
        lambda: latest.apply(conn, "orders", key={"id": "7"}, at=1, set={"id": "8"}),
        lambda: latest.apply(conn, "orders", key={"id": "7"}, at=1, set={"ID": "8"}),
        lambda: latest.apply(conn, "orders", key={"id": "7"}, at=1, set={"at": 5}),
        lambda: latest.apply(conn, "orders", key={"at": 7}, at=1, set={}),
        lambda: latest.apply(conn, "orders", key={"id": "7"}, at=1, set={}, tie="a", tie_column="at"),
        lambda: transition(conn, "orders", key={"id": "7"}, to="paid", order=LIFE, set={"status": "created"}),
        lambda: transition(conn, "orders", key={"id": "7"}, to="paid", order=LIFE, set={"id": "8"}),
        lambda: ledger_entry(conn, "entries", event=BOOKED, account="a", amount=1, set={"entry": "mine"}),
        lambda: ledger_entry(conn, "entries", event=BOOKED, account="a", amount=1, set={"amount": 2}),
        lambda: ledger_entry(conn, "entries", event=BOOKED, account="a", amount=1, columns={"entry": "account"}),
    ]
    for call in calls:
        with pytest.raises(UsageError, match="twice"):
            call()
    assert rows(conn, "orders") + rows(conn, "entries") == []


def test_what_would_have_no_effect_is_refused(conn: Any) -> None:
    conn.execute("CREATE TABLE orders (id text UNIQUE, status text, at bigint)")
    conn.execute("CREATE TABLE entries (entry text UNIQUE, account text, amount bigint)")
    calls: list[Callable[[], object]] = [
        lambda: latest.apply(conn, "orders", key={}, at=1, set={"status": "paid"}),
        lambda: transition(conn, "orders", key={}, to="paid", order=LIFE),
        lambda: latest.apply(conn, "orders", key={"id": "7"}, at=1, set={}, tie="b"),
        lambda: transition(conn, "orders", key={"id": "7"}, to="paid", order=["paid", "shipped", "paid"]),
        lambda: transition(conn, "orders", key={"id": "7"}, to="p", order="paid"),  # type: ignore[call-overload]
        lambda: insert_once(conn, "orders", {"id": "7"}, key="id"),  # type: ignore[call-overload]
        lambda: ledger_entry(conn, "entries", event=BOOKED, account="a", amount=1, columns={"sum": "amount"}),
        lambda: ledger_entry(conn, "entries", event=BOOKED, account="a", amount=2**63),
    ]
    for call in calls:
        with pytest.raises(UsageError):
            call()
    assert rows(conn, "orders") + rows(conn, "entries") == []


def test_a_column_may_be_called_by_a_word_of_sql(conn: Any) -> None:
    conn.execute('CREATE TABLE "user" ("order" text UNIQUE, "group" text, "end" bigint, "check" text)')
    applied = [
        latest.apply(conn, "user", key={"order": "7"}, at=at, set={"group": "a"}, at_column="end") for at in (2, 1)
    ]
    moved = [transition(conn, "user", key={"order": "7"}, to=to, order=LIFE, column="check") for to in LIFE[1::-1]]
    once = [insert_once(conn, "user", {"order": order, "group": "b"}, key=["order"]) for order in ("7", "8")]

    assert (applied, moved, once) == ([True, False], [True, False], [False, True])
    assert sorted(rows(conn, '"user"')) == [("7", "a", 2_000_000, "paid"), ("8", "b", None, None)]


def test_names_with_capitals_mean_what_they_mean_in_sql(conn: Any) -> None:
    conn.execute("CREATE TABLE Orders (Id text UNIQUE, Status text)")
    assert insert_once(conn, "Orders", {"Id": "7", "Status": "paid"}, key=["Id"])
    assert rows(conn, "Orders") == [("7", "paid")]


@pytest.mark.parametrize("mode", ["durable", "inline"])
@pytest.mark.parametrize("at", [-(10**40), "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_an_event_with_a_time_that_no_calendar_has_is_a_dead_letter_at_once(mode: Any, at: object) -> None:
    inbox = Inbox("memory://", mode)
    scheme = token_scheme("x-token")
    source = inbox.source("shop", ["a-token-of-20-letters"], profile=profile_of("shop", scheme=scheme, id="id"))
    source.on("*", order=latest(key="id", at="at"))(lambda event, tx: None)
    body = json.dumps({"id": "e1", "at": at}).encode()
    reply = inbox.receive(Request("POST", "/shop", [("x-token", "a-token-of-20-letters")], body))
    inbox.run_once()

    [row] = inbox.rows()
    assert (reply.status, row.overall) == (200, Status.DEAD), row.handlings
    inbox.close()
