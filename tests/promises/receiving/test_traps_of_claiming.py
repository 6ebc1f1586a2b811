"""Known ways to claim an event wrongly. In each test the naive version, written here, fails; ours does not.

The numbers are the rows of the list of traps that the project grew from.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.promises.receiving.conftest import PostgresWorld, World
from tests.promises.receiving.kit import outcome, own_source, signed, signed_bytes, statuses
from tests.support.pace import scaled_s

from hooklane.model.clock import wall_now
from hooklane.model.message import Request, Status
from hooklane.receiver import Event
from hooklane.testing.conformance_inbox import together


class Cache:
    """The few commands of a key-value server that the naive versions use; each is atomic, as there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, str] = {}

    def exists(self, key: str) -> bool:
        with self._lock:
            return key in self._keys

    def set(self, key: str, value: str = "1") -> None:
        with self._lock:
            self._keys[key] = value


def concurrently(handle: Callable[[Callable[[], None]], None], copies: int = 4) -> int:
    """Call *handle* in so many threads; it is given something to call between its check and its act."""
    barrier = threading.Barrier(copies)

    def at_the_worst_moment() -> None:
        barrier.wait(timeout=scaled_s(5))

    together(copies, lambda _: handle(at_the_worst_moment))
    return copies


def ours(world: World, mode: Any = "inline", copies: int = 4) -> list[str]:
    """The effects of the same number of copies through an inbox."""
    inbox = world.inbox(mode, clock=wall_now, inline_wait_ms=10_000)
    own_source(inbox, order="none").on("*")(world.effect)
    together(copies, lambda _: inbox.receive(signed()))
    inbox.run_once()
    return world.effects()


def test_trap_1_a_check_before_the_work_and_a_mark_after_it(world: World) -> None:
    cache, effects = Cache(), []

    def naive(worst_moment: Callable[[], None]) -> None:
        if cache.exists("processed:evt_1"):
            return
        worst_moment()
        effects.append("evt_1")
        cache.set("processed:evt_1")

    concurrently(naive)
    assert len(effects) == 4
    assert ours(world) == ["evt_1"]


def test_trap_1_a_crash_before_the_mark_runs_the_effect_again(world: World) -> None:
    cache, effects = Cache(), []

    def naive(crash: bool) -> None:
        if not cache.exists("processed:evt_1"):
            effects.append("evt_1")
            if crash:
                raise SystemExit
            cache.set("processed:evt_1")

    with pytest.raises(SystemExit):
        naive(crash=True)
    naive(crash=False)
    assert len(effects) == 2

    crashes = [SystemExit()]

    def crash_once(point: str) -> None:
        if point == "after_handler" and crashes:
            raise crashes.pop()

    inbox = world.inbox("inline", clock=wall_now, failpoint=crash_once)
    own_source(inbox).on("*")(world.effect)
    with pytest.raises(SystemExit):
        inbox.receive(signed())
    assert outcome(inbox.receive(signed())) == "applied"
    assert world.effects() == ["evt_1"]


def test_trap_2_a_set_and_then_a_look_at_what_was_just_set(world: World) -> None:
    cache, effects = Cache(), []

    def naive() -> None:
        cache.set("evt_1")
        if cache.exists("evt_1"):  # always: it was set one line above
            return
        effects.append("evt_1")

    naive()
    assert effects == [], "the first copy was already taken for a duplicate"
    assert ours(world, copies=2) == ["evt_1"]


def test_trap_3_a_read_that_may_be_old_and_a_write_without_a_condition(world: World) -> None:
    table: dict[str, str] = {}
    effects: list[str] = []

    def naive(stale_read: dict[str, str]) -> None:
        if "evt_1" in stale_read:
            return
        effects.append("evt_1")
        table["evt_1"] = "done"

    replica = dict(table)
    naive(replica)
    naive(replica)  # eventually consistent: the replica has not seen the first write
    assert len(effects) == 2
    assert ours(world, copies=2) == ["evt_1"]


