"""The thin path: verify, deduplicate, apply in the same transaction, answer."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.promises.receiving.kit import SECRET, outcome, signed, signed_bytes

from hooklane.receiver import Inbox


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE effects (event_id TEXT)")
    conn.close()
    return path


def count(path: Path) -> int:
    conn = sqlite3.connect(path)
    try:
        return int(conn.execute("SELECT count(*) FROM effects").fetchone()[0])
    finally:
        conn.close()


def write(event: Any, tx: Any) -> None:
    tx.execute("INSERT INTO effects VALUES (?)", (event.id,))


def test_a_durable_inbox_stores_then_answers_and_the_handler_runs_once(path: Path) -> None:
    inbox = Inbox(f"sqlite:///{path}")
    inbox.source("hooklane", [SECRET]).on("order.*")(write)

    first, second = inbox.receive(signed()), inbox.receive(signed())
    assert (first.status, first.body, outcome(first)) == (200, b'{"status": "ok"}', "stored")
    assert (second.status, second.body, outcome(second)) == (200, b'{"status": "already_processed"}', "duplicate")
    assert count(path) == 0

    assert inbox.run_once() == 1
    assert inbox.run_once() == 0
    assert outcome(inbox.receive(signed())) == "duplicate"
    assert count(path) == 1
    inbox.close()


def test_an_inline_inbox_applies_before_it_answers(path: Path) -> None:
    inbox = Inbox(f"sqlite:///{path}", mode="inline")
    inbox.source("hooklane", [SECRET]).on("order.*")(write)

    first, second = inbox.receive(signed()), inbox.receive(signed())

    assert (first.status, outcome(first)) == (200, "applied")
    assert (second.status, outcome(second)) == (200, "duplicate")
    assert count(path) == 1
    inbox.close()


def test_a_handler_that_fails_leaves_no_trace_and_is_tried_again(path: Path) -> None:
    inbox = Inbox(f"sqlite:///{path}", mode="inline")
    attempts: list[int] = []

    @inbox.source("hooklane", [SECRET]).on("order.*")
    def fail_once(event: Any, tx: Any) -> None:
        attempts.append(event.attempt)
        write(event, tx)
        if len(attempts) == 1:
            raise RuntimeError("the bank is closed")

    first = inbox.receive(signed())
    assert (first.status, outcome(first)) == (503, "busy")
    assert count(path) == 0

    second = inbox.receive(signed())
    assert (second.status, outcome(second)) == (200, "applied")
    assert count(path) == 1
    assert attempts == [1, 2]
    inbox.close()


@pytest.mark.parametrize("mode", ["durable", "inline"])
async def test_async_handlers_run_on_the_same_store(path: Path, mode: Any) -> None:
    inbox = Inbox(f"sqlite:///{path}", mode=mode)

    @inbox.source("hooklane", [SECRET]).on("order.*")
    async def effect(event: Any, tx: Any) -> None:
        write(event, tx)

    first = await inbox.areceive(signed())
    await inbox.arun_once()
    second = await inbox.areceive(signed())

    assert first.status == 200
    assert outcome(second) == "duplicate"
    assert count(path) == 1
    inbox.close()


def test_answers_say_no_more_than_they_must(path: Path) -> None:
    inbox = Inbox("memory://")
    inbox.source("hooklane", [SECRET])
    bad = signed_bytes("evt_1", b"{}")
    forged = type(bad)(bad.method, bad.url, bad.headers, b'{"x": 1}')

    assert inbox.receive(forged).status == 401
    assert inbox.receive(forged).body == b'{"error": "unauthorized"}'
    assert inbox.receive(type(bad)("GET", bad.url, bad.headers, b"")).status == 405
    assert inbox.receive(type(bad)("POST", "http://x/webhooks/nobody", bad.headers, b"")).status == 404
    assert inbox.receive(type(bad)("POST", bad.url, bad.headers, b"x" * 1_048_577)).status == 413
    assert outcome(inbox.receive(signed())) == "ignored"
    inbox.close()
