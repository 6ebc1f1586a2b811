"""On SQLite, requests that come while a handler is at work share its commit: nobody's work hangs on another's."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import outcome, own_source, signed, statuses
from tests.promises.receiving.orders import ids, made_in
from tests.support.pace import scaled_s
from tests.support.processes import Child, until
from tests.support.tree import ROOT

from hooklane import Outbox
from hooklane.core.fanout import places
from hooklane.errors import StoreBusy
from hooklane.model.message import Reply
from hooklane.receiver import Event, Inbox
from hooklane.receiver.shared_commit import transaction as sharing
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions

WAIT_MS = 10_000

Handler = Callable[[Event, Any], None]


@pytest.fixture(autouse=True)
def _nobody_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here handlers wait for others to come, which must not count."""
    monkeypatch.setattr(sharing, "SLOW_S", 3600.0)
    monkeypatch.setattr(sharing, "TOGETHER_S", 3600.0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return made_in(tmp_path)


@pytest.fixture
def inbox(path: str) -> Iterator[Inbox]:
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=WAIT_MS)
    yield inbox
    inbox.close()


def write(event: Event, tx: Any) -> None:
    tx.execute("INSERT INTO orders VALUES (?)", (event.id,))


class Crowd:
    """Requests evt_0, evt_1 … of which the first is at work until all others wait for it; they are run in order."""

    def __init__(self, inbox: Inbox, handler: Handler = write, *, number: int = 4) -> None:
        self.inbox = inbox
        inbox.runner.run(inbox.retention.beat())  # or its commit would be counted too
        self.number = number
        self.statements: list[str] = []
        self.threads: dict[str, int] = {}
        self.runs: Counter[str] = Counter()
        self.replies: list[Future[Reply]] = []
        self._begun, self._go_on = threading.Event(), threading.Event()

        @own_source(inbox, order="none").on("*")
        def held(event: Event, tx: Any) -> None:
            self.threads[event.id] = threading.get_ident()
            self.runs[event.id] += 1
            if event.id == "evt_0" and not self._begun.is_set():
                tx.set_trace_callback(self.statements.append)
                self._begun.set()
                assert self._go_on.wait(scaled_s(20))
            handler(event, tx)

    def come(self, pool: ThreadPoolExecutor, receive: Callable[[str], Reply] | None = None) -> list[Future[Reply]]:
        receive = receive or (lambda id: self.inbox.receive(signed(id)))
        self.replies.append(pool.submit(receive, "evt_0"))
        assert self._begun.wait(scaled_s(20))
        for number in range(1, self.number):
            self.replies.append(pool.submit(receive, f"evt_{number}"))
            assert self.inbox.runner.shared_commits is not None
            until(lambda number=number: self.inbox.runner.shared_commits.waiting == number, what="the next to wait")  # type: ignore[misc, union-attr]
        self._go_on.set()
        return self.replies

    def outcomes(self) -> dict[str, str | None]:
        with ThreadPoolExecutor(self.number) as pool:
            replies = [reply.result(timeout=scaled_s(30)) for reply in self.come(pool)]
        return {f"evt_{number}": outcome(reply) for number, reply in enumerate(replies)}

    @property
    def commits(self) -> int:
        return sum(statement.startswith("COMMIT") for statement in self.statements)


def all_applied(number: int) -> dict[str, str]:
    return {f"evt_{each}": "applied" for each in range(number)}


def test_handlers_of_requests_that_wait_share_one_commit(inbox: Inbox, path: str) -> None:
    crowd = Crowd(inbox, number=6)

    assert crowd.outcomes() == all_applied(6)
    assert ids(path) == [f"evt_{number}" for number in range(6)]
    assert crowd.commits == 1
    assert set(crowd.threads.values()) == {crowd.threads["evt_0"]}, "one thread ran them all"


def test_nobody_is_answered_before_the_commit_that_holds_its_work(inbox: Inbox, path: str) -> None:
    seen: list[Any] = []

    def handler(event: Event, tx: Any) -> None:
        write(event, tx)
        seen.append((ids(path), [reply.done() for reply in crowd.replies]))

    crowd = Crowd(inbox, handler, number=3)
    outcomes = crowd.outcomes()

    assert outcomes == all_applied(3)
    assert seen == [([], [False] * 3)] * 3


def test_what_shares_a_commit_is_bounded(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "PARTS_MAX", 3)
    crowd = Crowd(inbox, number=7)

    assert crowd.outcomes() == all_applied(7)
    assert crowd.commits == 3