def test_trap_4_and_26_the_mark_is_committed_before_the_work(sqlite_world: World) -> None:
    conn = sqlite3.connect(sqlite_world.path, isolation_level=None)  # type: ignore[attr-defined]
    conn.execute("CREATE TABLE processed (event_id TEXT PRIMARY KEY)")
    effects: list[str] = []

    def naive(crash: bool) -> None:
        try:
            conn.execute("INSERT INTO processed VALUES ('evt_1')")
        except sqlite3.IntegrityError:
            return
        if crash:
            raise SystemExit
        effects.append("evt_1")

    with pytest.raises(SystemExit):
        naive(crash=True)
    naive(crash=False)
    conn.close()
    assert effects == [], "the event is lost for ever"

    def crash(point: str) -> None:
        if point == "after_claim":
            raise SystemExit

    broken = sqlite_world.inbox("inline", clock=wall_now, failpoint=crash)
    own_source(broken).on("*", name="h")(sqlite_world.effect)
    with pytest.raises(SystemExit):
        broken.receive(signed())
    mended = sqlite_world.inbox("inline", clock=wall_now)
    own_source(mended).on("*", name="h")(sqlite_world.effect)
    mended.receive(signed())
    assert sqlite_world.effects() == ["evt_1"]


def test_trap_4_a_constraint_of_the_application_is_not_a_duplicate(sqlite_world: World) -> None:
    conn = sqlite3.connect(":memory:")
    conn.execute("CREATE TABLE processed (event_id TEXT PRIMARY KEY)")
    conn.execute("CREATE TABLE orders (id TEXT NOT NULL)")

    def naive() -> str:
        try:
            conn.execute("INSERT INTO processed VALUES ('evt_1')")
            conn.execute("INSERT INTO orders VALUES (NULL)")
        except sqlite3.IntegrityError:
            return "already processed"
        return "ok"

    assert naive() == "already processed", "a bug in the work is reported as a duplicate, and nobody hears of it"
    conn.close()

    inbox = sqlite_world.inbox(clock=wall_now)

    @own_source(inbox).on("*")
    def work(event: Event, tx: Any) -> None:
        tx.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT NOT NULL)")
        tx.execute("INSERT INTO orders VALUES (NULL)")

    inbox.receive(signed())
    inbox.run_once()
    (row,) = inbox.rows(status=Status.FAILED)
    assert "IntegrityError" in str(row.handlings[0].error)


def test_trap_5_a_cursor_is_always_true(sqlite_world: World) -> None:
    conn = sqlite3.connect(":memory:")
    conn.execute("CREATE TABLE processed (event_id TEXT PRIMARY KEY)")
    effects: list[str] = []

    def naive() -> None:
        result = conn.execute("INSERT INTO processed VALUES ('evt_1') ON CONFLICT DO NOTHING RETURNING event_id")
        if not result:
            return
        effects.append("evt_1")

    naive()
    naive()
    conn.close()
    assert len(effects) == 2
    assert ours(sqlite_world, copies=2) == ["evt_1"]


