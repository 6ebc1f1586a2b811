"""Known ways to let old data win. In each test the naive version, written here, fails; ours does not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.promises.receiving.conftest import PostgresWorld, SqliteWorld, World
from tests.promises.receiving.kit import own_source, signed

from hooklane.errors import Reject, UsageError
from hooklane.model.clock import wall_now
from hooklane.model.message import Request
from hooklane.receiver import Event, insert_once, latest, ledger_entry, transition
from hooklane.testing.conformance_inbox import together

TABLE = "CREATE TABLE signals (car text, path text, value text, at bigint, PRIMARY KEY (car, path))"


@pytest.fixture
def garage(sql_world: World) -> Iterator[Callable[[], Any]]:
    """A function that opens a connection to a database with a table of signals."""

    def connect() -> Any:
        if isinstance(sql_world, SqliteWorld):
            return sqlite3.connect(sql_world.path, timeout=10)
        assert isinstance(sql_world, PostgresWorld)
        return psycopg.connect(sql_world.url)

    conn = connect()
    conn.execute(TABLE)
    conn.commit()
    yield connect
    conn.close()


def ours(connect: Callable[[], Any], path: str, value: str, at: Any) -> bool:
    conn = connect()
    try:
        applied = latest.apply(conn, "signals", key={"car": "c", "path": path}, at=at, set={"value": value})
        conn.commit()
        return bool(applied)
    finally:
        conn.close()


def value(connect: Callable[[], Any], path: str) -> Any:
    conn = connect()
    try:
        return conn.execute(f"SELECT value FROM signals WHERE path = '{path}'").fetchone()[0]
    finally:
        conn.close()


def test_trap_7_the_time_of_delivery_is_the_time_of_an_attempt(garage: Callable[[], Any]) -> None:
    newer = {"deliveredAt": 200, "oemUpdatedAt": 100, "value": "80 %"}
    retried = {"deliveredAt": 300, "oemUpdatedAt": 50, "value": "20 %"}  # older data, delivered late
    state: dict[str, Any] = {}
    for payload in (newer, retried):
        if not state or payload["deliveredAt"] > state["at"]:
            state = {"at": payload["deliveredAt"], "value": payload["value"]}
    assert state["value"] == "20 %", "the naive version overwrote newer data"

    for payload in (newer, retried):
        ours(garage, "soc", str(payload["value"]), payload["oemUpdatedAt"])
    assert value(garage, "soc") == "80 %"


def test_trap_8_read_compare_write_without_a_lock(garage: Callable[[], Any]) -> None:
    state: dict[str, Any] = {"at": 0, "value": ""}
    reads = [dict(state), dict(state)]  # both read before either writes
    for seen, at in zip(reads, (200, 100), strict=True):
        if at > seen["at"]:
            state = {"at": at, "value": f"at {at}"}
    assert state["value"] == "at 100", "the older write came last and won"

    together(8, lambda n: ours(garage, "p", f"at {n}", n + 1))
    assert value(garage, "p") == "at 7"


def test_trap_8_times_of_different_kinds_cannot_be_compared_as_they_are(garage: Callable[[], Any]) -> None:
    with pytest.raises(TypeError):
        assert "2026-01-01T00:00:00Z" > 1767225600  # type: ignore[operator]
    assert "2026-01-01T00:00:45Z" > "2026-01-01T00:00:45.500Z", "text says that the earlier one is later"

    assert ours(garage, "p", "first", "2026-01-01T00:00:45Z")
    assert ours(garage, "p", "half a second later", "2026-01-01T00:00:45.500Z")
    assert not ours(garage, "p", "the same instant elsewhere", "2026-01-01T02:00:45.500+02:00")
    assert not ours(garage, "p", "seconds", 1767225645)
    assert ours(garage, "p", "milliseconds", 1767225646000)


def test_trap_9_true_although_the_where_filtered_it(garage: Callable[[], Any]) -> None:
    conn = garage()

    def naive(value: str, at: int, raced: Callable[[], None]) -> bool:
        row = conn.execute("SELECT at FROM signals WHERE path = 'p'").fetchone()
        if row and row[0] >= at:
            return False
        conn.commit()
        raced()
        conn.execute(
            f"INSERT INTO signals VALUES ('c', 'p', '{value}', {at}) ON CONFLICT (car, path) DO UPDATE SET"
            " value = excluded.value, at = excluded.at WHERE signals.at < excluded.at"
        )
        conn.commit()
        return True

    def newer_comes_first() -> None:
        assert ours(garage, "p", "newer", 200)

    assert naive("older", 100, newer_comes_first), "it says that it was applied"
    conn.close()
    assert value(garage, "p") == "newer", "it was not"
    assert not ours(garage, "p", "older", 100)


def test_trap_10_an_update_without_an_insert_drops_the_first_value(garage: Callable[[], Any]) -> None:
    conn = garage()
    changed = conn.execute("UPDATE signals SET value = 'x', at = 1 WHERE path = 'p' AND at < 1").rowcount
    conn.close()
    assert changed == 0, "the first value of a signal is dropped and called stale"
    assert ours(garage, "p", "x", 1)


def test_a_clock_ahead_of_time_would_freeze_a_field_and_is_refused(garage: Callable[[], Any]) -> None:
    assert ours(garage, "p", "now", wall_now())
    with pytest.raises(Reject, match="future_clock"):
        ours(garage, "p", "wrong", "2999-01-01T00:00:00Z")
    conn = garage()
    skipped = latest.apply(
        conn, "signals", key={"car": "c", "path": "p"}, at=wall_now() + 10**9, set={"value": "x"}, future="skip"
    )
    conn.close()
    assert skipped is False
    assert value(garage, "p") == "now"


def test_signals_of_one_vehicle_end_in_the_newest_value_of_each(sql_world: World, garage: Callable[[], Any]) -> None:
    """A Smartcar event mixes signals of different ages: late, retried and out of order, per field the newest wins."""
    inbox = sql_world.inbox(clock=wall_now)

    @inbox.source("smartcar", unsafe=True).on("*")
    def store(event: Event, tx: Any) -> None:
        for signal in event.payload["data"]["signals"]:
            key = {"car": event.payload["data"]["vehicle"]["id"], "path": signal["code"]}
            latest.apply(tx, "signals", key=key, at=signal["meta"]["oemUpdatedAt"], set={"value": signal["value"]})

    def event(number: int, **signals: tuple[int, str]) -> Request:
        listed = [
            {"code": code, "value": value, "meta": {"oemUpdatedAt": f"2026-01-01T00:00:{at:02d}Z"}}
            for code, (at, value) in signals.items()
        ]
        body = {
            "eventId": f"e{number}",
            "eventType": "VEHICLE_STATE",
            "data": {"vehicle": {"id": "car"}, "signals": listed},
            "meta": {"deliveryId": f"d{number}"},
        }
        return Request.of("POST", "http://x/smartcar", {}, json.dumps(body).encode())

    first, second, third = (
        event(1, odometer=(1, "100"), soc=(10, "80")),
        event(2, odometer=(5, "105"), soc=(8, "90")),
        event(3, odometer=(3, "103"), soc=(12, "70")),
    )
    for request in (second, first, third, first, second):
        assert inbox.receive(request).status == 200
    inbox.run_once()
    conn = garage()
    rows = conn.execute("SELECT path, value FROM signals ORDER BY path").fetchall()
    conn.close()
    assert [tuple(row) for row in rows] == [("odometer", "105"), ("soc", "70")]


def test_trap_22_a_content_hash_as_event_id_loses_the_way_back(world: World) -> None:
    seen: set[str] = set()
    shown: list[str] = []
    for state in ("A", "B", "A"):
        if state not in seen:
            seen.add(state)
            shown.append(state)
    assert shown == ["A", "B"], "the odds went back to A and nobody saw it"

    inbox = world.inbox()
    inbox.source("sportsstack", unsafe=True, order="none").on("*")(world.effect)
    for state in ("A", "A", "B", "A"):
        body = {"event": {"hash": state, "common_model_id": "match:1", "type": "odds"}, "data": {"odds": state}}
        inbox.receive(Request.of("POST", "http://x/sportsstack", {}, json.dumps(body).encode()))
    inbox.run_once()
    assert world.effects() == ["A", "B", "A"]


# Operations that are idempotent by design


def test_trap_28_setting_a_balance_is_not_adding_to_it(sql_world: World, garage: Callable[[], Any]) -> None:
    balance = 0
    for computed in (balance + 100, balance + 100):  # two payments, each read the balance before the other wrote
        if balance != computed:
            balance = computed
    assert balance == 100, "one of two payments is lost"

    conn = garage()
    conn.execute("CREATE TABLE ledger (entry text PRIMARY KEY, account text, amount bigint)")
    conn.commit()
    inbox = sql_world.inbox(clock=wall_now)
    own_source(inbox, order="none").on("*")(
        lambda event, tx: ledger_entry(tx, "ledger", event=event, account="a", amount=100)
    )
    for id in ("evt_1", "evt_2", "evt_1"):
        inbox.receive(signed(id))
    inbox.run_once()
    inbox.replay(source="hooklane")
    inbox.run_once()
    total = conn.execute("SELECT sum(amount) FROM ledger").fetchone()[0]
    conn.close()
    assert total == 200


def test_a_status_only_moves_forward(garage: Callable[[], Any]) -> None:
    conn = garage()
    conn.execute("CREATE TABLE orders (id text PRIMARY KEY, status text, note text)")
    life = ["created", "paid", "shipped"]
    moved = [
        transition(conn, "orders", key={"id": "7"}, to=to, order=life, set={"note": to})
        for to in ("paid", "created", "paid", "shipped", "paid")
    ]
    assert moved == [True, False, False, True, False]
    assert [tuple(row) for row in conn.execute("SELECT * FROM orders").fetchall()] == [("7", "shipped", "shipped")]
    conn.close()


def test_a_row_is_inserted_once(garage: Callable[[], Any]) -> None:
    conn = garage()
    conn.execute("CREATE TABLE orders (id text PRIMARY KEY, note text)")
    inserted = [insert_once(conn, "orders", {"id": "7", "note": note}, key=["id"]) for note in ("a", "b")]
    assert inserted == [True, False]
    assert [tuple(row) for row in conn.execute("SELECT * FROM orders").fetchall()] == [("7", "a")]
    conn.close()


def test_names_that_are_not_names_never_reach_the_database(garage: Callable[[], Any]) -> None:
    conn = garage()
    for table, column in (("signals; DROP TABLE signals", "value"), ("signals", "value = 1 --")):
        with pytest.raises(UsageError):
            latest.apply(conn, table, key={"car": "c", "path": "p"}, at=1, set={column: 1})
    conn.close()


def test_rows_from_before_a_time_or_a_status_was_kept_are_not_frozen(garage: Callable[[], Any]) -> None:
    conn = garage()
    conn.execute("CREATE TABLE cars (id text PRIMARY KEY, speed integer, at bigint, tie text, status text)")
    conn.execute("INSERT INTO cars (id, speed) VALUES ('c', 1)")  # the other columns came later
    life = ["parked", "moving"]

    def newer(at: int, **tie: str) -> bool:
        return bool(latest.apply(conn, "cars", key={"id": "c"}, at=at, set={"speed": at}, **tie))

    assert [newer(5), newer(5), newer(4)] == [True, False, False]
    ties = [newer(5, tie=tie, tie_column="tie") for tie in ("b", "a", "b", "c")]
    assert ties == [True, False, False, True]
    moves = [transition(conn, "cars", key={"id": "c"}, to=to, order=life) for to in ("parked", "moving", "parked")]
    assert moves == [True, True, False]
    conn.close()