def test_a_commit_is_not_put_off_for_longer_than_a_moment(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "TOGETHER_S", 0.0)
    crowd = Crowd(inbox, number=3)

    assert crowd.outcomes() == all_applied(3)
    assert crowd.commits == 3


def test_a_handler_that_fails_among_others_is_kept_with_its_error_and_they_are_applied(inbox: Inbox, path: str) -> None:
    def handler(event: Event, tx: Any) -> None:
        write(event, tx)
        if event.id == "evt_2":
            raise ValueError("not this one")

    crowd = Crowd(inbox, handler, number=5)
    outcomes = crowd.outcomes()
    (failed,) = inbox.rows(status="failed")

    assert outcomes == all_applied(5) | {"evt_2": "busy"}
    assert set(crowd.runs.values()) == {1}, "nobody has to do its work again"
    assert ids(path) == ["evt_0", "evt_1", "evt_3", "evt_4"]
    assert "not this one" in (failed.handlings[0].error or "")


def test_when_the_first_fails_the_others_are_applied(inbox: Inbox, path: str) -> None:
    def handler(event: Event, tx: Any) -> None:
        write(event, tx)
        if event.id == "evt_0":
            raise ValueError("not this one")

    outcomes = Crowd(inbox, handler).outcomes()

    assert outcomes == all_applied(4) | {"evt_0": "busy"}
    assert ids(path) == ["evt_1", "evt_2", "evt_3"]


def test_an_event_that_fails_at_the_commit_does_not_fail_its_neighbours(inbox: Inbox, path: str) -> None:
    def handler(event: Event, tx: Any) -> None:
        write(event, tx)
        if event.id == "evt_1":
            tx.execute("INSERT INTO lines VALUES ('no such part')")  # noticed at the commit only

    crowd = Crowd(inbox, handler)
    outcomes = crowd.outcomes()

    assert outcomes == all_applied(4) | {"evt_1": "busy"}
    assert max(crowd.runs.values()) == 2, "once together, and once alone"
    assert ids(path) == ["evt_0", "evt_2", "evt_3"]


def test_an_event_that_brings_the_whole_transaction_down_does_not_fail_its_neighbours(inbox: Inbox, path: str) -> None:
    def handler(event: Event, tx: Any) -> None:
        write(event, tx)
        if event.id == "evt_2":
            tx.execute("INSERT INTO orders VALUES ('evt_2')")  # its constraint says: roll everything back

    outcomes = Crowd(inbox, handler).outcomes()

    assert {id: each for id, each in outcomes.items() if id != "evt_2"} == {
        f"evt_{number}": "applied" for number in (0, 1, 3)
    }
    assert outcomes["evt_2"] != "applied"
    assert ids(path) == ["evt_0", "evt_1", "evt_3"]


@pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK", "RELEASE hooklane", "ROLLBACK TO hooklane"])
def test_a_handler_cannot_end_a_transaction_that_it_shares(inbox: Inbox, path: str, word: str) -> None:
    def handler(event: Event, tx: Any) -> None:
        write(event, tx)
        if event.id == "evt_1":
            tx.execute(word)

    crowd = Crowd(inbox, handler, number=3)
    outcomes = crowd.outcomes()

    assert (outcomes["evt_0"], outcomes["evt_2"]) == ("applied", "applied")
    assert set(crowd.runs.values()) == {1}
    assert outcomes["evt_1"] != "applied"
    assert ids(path) == ["evt_0", "evt_2"]


def test_what_an_undone_attempt_left_for_after_the_commit_is_not_done_twice(inbox: Inbox) -> None:
    called: list[str] = []

    def handler(event: Event, tx: Any) -> None:
        event.on_commit(lambda: called.append(event.id))
        if event.id == "evt_1":
            tx.execute("INSERT INTO lines VALUES ('no such part')")

    Crowd(inbox, handler).outcomes()

    assert sorted(called) == ["evt_0", "evt_2", "evt_3"]


async def test_what_an_undone_attempt_sent_on_is_not_sent_on_twice(path: str) -> None:
    url = f"sqlite:///{path}"
    store = outbox_store(url, StoreOptions(placer=places))
    await store.open()  # which makes its tables
    await store.close()
    inbox = Inbox(url, "inline", inline_wait_ms=WAIT_MS, outbox=Outbox(url))

    def handler(event: Event, tx: Any) -> None:
        event.send(f"shipped.{event.id}", {})
        if event.id == "evt_1":
            tx.execute("INSERT INTO lines VALUES ('no such part')")

    await asyncio.to_thread(Crowd(inbox, handler).outcomes)
    inbox.close()

    with closing(sqlite3.connect(path)) as conn:
        sent = conn.execute("SELECT type FROM hooklane_event ORDER BY type").fetchall()
    assert sent == [("shipped.evt_0",), ("shipped.evt_2",), ("shipped.evt_3",)]