def test_trap_5_work_on_another_connection_is_not_in_the_transaction(sqlite_world: World, tmp_path: Any) -> None:
    path = tmp_path / "naive.db"
    setup = sqlite3.connect(path)
    setup.executescript("CREATE TABLE processed (id TEXT PRIMARY KEY); CREATE TABLE effects (id TEXT);")
    setup.close()

    def count(table: str) -> int:
        conn = sqlite3.connect(path)
        try:
            return int(conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        finally:
            conn.close()

    def naive() -> None:
        other = sqlite3.connect(path)  # what a helper opens that was not given the connection
        with other:
            other.execute("INSERT INTO effects VALUES ('evt_1')")
        other.close()
        conn = sqlite3.connect(path)
        conn.execute("INSERT INTO processed VALUES ('evt_1')")
        conn.rollback()  # something fails before the commit
        conn.close()

    naive()
    assert (count("processed"), count("effects")) == (0, 1), "the effect stayed, the mark did not"

    inbox = sqlite_world.inbox(clock=wall_now)

    @own_source(inbox).on("*")
    def work(event: Event, tx: Any) -> None:
        sqlite_world.effect(event, tx)
        raise RuntimeError("something fails before the commit")

    inbox.receive(signed())
    inbox.run_once()
    assert sqlite_world.effects() == []


def test_trap_15_a_set_in_memory_knows_no_account_and_no_end(world: World) -> None:
    seen: set[str] = set()
    effects: list[str] = []

    def naive(account: str, event_id: str) -> None:
        if event_id not in seen:
            effects.append(account)
            seen.add(event_id)

    naive("a", "evt_1")
    naive("b", "evt_1")
    assert effects == ["a"], "the event of the second account was swallowed"

    inbox = world.inbox()
    accounts = iter("ab")
    own_source(inbox, account=lambda message: next(accounts)).on("*")(world.effect)
    for _ in range(2):
        inbox.receive(signed())
    inbox.run_once()
    assert len(world.effects()) == 2


def test_trap_21_check_process_mark_although_the_insert_ignores_conflicts(world: World) -> None:
    marks: set[str] = set()
    effects: list[str] = []

    def naive(worst_moment: Callable[[], None]) -> None:
        if "evt_1" in marks:
            return
        worst_moment()
        effects.append("evt_1")
        marks.add("evt_1")  # ON CONFLICT DO NOTHING: the second one is told nothing

    concurrently(naive)
    assert len(effects) == 4
    assert ours(world, mode="durable") == ["evt_1"]


def test_trap_23_a_test_with_one_copy_after_the_other_proves_nothing(world: World) -> None:
    marks: set[str] = set()
    effects: list[str] = []

    def naive(worst_moment: Callable[[], None] = lambda: None) -> None:
        if "evt_1" in marks:
            return
        worst_moment()
        effects.append("evt_1")
        marks.add("evt_1")

    naive()
    naive()
    assert len(effects) == 1, "one after the other the race does not show"
    marks.clear()
    effects.clear()
    concurrently(naive)
    assert len(effects) == 4, "together it does"
    assert ours(world) == ["evt_1"]


def test_trap_24_select_then_insert_in_one_transaction(postgres_world: PostgresWorld) -> None:
    url = postgres_world.url
    with psycopg.connect(url) as setup:
        setup.execute("CREATE TABLE processed (event_id text PRIMARY KEY)")
    outside: list[str] = []
    failures: list[str] = []

    def naive(worst_moment: Callable[[], None]) -> None:
        try:
            with psycopg.connect(url) as conn:
                if conn.execute("SELECT 1 FROM processed WHERE event_id = 'evt_1'").fetchone():
                    return
                worst_moment()
                outside.append("a mail was sent")
                conn.execute("INSERT INTO processed VALUES ('evt_1')")
        except psycopg.errors.UniqueViolation:
            failures.append("500")

    concurrently(naive, copies=2)
    assert (len(outside), failures) == (2, ["500"])
    assert ours(postgres_world) == ["evt_1"]


def test_trap_27_catching_the_conflict_leaves_the_transaction_aborted(postgres_world: PostgresWorld) -> None:
    with psycopg.connect(postgres_world.url) as conn:
        conn.execute("CREATE TABLE processed (event_id text PRIMARY KEY)")
        conn.execute("INSERT INTO processed VALUES ('evt_1')")
        conn.commit()
        with pytest.raises(psycopg.errors.UniqueViolation):
            conn.execute("INSERT INTO processed VALUES ('evt_1')")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            conn.execute("INSERT INTO effects (event_id) VALUES ('written after the catch')")
        conn.rollback()

    inbox = postgres_world.inbox("inline", clock=wall_now)
    own_source(inbox, order="none").on("*")(postgres_world.effect)
    assert [outcome(inbox.receive(signed())) for _ in range(2)] == ["applied", "duplicate"]
    assert outcome(inbox.receive(signed("evt_2"))) == "applied", "the connection is as good as new"


def test_trap_27_a_handler_that_swallows_an_error_of_the_database_is_told(postgres_world: PostgresWorld) -> None:
    inbox = postgres_world.inbox(clock=wall_now)

    @own_source(inbox).on("*")
    def swallows(event: Event, tx: Any) -> None:
        with contextlib.suppress(psycopg.Error):  # the naive part: the transaction is aborted from here on
            tx.execute("SELECT * FROM nothing_of_that_name")

    inbox.receive(signed())
    inbox.run_once()
    (row,) = inbox.rows()
    assert (row.overall, "aborted" in str(row.handlings[0].error)) == (Status.FAILED, True)


def test_trap_30_a_status_in_the_handlers_transaction_rolls_back_with_it(sql_world: World) -> None:
    conn = sqlite3.connect(":memory:", isolation_level=None)
    conn.execute("CREATE TABLE processed (event_id TEXT PRIMARY KEY, status TEXT)")

    def naive() -> None:
        conn.execute("BEGIN")
        conn.execute("INSERT INTO processed VALUES ('evt_1', 'pending')")
        try:
            raise RuntimeError("the work fails")
        except RuntimeError:
            conn.execute("UPDATE processed SET status = 'failed'")
            conn.execute("ROLLBACK")

    naive()
    assert conn.execute("SELECT count(*) FROM processed").fetchone() == (0,), "no row tells that it ever came"
    conn.close()

    inbox = sql_world.inbox("inline", clock=wall_now)

    @own_source(inbox).on("*")
    def fails(event: Event, tx: Any) -> None:
        sql_world.effect(event, tx)
        raise RuntimeError("the work fails")

    inbox.receive(signed())
    (row,) = inbox.rows()
    assert (Status.FAILED, signed().body) == (row.overall, row.message.body)
    assert sql_world.effects() == []


def test_trap_30_a_json_column_refuses_a_nul_for_ever(postgres_world: PostgresWorld) -> None:
    body = b'{"id": "evt_1", "type": "a", "timestamp": "2026-01-01T00:00:00Z", "data": {"text": "\\u0000"}}'
    with psycopg.connect(postgres_world.url) as conn:
        conn.execute("CREATE TABLE naive (payload jsonb)")
        conn.commit()
        with pytest.raises(psycopg.Error):
            conn.execute("INSERT INTO naive VALUES (%s)", (body.decode(),))
        conn.rollback()

    inbox = postgres_world.inbox(clock=wall_now)
    own_source(inbox).on("*")(postgres_world.effect)
    assert inbox.receive(signed_bytes("evt_1", body)).status == 200
    inbox.run_once()
    assert ([body], ["completed"]) == ([row.message.body for row in inbox.rows()], statuses(inbox))


def test_trap_30_an_id_belongs_to_its_source(world: World) -> None:
    processed: set[str] = set()
    effects = [source for source in ("shop", "bank") if "evt_1" not in processed and not processed.add("evt_1")]  # type: ignore[func-returns-value]
    assert effects == ["shop"], "with the bare id as key the second source's event is lost"

    inbox = world.inbox()
    for name in ("shop", "bank"):
        inbox.source(name, profile="standard_webhooks", unsafe=True).on("*", name=name)(world.effect)
        request = signed()
        inbox.receive(Request(request.method, f"http://x/{name}", request.headers, request.body))
    inbox.run_once()
    assert world.effects() == ["evt_1", "evt_1"]


def test_trap_31_a_late_attempt_of_n_after_n_plus_1(world: World) -> None:
    seen: set[str] = set()
    state: dict[str, int] = {}

    def naive(event_id: str, seq: int, commits_late: Callable[[], None] = lambda: None) -> None:
        if event_id in seen:
            return
        commits_late()
        state["order:7"] = seq
        seen.add(event_id)

    def meanwhile() -> None:  # the sender timed out, sent 1 again, was acked, and sent 2
        naive("e1", 1)
        naive("e2", 2)

    naive("e1", 1, commits_late=meanwhile)
    assert state["order:7"] == 1, "the old value won"

    applied: list[int] = []
    other = world.inbox()
    own_source(other).on("*", name="h")(lambda event, tx: applied.append(event.seq))

    def stall(point: str) -> None:
        if point == "after_claim":
            other.run_once()
            other.receive(signed("e2", key="k", seq=2))
            other.run_once()

    zombie = world.inbox(lease_ms=0, failpoint=stall)
    own_source(zombie).on("*", name="h")(lambda event, tx: applied.append(-event.seq))
    zombie.receive(signed("e1", key="k", seq=1))
    zombie.run_once()
    assert [number for number in applied if number > 0] == [1, 2]
    assert statuses(zombie) == ["completed", "completed"]
