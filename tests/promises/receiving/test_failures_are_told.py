"""A handler that fails is seen by whoever runs the program, without any setting: one line for each failed attempt."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import logging
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import SECRET, own_source, signed, signed_bytes
from tests.support.pace import scaled_s
from tests.support.processes import Child, start_listening, until
from tests.support.tree import SOURCE

from hooklane.core.admission.failures import RetryPolicy
from hooklane.errors import Reject, StoreUnavailable
from hooklane.model.clock import Instant, wall_now
from hooklane.model.message import Request
from hooklane.receiver import Inbox, refetch, sequence
from hooklane.telemetry import InboxLog, both
from hooklane.telemetry.events import GapStopped

CANARY = "4242-4242-4242-4242"
SHOP = """
import os
from hooklane import Inbox
inbox = Inbox("sqlite:///app.db", os.environ["MODE"])
shop = inbox.source("hooklane", [os.environ["SECRET"]])
@shop.on("order.*")
{async_}def apply(event, tx):
    raise KeyError(event.data["card"])  # here
"""
APPS = {
    "asgi": SHOP + "from hooklane import asgi\napp = asgi.app(inbox)\n",
    "fastapi": SHOP
    + """
from fastapi import FastAPI
from hooklane.fastapi import router
app = FastAPI()
app.include_router(router(inbox))
""",
    "flask": SHOP
    + """
from flask import Flask
from hooklane.flask import blueprint
app = Flask(__name__)
app.register_blueprint(blueprint(inbox))
""",
    "django": """
import os
from django.conf import settings
settings.configure(
    ROOT_URLCONF="newcomer", ALLOWED_HOSTS=["*"], INSTALLED_APPS=["hooklane.django"], SECRET_KEY="x", DEBUG=False,
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "app.db"}}}}, HOOKLANE={{
"MODE": os.environ["MODE"], "SOURCES": {{"hooklane": {{"secrets": [os.environ["SECRET"]]}}}}}})
import django
django.setup()
from django.urls import include, path
from hooklane.django import source
urlpatterns = [path("", include("hooklane.django.urls"))]
@source("hooklane").on("order.*")
def apply(event, tx):
    raise KeyError(event.data["card"])  # here
