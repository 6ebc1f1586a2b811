"""`hooklane migrate copy`: a sender moves from SQLite to PostgreSQL, and every key goes on with its next seq."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.processes.acceptance.conftest import Client
from tests.processes.cli.conftest import Ended
from tests.support.processes import Child, free_port, until
from tests.support.receiver import Answer, Sink
from tests.support.receiver import Request as Arrived

from hooklane import Inbox, Request
from hooklane.cli import move
from hooklane.cli.process import open_store
from hooklane.config import Settings
from hooklane.sender.retention import DAY_MS, Housekeeping, Retention
from hooklane.store.sql.queries import queries_of

Process = Callable[..., Ended]
Serve = Callable[[str], tuple[Child, Client]]


@pytest.fixture
def serve(start_hooklane: Callable[..., Child]) -> Serve:
    def start(db: str) -> tuple[Child, Client]:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        allow = ("--egress-allow", "127.0.0.0/8")
        child = start_hooklane("serve", "--no-auth", "--no-ui", "--port", str(port), "--db", db, *allow)
        child.wait_for_http(f"{url}/readyz", status=200)
        return child, Client(url)

    return start


def refuse_poison(request: Arrived) -> Answer:
    return Answer(status=422 if b"poison" in request.body else 200)


def counted(client: Any, accepted: int) -> dict[str, int] | None:
    """The ledger once it knows of so many: it is counted every few seconds."""
    ledger: dict[str, int] = client.get("/api/v1/overview")["ledger"]
    return ledger if ledger["accepted"] == accepted else None


def in_order(sink: Sink, key: str) -> list[int]:
    return list(dict.fromkeys(int(one.headers["x-seq"]) for one in sink.requests if one.headers.get("x-key") == key))


def test_every_key_goes_on_with_its_next_seq_and_what_was_owed_is_delivered(
    serve: Serve, process: Process, tmp_path: Path, postgres_url: str
):
    file = f"sqlite:///{tmp_path}/sender.db"
    with Sink(refuse_poison) as sink:
        child, client = serve(file)
        endpoint = client.call("POST", "/api/v1/endpoints", {"url": sink.url(), "attempts_max": 1, "name": "shop"})
        for _ in range(3):
            client.publish("order.paid", "a")
        client.publish("order.paid", "b", {"poison": 1}, id="the-poison")
        client.publish("order.paid", "b")
        until(lambda: in_order(sink, "a") == [1, 2, 3], what="the events of a")
        until(lambda: client.lane("b")["state"] == "blocked", what="b to be blocked")
        client.call("POST", f"/api/v1/endpoints/{endpoint['id']}/pause")
        client.publish("order.paid", "a", id="owed")
        before = until(lambda: counted(client, 6), what="all six to be counted")
        assert child.stop() == 0

        ended = process("migrate", "copy", "--from", file, "--to", postgres_url, "--json")

        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["rows"]["event"] == 6
        child, client = serve(postgres_url)
        assert client.get("/api/v1/overview")["ledger"] == before
        again = client.publish("order.paid", "a", id="owed")
        assert again["lanes"] == [{"endpoint": endpoint["id"], "seq": 4}], "the same id is still the same event"
        assert client.publish("order.paid", "a")["lanes"][0]["seq"] == 5
        client.call("POST", f"/api/v1/endpoints/{endpoint['id']}/resume")
        until(lambda: in_order(sink, "a") == [1, 2, 3, 4, 5], what="what was owed, and what came after")
        [letter] = client.get("/api/v1/dead-letters")["items"]
        assert letter["event"] == "the-poison"
        client.call("POST", f"/api/v1/dead-letters/{letter['id']}/skip", {"note": "moved"})
        until(lambda: 2 in in_order(sink, "b"), what="b to go on")
        assert process("audit", "verify", "--db", postgres_url).code == 0
        assert child.stop() == 0


def test_a_repeated_publish_is_answered_with_its_own_event_though_that_was_pruned_before_the_copy(
    serve: Serve, process: Process, tmp_path: Path, postgres_url: str
):
    file = f"sqlite:///{tmp_path}/sender.db"
    child, client = serve(file)
    client.call("POST", "/api/v1/tenants", {"id": "bob"})
    before = client.publish("order.paid", "a", id="mine")
    assert child.stop() == 0
    assert asyncio.run(prune_events(file)) == 1

    assert process("migrate", "copy", "--from", file, "--to", postgres_url).code == 0

    child, client = serve(postgres_url)
    client.call("POST", "/api/v1/events", {"type": "of.bob", "data": 1}, headers={"Hooklane-Tenant": "bob"})
    assert client.publish("order.paid", "a", id="mine") == before
    assert child.stop() == 0


async def prune_events(file: str) -> int:
    """As a server does when their retention is over."""
    store = open_store(Settings(db=file))
    await store.open()
    removed = await Housekeeping(store, Retention(events_ms=-DAY_MS)).prune()
    await store.close()
    return removed["events"]


def test_deliveries_without_a_key_are_counted_after_the_copy_as_before(
    serve: Serve, process: Process, tmp_path: Path, postgres_url: str
):
    file = f"sqlite:///{tmp_path}/sender.db"
    with Sink(refuse_poison) as sink:
        child, client = serve(file)
        client.call("POST", "/api/v1/endpoints", {"url": sink.url(), "attempts_max": 1})
        for data in ({"n": 1}, {"n": 2}, {"poison": 1}):
            client.call("POST", "/api/v1/events", {"type": "a.b", "data": data})

        def settled() -> dict[str, int] | None:
            ledger: dict[str, int] = client.get("/api/v1/overview")["ledger"]
            return ledger if (ledger["delivered"], ledger["dead"]) == (2, 1) else None

        before = until(settled, what="two deliveries and the dead letter")
        assert child.stop() == 0

        ended = process("migrate", "copy", "--from", file, "--to", postgres_url, "--json")

        assert ended.code == 0, ended.err
        assert json.loads(ended.out)["rows"]["loose"] == 3
        child, client = serve(postgres_url)
        assert client.get("/api/v1/overview")["ledger"] == before
        assert child.stop() == 0


def test_numbers_and_turns_go_on_behind_those_that_the_file_ever_gave(
    process: Process, tmp_path: Path, empty_postgres_url: str
):
    path = tmp_path / "both.db"
    assert process("migrate", "up", "--db", f"sqlite:///{path}").code == 0
    Inbox(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as conn:
        conn.execute("DELETE FROM sqlite_sequence")
        for n, table in enumerate(("event", "loose", "lane_tail", "redelivery"), start=1):
            conn.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (f"hooklane_{table}", 100 * n))
        conn.execute("UPDATE hooklane_inbox_last SET row_id = 500")
        conn.execute("INSERT INTO hooklane_endpoint VALUES ('ep', 'default', x'7b7d', 1)")
        conn.execute("INSERT INTO hooklane_breaker_turn VALUES ('ep', 7, 'default', 'open', 0, 0, 'w')")

    ended = process("migrate", "copy", "--from", f"sqlite:///{path}", "--to", empty_postgres_url)

    assert ended.code == 0, ended.err
    with psycopg.connect(empty_postgres_url) as there:
        names = {
            "event": "'hooklane.event_n'",
            "loose": "'hooklane.loose_n'",
            "lane": "pg_get_serial_sequence('hooklane.lane_name', 'lane_id')",
            "redelivery": "pg_get_serial_sequence('hooklane.redelivery', 'n')",
            "inbox": "pg_get_serial_sequence('hooklane.inbox_row', 'id')",
        }
        given = {name: there.execute(f"SELECT nextval({sequence})").fetchone()[0] for name, sequence in names.items()}
        turns = there.execute("SELECT turn FROM hooklane.breaker_turn").fetchall()
    assert given == {"event": 101, "loose": 201, "lane": 301, "redelivery": 401, "inbox": 501}
    assert turns == [(0,)], "a breaker begins with turn 1"


def test_an_inbox_in_the_same_file_moves_along(process: Process, tmp_path: Path, empty_postgres_url: str):
    file = f"sqlite:///{tmp_path}/both.db"
    assert process("migrate", "up", "--db", file).code == 0
    request = Request.of("POST", "/in/sendgrid", {}, b'[{"sg_event_id": "e1", "event": "open", "timestamp": 1}]')

    def received(url: str) -> str:
        inbox = Inbox(url)
        inbox.source("sendgrid", unsafe=True).on("*")(lambda event, tx: None)
        answer = inbox.receive(request)
        inbox.close()
        assert answer.status == 200
        return json.loads(answer.body)["status"]

    assert received(file) == "ok"

    assert process("migrate", "copy", "--from", file, "--to", empty_postgres_url).code == 0

    assert received(empty_postgres_url) == "already_processed"


@pytest.fixture
def held_up(
    process: Process, start_hooklane: Callable[..., Child], tmp_path: Path, postgres_url: str
) -> Iterator[tuple[Child, Callable[[], None]]]:
    """A copy of three events that is in the middle: its events are copied, and their places wait; and what lets go."""
    file = f"sqlite:///{tmp_path}/sender.db"
    assert process("migrate", "up", "--db", postgres_url).code == 0
    assert process("endpoints", "add", "https://hooks.example.com/", "--db", file).code == 0
    for _ in range(3):
        assert process("send", "a.b", "1", "--key", "k", "--db", file).code == 0
    with psycopg.connect(postgres_url) as holder:
        holder.execute("LOCK TABLE hooklane.lane_event")
        child = start_hooklane("migrate", "copy", "--from", file, "--to", postgres_url)
        child.wait_for_line("^event: 3/3")
        yield child, holder.rollback


def places(url: str) -> list[int]:
    with psycopg.connect(url) as there:
        return [seq for (seq,) in there.execute("SELECT seq FROM hooklane.lane_event ORDER BY seq")]


def test_a_copy_that_is_killed_in_its_middle_has_not_happened_and_can_be_made_again(
    held_up: tuple[Child, Callable[[], None]], process: Process, tmp_path: Path, postgres_url: str
):
    child, let_go = held_up
    child.kill()
    let_go()
    file = f"sqlite:///{tmp_path}/sender.db"

    assert places(postgres_url) == []
    assert process("migrate", "copy", "--from", file, "--to", postgres_url).code == 0

    assert places(postgres_url) == [1, 2, 3]
    sent = process("send", "a.b", "1", "--key", "k", "--db", postgres_url, "--json")
    assert json.loads(sent.out)["lanes"][0]["seq"] == 4


def test_of_two_copies_into_one_database_one_is_made_and_the_other_refused(
    held_up: tuple[Child, Callable[[], None]],
    process: Process,
    start_hooklane: Callable[..., Child],
    tmp_path: Path,
    postgres_url: str,
):
    first, let_go = held_up
    shutil.copy(tmp_path / "sender.db", tmp_path / "other.db")
    other = f"sqlite:///{tmp_path}/other.db"
    second = start_hooklane("migrate", "copy", "--from", other, "--to", postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        until(lambda: conn.execute(waiting).fetchone()[0] == 2, what="the second to wait")
    let_go()

    assert first.wait() == 0
    assert second.wait() == 1, second.output()
    assert "Traceback" not in second.output()
    assert "is not empty" in second.output()
    assert places(postgres_url) == [1, 2, 3]


def test_a_database_that_is_used_is_not_mixed_with(serve: Serve, process: Process, tmp_path: Path, postgres_url: str):
    file = f"sqlite:///{tmp_path}/sender.db"
    assert process("migrate", "up", "--db", file).code == 0
    child, client = serve(postgres_url)
    client.publish("a.b", "k")
    assert child.stop() == 0

    ended = process("migrate", "copy", "--from", file, "--to", postgres_url)

    assert (ended.code, ended.out) == (1, "")
    assert "is not empty" in ended.err


def test_a_file_whose_server_runs_is_not_copied(serve: Serve, process: Process, tmp_path: Path, postgres_url: str):
    file = f"sqlite:///{tmp_path}/sender.db"
    child, _ = serve(file)

    ended = process("migrate", "copy", "--from", file, "--to", postgres_url)

    assert ended.code == 1
    assert "another process already delivers" in ended.err
    assert child.stop() == 0


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        ("sqlite:///nowhere.db", "postgresql://127.0.0.1:1/x", "there is no file"),
        ("postgresql://h/x", "sqlite:///y.db", "copy goes from sqlite"),
    ],
)
def test_a_wrong_way_is_one_line(process: Process, source: str, target: str, why: str):
    ended = process("migrate", "copy", "--from", source, "--to", target)

    assert (ended.code, why in ended.err, "Traceback" in ended.err) == (1, True, False)


def test_every_table_is_copied_or_left_for_a_reason(process: Process, tmp_path: Path, postgres_url: str):
    """A new table must not be forgotten: where PostgreSQL does not know it, the copy refuses."""
    path = tmp_path / "sender.db"
    assert process("migrate", "up", "--db", f"sqlite:///{path}").code == 0
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE hooklane_novelty (n INTEGER)")

    ended = process("migrate", "copy", "--from", f"sqlite:///{path}", "--to", postgres_url)

    assert (ended.code, "hooklane_novelty" in ended.err) == (1, True)
    with sqlite3.connect(path) as conn:
        conn.execute("DROP TABLE hooklane_novelty")
        tables: set[Any] = {
            name
            for (name,) in conn.execute(
                queries_of("hooklane.store.move", columns="", source="", table="", column="", sequence="")[
                    "tables_here"
                ]
            )
        }
    assert process("migrate", "copy", "--from", f"sqlite:///{path}", "--to", postgres_url).code == 0
    assert move.LEFT.keys() - tables == {"inbox_last"}, "which an inbox brings"