def test_nobody_waits_for_the_handlers_of_others_where_they_are_slow(
    inbox: Inbox, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "SLOW_S", 0.0)
    first_is_answered = threading.Event()

    def handler(event: Event, tx: Any) -> None:
        write(event, tx)
        if event.id == "evt_1":
            assert first_is_answered.wait(scaled_s(20)), "the first is answered while the second is at work"

    crowd = Crowd(inbox, handler, number=3)
    with ThreadPoolExecutor(3) as pool:
        first, *others = crowd.come(pool)
        assert outcome(first.result(timeout=scaled_s(20))) == "applied"
        seen = ids(path)
        first_is_answered.set()
        assert [outcome(other.result(timeout=scaled_s(20))) for other in others] == ["applied"] * 2

    assert seen == ["evt_0"]
    assert crowd.commits == 3


def test_a_handler_finds_the_context_of_its_own_request(inbox: Inbox) -> None:
    request_id: ContextVar[str] = ContextVar("request_id")
    found: dict[str, str] = {}
    after: dict[str, str] = {}

    def handler(event: Event, tx: Any) -> None:
        found[event.id] = request_id.get()
        request_id.set(f"{request_id.get()}, handled")
        event.on_commit(lambda: after.update({event.id: request_id.get()}))

    def receive(id: str) -> Reply:
        request_id.set(f"the request of {id}")
        return inbox.receive(signed(id))

    crowd = Crowd(inbox, handler, number=3)
    with ThreadPoolExecutor(3) as pool:
        for reply in crowd.come(pool, receive):
            reply.result(timeout=scaled_s(20))

    assert len(set(crowd.threads.values())) == 1
    assert found == {f"evt_{number}": f"the request of evt_{number}" for number in range(3)}
    assert after == {f"evt_{number}": f"the request of evt_{number}, handled" for number in range(3)}


def test_who_is_not_taken_in_time_is_told_to_come_back_and_is_not_run_later(path: str) -> None:
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=30)
    begun, go_on, ran = threading.Event(), threading.Event(), []

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        ran.append(event.id)
        begun.set()
        assert go_on.wait(scaled_s(20))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(inbox.receive, signed("evt_0"))
        assert begun.wait(scaled_s(20))
        second = inbox.receive(signed("evt_1"))
        go_on.set()
        assert outcome(first.result(timeout=scaled_s(20))) == "applied"
    third = inbox.receive(signed("evt_2"))
    inbox.close()

    assert (second.status, outcome(second), outcome(third)) == (503, "busy", "applied")
    assert ran == ["evt_0", "evt_2"]


class Interrupted(KeyboardInterrupt):
    """What a signal raises wherever the thread is at that moment."""


def test_an_interrupt_in_the_handler_of_another_ends_neither_his_neighbours_nor_the_inbox(
    inbox: Inbox, path: str
) -> None:
    def handler(event: Event, tx: Any) -> None:
        write(event, tx)
        if event.id == "evt_2" and event.attempt == 1:
            raise Interrupted

    crowd = Crowd(inbox, handler, number=4)
    with ThreadPoolExecutor(4) as pool:
        first, second, third, fourth = crowd.come(pool)
        with pytest.raises(Interrupted):
            first.result(timeout=scaled_s(20))  # it was this thread that was interrupted
        assert outcome(second.result(timeout=scaled_s(20))) == "applied"
        assert third.result(timeout=scaled_s(20)).status == 503
        assert outcome(fourth.result(timeout=scaled_s(20))) == "applied"

    assert ids(path) == ["evt_0", "evt_1", "evt_3"]
    assert outcome(inbox.receive(signed("evt_0"))) == "duplicate", "it is applied, though its caller was interrupted"
    assert outcome(inbox.receive(signed("evt_9"))) == "applied"


def test_an_interrupt_in_ones_own_handler_is_ones_own(inbox: Inbox, path: str) -> None:
    def handler(event: Event, tx: Any) -> None:
        write(event, tx)
        if event.id == "evt_0":
            raise Interrupted

    crowd = Crowd(inbox, handler, number=3)
    with ThreadPoolExecutor(3) as pool:
        first, *others = crowd.come(pool)
        with pytest.raises(Interrupted):
            first.result(timeout=scaled_s(20))
        assert [outcome(other.result(timeout=scaled_s(20))) for other in others] == ["applied"] * 2

    assert ids(path) == ["evt_1", "evt_2"]


