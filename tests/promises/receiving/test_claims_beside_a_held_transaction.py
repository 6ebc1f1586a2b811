"""A transaction that is held open keeps what was claimed in the indexes: claims and completions do not read past it."""

from __future__ import annotations

import re

import psycopg
import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import own_source, signed

from hooklane.store.postgres.inbox import front
from hooklane.store.postgres.inbox.store import _QUERIES

NOW = 1_800_000_000_000
MINUTE_MS = 60_000


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_quick_claims_always_begin_at_the_beginning(now: list[float]) -> None:
    one = front.Front()
    for _ in range(10):
        assert one.since() == front.BEGINNING
        one.note(front.BEGINNING, front.SLOW_S, [NOW], NOW)


def test_slow_ones_begin_before_the_oldest_that_was_found_and_now_and_then_at_the_beginning(now: list[float]) -> None:
    one = front.Front()
    for _ in range(front.SLOW_TIMES):
        assert one.since() == front.BEGINNING
        one.note(front.BEGINNING, 1.0, [NOW + 5, NOW, NOW + 9], NOW + 10)
    assert one.since() == NOW - MINUTE_MS
    one.note(one.since(), 1.0, [], NOW + 3 * MINUTE_MS)
    assert one.since() == NOW + 2 * MINUTE_MS
    now[0] += front.REST_FACTOR
    assert one.since() == front.BEGINNING
    one.note(front.BEGINNING, 0.001, [NOW], NOW)  # the held transaction has ended, and the rest was cleared
    assert one.since() == front.BEGINNING


def test_what_is_due_for_long_is_found_by_the_next_look_from_the_beginning(
    postgres_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of a host whose clock is far behind, or of a handler that was not asked for."""
    monkeypatch.setattr(front, "SLOW_S", -1.0)
    monkeypatch.setattr(front, "REST_FACTOR", 1e9)
    inbox = postgres_world.inbox("durable")
    own_source(inbox, order="none").on("*")(postgres_world.effect)
    for n in range(front.SLOW_TIMES):
        inbox.receive(signed(f"evt_{n}"))
        assert inbox.run_once() == 1
    inbox.receive(signed("evt_late"))
    with psycopg.connect(postgres_world.where()) as conn:
        conn.execute("UPDATE hooklane.inbox_handling SET due_at = due_at - 3600000 WHERE status = 'pending'")

    assert inbox.run_once() == 0
    inbox.receive(signed("evt_next"))
    assert inbox.run_once() == 1
    monkeypatch.setattr(front, "SLOW_TIMES", 10**9)
    assert inbox.run_once() == 1
    assert sorted(postgres_world.effects()) == ["evt_0", "evt_1", "evt_2", "evt_late", "evt_next"]


@pytest.mark.parametrize("broken", [False, True], ids=["", "without-the-rule"])
@pytest.mark.parametrize("name", ["renew", "complete", "fail"])
def test_the_holder_finds_its_handling_by_its_number(postgres_world: World, name: str, broken: bool) -> None:
    inbox = postgres_world.inbox("durable")
    own_source(inbox, order="none").on("*")(postgres_world.effect)
    inbox.receive(signed("evt_1"))
    inbox.run_once()
    query = _QUERIES[name].replace("status || ''", "status") if broken else _QUERIES[name]
    params = dict.fromkeys(re.findall(r"(?<!:):(\w+)", query), 1) | {"handler": "x", "status": "completed"}
    with psycopg.connect(postgres_world.where(), autocommit=True) as conn:
        columns = [row[0] for row in conn.execute(_COLUMNS).fetchall()]
        many = ", ".join("n" if column == "row_id" else column for column in columns)
        conn.execute("ALTER TABLE hooklane.inbox_handling DROP CONSTRAINT inbox_handling_row_id_fkey")
        conn.execute(
            f"INSERT INTO hooklane.inbox_handling ({', '.join(columns)}) SELECT {many} FROM hooklane.inbox_handling,"
            " generate_series(1000, 9000) n".encode()
        )
        conn.execute("ANALYZE hooklane.inbox_handling")
        bound = re.sub(r"(?<!:):(\w+)", r"%(\1)s", query)
        plan = "\n".join(row[0] for row in conn.execute(f"EXPLAIN {bound}".encode(), params).fetchall())

    assert ("inbox_handling_for_takeover" in plan) is broken, plan


_COLUMNS = """
SELECT column_name FROM information_schema.columns
WHERE table_schema = 'hooklane' AND table_name = 'inbox_handling' ORDER BY ordinal_position
"""