from django.core.wsgi import get_wsgi_application
app = get_wsgi_application()
""",
}
WORK = "import newcomer\nfrom django.core.management import call_command\ncall_command('hooklane', 'worker')"
UVICORN = ["uvicorn", "newcomer:app", "--port", "{port}"]
GUNICORN = ["gunicorn", "newcomer:app", "--bind", "127.0.0.1:{port}"]
FLASK = ["flask", "--app", "newcomer", "run", "--port", "{port}"]
NEWCOMERS = [
    ("asgi", UVICORN, "async ", "durable"),
    ("fastapi", UVICORN, "", "inline"),
    ("flask", FLASK, "", "durable"),
    ("django", GUNICORN, "", "inline"),
    pytest.param("asgi", UVICORN, "", "durable", marks=pytest.mark.soak),
    pytest.param("asgi", UVICORN, "", "inline", marks=pytest.mark.soak),
    pytest.param("flask", GUNICORN, "", "inline", marks=pytest.mark.soak),
    pytest.param("django", GUNICORN, "", "durable", marks=pytest.mark.soak),
]


def failed_lines(caplog: Any) -> list[Any]:
    return [record for record in caplog.records if record.name == "hooklane.inbox"]


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_each_failed_handling_is_one_line_and_its_death_another(world: World, mode: Any, caplog: Any) -> None:
    inbox = world.inbox(mode, emit=lambda event: None)

    @own_source(inbox, order="none", retry=RetryPolicy(attempts_max=3)).on("*", name="charge")
    def charge(event: Any, tx: Any) -> None:
        raise KeyError(event.data["card"])

    for _ in range(3):
        inbox.receive(signed("evt_1", type="order.paid", data={"card": CANARY}, at=world.clock.now))
        inbox.run_once()
        world.clock.pass_ms(3_600_000)
    inbox.receive(signed("evt_1", type="order.paid", data={"card": CANARY}, at=world.clock.now))
    inbox.run_once()

    told = failed_lines(caplog)
    assert [record.levelname for record in told] == ["WARNING", "WARNING", "ERROR"]
    assert [record.hooklane["attempt"] for record in told] == [1, 2, 3]
    assert [record.hooklane["status"] for record in told] == ["failed", "failed", "dead"]
    assert [record.hooklane.get("retry_in_ms") for record in told] == [2_500, 5_000, None]
    for record in told:
        line = record.getMessage()
        assert all(word in line for word in ("hooklane", "order.paid", "evt_1", "charge", "KeyError"))
        assert f"test_failures_are_told.py:{charge.__code__.co_firstlineno + 2}" in line, "where it was raised"
        assert CANARY not in line, "a payload, or the text of an error that quotes it"
        assert SECRET not in line


def test_a_retry_that_is_due_by_the_time_it_is_told_is_due_in_no_time(world: World, caplog: Any) -> None:
    ticks = itertools.count(world.clock.now, 50)
    inbox = world.inbox("durable", emit=lambda event: None, clock=lambda: Instant(next(ticks)))

    @own_source(inbox, order="none", retry=RetryPolicy(backoff_ms=1, backoff_cap_ms=1)).on("*", name="charge")
    def charge(event: Any, tx: Any) -> None:
        raise KeyError

    inbox.receive(signed("evt_1", type="order.paid", data={}, at=world.clock.now))
    inbox.run_once()

    assert {record.hooklane["retry_in_ms"] for record in failed_lines(caplog) if record.levelname == "WARNING"} == {0}


@pytest.mark.parametrize("mode", ["durable", "inline"])
async def test_each_failed_handling_of_an_async_handler_is_one_line(world: World, mode: Any, caplog: Any) -> None:
    inbox = world.inbox(mode, emit=lambda event: None)

    @own_source(inbox, order="none", retry=RetryPolicy(attempts_max=2)).on("*")
    async def charge(event: Any, tx: Any) -> None:
        raise KeyError(event.data["card"])

    for _ in range(3):
        await inbox.areceive(signed(data={"card": CANARY}, at=world.clock.now))
        await inbox.arun_once()
        world.clock.pass_ms(3_600_000)

    assert [record.hooklane["status"] for record in failed_lines(caplog)] == ["failed", "dead"]
    assert CANARY not in caplog.text


def fail_at_a_store_of_its_own(event: Any, tx: Any) -> None:
    raise StoreUnavailable("an outbox that the handler uses is away")


async def wait_for_a_task_that_is_cancelled(event: Any, tx: Any) -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    await task


@pytest.mark.parametrize("mode", ["durable", "inline"])
@pytest.mark.parametrize("handler", [fail_at_a_store_of_its_own, wait_for_a_task_that_is_cancelled])
async def test_an_error_that_looks_like_one_of_the_inbox_is_the_handlers_own(
    world: World, mode: Any, handler: Any, caplog: Any
) -> None:
    inbox = world.inbox(mode, emit=lambda event: None)
    # PostgreSQL goes by its own clock too, and would try again within this test.
    own_source(inbox, order="none", retry=RetryPolicy(backoff_ms=3_600_000)).on("*")(handler)

    reply = await inbox.areceive(signed(at=world.clock.now))
    await inbox.arun_once()

    assert reply.status == (200 if mode == "durable" else 503)
    (record,) = failed_lines(caplog)
    assert record.hooklane["status"] == "failed"
    assert record.hooklane["error"] in ("StoreUnavailable", "CancelledError")
    (row,) = await asyncio.to_thread(inbox.rows)
    assert [(each.status, each.attempts) for each in row.handlings] in ([("failed", 0)], [("failed", 1)])


def test_a_handler_that_calls_exit_does_not_end_its_worker_unseen(world: World, caplog: Any) -> None:
    inbox = world.inbox(emit=lambda event: None)
    is_done = threading.Event()

    @own_source(inbox, order="none").on("*")
    def handle(event: Any, tx: Any) -> None:
        if event.id == "exits":
            sys.exit("a library that thinks it is a program")
        is_done.set()

    for event_id in ("exits", "goes_on"):
        inbox.receive(signed(event_id, at=world.clock.now))
    inbox.start_worker()

    assert is_done.wait(scaled_s(20)), "the worker is still there"
    inbox.stop()
    assert [record.hooklane["error"] for record in failed_lines(caplog)] == ["SystemExit"]


def test_a_cancelled_request_is_not_the_handlers_failure(world: World, caplog: Any) -> None:
    inbox = world.inbox("inline", emit=lambda event: None)

    async def cancel() -> None:
        has_begun = asyncio.Event()

        @own_source(inbox, order="none").on("*")
        async def handle(event: Any, tx: Any) -> None:
            has_begun.set()
            await asyncio.sleep(60)

        request = asyncio.create_task(inbox.areceive(signed(at=world.clock.now)))
        await asyncio.wait_for(has_begun.wait(), scaled_s(20))
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(cancel())

    assert failed_lines(caplog) == []
    assert inbox.rows() == []


def test_what_killed_its_worker_is_told_when_it_is_taken_over(world: World, caplog: Any) -> None:
    class Killed(KeyboardInterrupt):
        pass

    def die(event: Any, tx: Any) -> None:
        raise Killed

    inbox = world.inbox(emit=lambda event: None, lease_ms=200, clock=wall_now)  # PostgreSQL has a clock of its own
    own_source(inbox, order="none").on("*")(die)
    inbox.receive(signed())

    def work() -> bool:
        with suppress(Killed):
            inbox.run_once()
        return bool(failed_lines(caplog))

    until(work, what="a line about the worker that did not come back")

    record = failed_lines(caplog)[0]
    assert (record.hooklane["event"], record.hooklane["event_id"]) == ("lease_taken_over", "evt_1")


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_what_waits_for_a_person_from_the_start_is_told(world: World, mode: Any, caplog: Any) -> None:
    """Bodies that nobody can read, and events that contradict one that was here."""
    inbox = world.inbox(mode, emit=lambda event: None)
    own_source(inbox, order="none").on("*")(world.effect)
    for body in (b"not json", b'{"id": "evt_1", "n": 1}', b'{"id": "evt_1", "n": 2}'):
        inbox.receive(signed_bytes("evt_1" if body[0:1] == b"{" else "evt_0", body, at=world.clock.now))

    told = [(record.hooklane["event_id"], record.hooklane["verdict"]) for record in failed_lines(caplog)]
    assert told == [("evt_0", "rejected"), ("evt_1", "conflict")]


def with_a_gap(inbox: Inbox, world: World, order: Any, rounds: int = 5) -> None:
    """A key that waits for an event that never comes, for some rounds of a worker after its patience is over."""
    own_source(inbox, order=order).on("*", name="book")(world.effect)
    for seq in (1, 3):
        inbox.receive(signed(f"evt_{seq}", key="order:7", seq=seq))
    for _ in range(rounds):
        inbox.run_once()
        world.clock.pass_ms(20_000)


def test_a_key_that_waits_for_a_person_is_told_once_for_each_gap(world: World, caplog: Any) -> None:
    inbox = world.inbox()
    with_a_gap(inbox, world, sequence(gap_timeout=10))
    (record,) = failed_lines(caplog)
    fields = {"source": "hooklane", "handler": "book", "key": "order:7", "seq": 1, "prev_seq": 2}

    assert (record.levelname, record.hooklane) == ("WARNING", {"event": "gap_stopped", **fields})
    assert world.told_of(GapStopped) == [GapStopped(**fields)]
    inbox.skip(event_id="evt_3", note="2 is lost")
    inbox.receive(signed("evt_5", key="order:7", seq=5, at=world.clock.now))
    for _ in range(3):
        inbox.run_once()
        world.clock.pass_ms(20_000)
    assert [each.prev_seq for each in world.told_of(GapStopped)] == [2, 4]


def test_a_resync_that_raises_is_told_once_for_each_kind_of_error(world: World, caplog: Any) -> None:
    errors: list[Exception] = [KeyError(CANARY)] * 2 + [ConnectionError()] * 2

    def fetch(key: str, tx: Any) -> None:
        raise errors.pop(0) if errors else KeyError(CANARY)

    inbox = world.inbox()
    with_a_gap(inbox, world, sequence(gap_timeout=10, on_gap="resync", resync=fetch), rounds=8)
    told = [record.hooklane for record in failed_lines(caplog)]

    assert [each["error"] for each in told] == ["KeyError", "ConnectionError", "KeyError"]
    assert {(each["event"], each["source"], each["handler"], each["key"]) for each in told} == {
        ("worker_troubled", "hooklane", "book", "order:7")
    }
    assert CANARY not in caplog.text
    assert errors == []


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_an_event_that_a_function_of_the_application_cannot_read_is_told(world: World, mode: Any, caplog: Any) -> None:
    inbox = world.inbox(mode)
    order = refetch(key=lambda data: data["data"]["card"][CANARY])
    own_source(inbox, order=order).on("*")(world.effect)
    inbox.receive(signed(data={"card": {}}))
    (record,) = failed_lines(caplog)

    assert (record.hooklane["event_id"], CANARY in caplog.text) == ("evt_1", False)


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_request_that_the_store_could_not_take_is_told(sql_world: World, mode: Any, caplog: Any) -> None:
    def failpoint(point: str) -> None:
        raise StoreUnavailable(f"the store is away, says {CANARY}")

    inbox = sql_world.inbox(mode, emit=lambda event: None, failpoint=failpoint)
    own_source(inbox, order="none").on("*")(sql_world.effect)
    assert inbox.receive(signed(at=sql_world.clock.now)).status == 503

    (record,) = failed_lines(caplog)
    assert record.hooklane["reason"] == "store_unavailable"
    assert record.hooklane["error"] == "StoreUnavailable"
    assert CANARY not in record.getMessage()


def test_whoever_has_a_log_of_their_own_is_told_once(caplog: Any) -> None:
    for sink in (InboxLog(), both(InboxLog(), lambda event: None)):
        caplog.clear()
        inbox = Inbox("memory://", "inline", emit=sink)

        @own_source(inbox).on("*")
        def reject(event: Any, tx: Any) -> None:
            raise Reject("no")

        inbox.receive(signed())

        assert [record.hooklane["status"] for record in failed_lines(caplog) if "status" in record.hooklane] == ["dead"]


def test_what_goes_well_is_not_told(caplog: Any) -> None:
    inbox = Inbox("memory://")
    own_source(inbox).on("order.*")(lambda event, tx: None)
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            inbox.receive(signed())
        inbox.run_once()

    assert failed_lines(caplog) == []


def test_a_function_after_the_commit_that_fails_is_told(caplog: Any) -> None:
    inbox = Inbox("memory://")

    @own_source(inbox).on("order.*")
    def handler(event: Any, tx: Any) -> None:
        event.on_commit(lambda: {}[CANARY])

    inbox.receive(signed())
    inbox.run_once()

    (record,) = failed_lines(caplog)
    assert record.hooklane["event"] == "commit_hook_failed"
    assert CANARY not in record.getMessage()


@pytest.mark.parametrize(
    ("kind", "words", "async_", "mode"), NEWCOMERS, ids=lambda value: value[0] if isinstance(value, list) else value
)
def test_a_newcomer_who_has_set_up_no_logging_sees_why_nothing_happens(
    tmp_path: Path, kind: str, words: list[str], async_: str, mode: str
) -> None:
    app = APPS[kind].format(async_=async_)
    (tmp_path / "newcomer.py").write_text(app)
    log = tmp_path / "server.log"
    env = {"MODE": mode, "SECRET": SECRET, "PYTHONPATH": SOURCE}

    def spawn(port: int) -> Child:
        command = [sys.executable, "-m", *(word.format(port=port) for word in words)]
        return Child(command, log=log, cwd=tmp_path, env=env)

    child, port = start_listening(spawn, lambda child, port: child.wait_for_http(f"http://127.0.0.1:{port}/hooklane"))
    with child, ExitStack() as beside:
        if (kind, mode) == ("django", "durable"):  # there the worker is a process of its own
            work = (
                "import newcomer; from django.core.management import call_command; call_command('hooklane', 'worker')"
            )
            beside.enter_context(Child([sys.executable, "-c", work], log=log, cwd=tmp_path, env=env))
        request = signed("evt_7", type="order.paid", data={"card": CANARY})
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=scaled_s(20))
        conn.request("POST", "/hooklane", request.body, dict(request.headers))
        assert conn.getresponse().status == (200 if mode == "durable" else 503)
        conn.close()
        child.wait_for_line(r"status=failed.*error=KeyError")

    (line,) = [line for line in log.read_text().splitlines() if "evt_7" in line]
    (raised,) = [number for number, text in enumerate(app.splitlines(), 1) if text.endswith("# here")]
    assert f"newcomer.py:{raised}" in line
    assert all(word in line for word in ("source=hooklane", "type=order.paid", "attempt=1", "retry_in_ms="))
    assert CANARY not in log.read_text()


def test_a_wrong_secret_is_told_once_and_not_for_each_request(caplog: pytest.LogCaptureFixture) -> None:
    inbox = Inbox("memory://")
    inbox.source("hooklane", [SECRET]).on()(lambda event, tx: None)
    other = Request.of("POST", "http://x/hooklane", [("webhook-id", "evt_1")], b"{}")

    replies = [inbox.receive(other), inbox.receive(other)]

    assert [reply.status for reply in replies] == [401, 401]
    assert [record.getMessage() for record in caplog.records if "refused" in record.getMessage()] == [
        "refused source=hooklane reason=missing_header status=401"
    ]