def test_a_handler_that_writes_through_its_inbox_is_told_at_once_that_it_holds_the_transaction(inbox: Inbox) -> None:
    told: list[str] = []
    asked = time.monotonic()

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        assert inbox.rows() == [], "reading needs no turn"
        try:
            inbox.prune()
        except StoreBusy as error:
            told.append(str(error))

    reply = inbox.receive(signed())

    assert outcome(reply) == "applied"
    assert told == ["the handler that is at work in this thread holds the transaction"]
    assert time.monotonic() - asked < scaled_s(4), "and not after the five seconds that a writer is waited for"


def test_a_handler_that_receives_within_itself_is_told_to_come_back(path: str) -> None:
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=30)
    inner: list[Reply] = []

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        if event.id == "outer":
            inner.append(inbox.receive(signed("inner")))

    reply = inbox.receive(signed("outer"))
    inbox.close()

    assert (outcome(reply), [each.status for each in inner]) == ("applied", [503])


def test_a_thread_with_an_event_loop_runs_no_handler_but_its_own(inbox: Inbox) -> None:
    def handler(event: Event, tx: Any) -> None:
        if event.id != "evt_0":
            asyncio.run(asyncio.sleep(0))  # only where no loop is running

    async def in_a_loop(id: str) -> Reply:
        return inbox.receive(signed(id))

    def receive(id: str) -> Reply:
        return asyncio.run(in_a_loop(id)) if id == "evt_0" else inbox.receive(signed(id))

    crowd = Crowd(inbox, handler, number=3)
    with ThreadPoolExecutor(3) as pool:
        outcomes = [outcome(reply.result(timeout=scaled_s(20))) for reply in crowd.come(pool, receive)]

    assert outcomes == ["applied"] * 3


def test_a_duplicate_does_not_wait_for_the_slow_handler_of_another(path: str) -> None:
    before = Inbox(f"sqlite:///{path}", "inline")
    own_source(before, order="none").on("*", name="handler")(lambda event, tx: None)
    before.receive(signed("old"))
    before.close()
    inbox = Inbox(f"sqlite:///{path}", "inline", inline_wait_ms=WAIT_MS)
    begun, go_on = threading.Event(), threading.Event()

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        begun.set()
        assert go_on.wait(scaled_s(20))

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(inbox.receive, signed("new"))
        assert begun.wait(scaled_s(20))
        until(lambda: not inbox.runner.shared_commits.is_quick, what="the handler to be slow")  # type: ignore[union-attr]
        copy = inbox.receive(signed("old"))
        waited = not first.done()
        go_on.set()
        first.result(timeout=scaled_s(20))
    inbox.close()

    assert (outcome(copy), waited) == ("duplicate", True)


def test_workers_of_a_durable_inbox_share_commits_too(path: str) -> None:
    inbox = Inbox(f"sqlite:///{path}")
    statements: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        if not begun.is_set():
            tx.set_trace_callback(statements.append)
            begun.set()
            assert go_on.wait(scaled_s(20))
        write(event, tx)

    inbox.receive(signed("evt_0"))
    with ThreadPoolExecutor(2) as pool:
        worker = pool.submit(inbox.run_once)
        assert begun.wait(scaled_s(20))
        receiver = pool.submit(inbox.receive, signed("evt_1"))
        until(lambda: inbox.runner.shared_commits.waiting == 1, what="the request to wait")  # type: ignore[union-attr]
        go_on.set()
        assert (worker.result(timeout=scaled_s(20)) >= 1, outcome(receiver.result(timeout=scaled_s(20)))) == (
            True,
            "stored",
        )
    first_commit = next(number for number, statement in enumerate(statements) if statement.startswith("COMMIT"))
    inbox.run_once()

    assert any("SAVEPOINT" in statement for statement in statements[:first_commit])
    assert statuses(inbox) == ["completed", "completed"]
    inbox.close()


@pytest.mark.parametrize("whence", ["threads", "loop"])
def test_killed_with_many_in_one_commit_nothing_that_was_answered_is_lost(
    sqlite_world: World, whence: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "tests.promises.receiving.crowding", sqlite_world.where(), whence]
    with Child(command, log=log, cwd=ROOT, env={"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}) as child:
        until(lambda: log.read_text().count("answered") > 500, what="many answers")
        child.kill()
        child.wait()
    # The last line may be cut off.
    answered = [line.split()[1] for line in log.read_text().split("\n")[:-1] if line.startswith("answered")]
    effects = sqlite_world.effects()

    assert len(effects) == len(set(effects))
    assert set(answered) <= set(effects)
    assert len(effects) == len(sqlite_world.inbox("inline").rows(status="completed", limit=100_000))
