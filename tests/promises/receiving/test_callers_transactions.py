"""The handler's `tx` is the application's own kind of connection, and its completion is part of that commit."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine
from tests.promises.receiving.conftest import PostgresWorld, SqliteWorld, World
from tests.promises.receiving.kit import outcome, own_source, signed, statuses
from tests.support.inboxes import ASYNC, SYNC
from tests.support.pace import scaled_s
from tests.support.tree import ROOT

from hooklane.errors import ConfigError
from hooklane.model.clock import wall_now
from hooklane.model.message import Status
from hooklane.receiver import Event, Inbox, latest


def world_of(kind: str, request: pytest.FixtureRequest) -> SqliteWorld | PostgresWorld:
    if "sqlite" in kind:
        return SqliteWorld(request.getfixturevalue("tmp_path") / "app.db")
    return PostgresWorld(request.getfixturevalue("postgres_url"))


def insert(kind: str, event: Event, tx: Any) -> Any:
    """Write one line in the way of each driver; async ones give something to await."""
    if kind.startswith("sqlalchemy"):
        return tx.execute(text("INSERT INTO effects (event_id) VALUES (:id)"), {"id": event.id})
    if kind == "sqlite-url":
        return tx.execute("INSERT INTO effects (event_id) VALUES (?)", (event.id,))
    if "asyncpg" in kind or type(tx).__module__.startswith("asyncpg"):
        return tx.execute("INSERT INTO effects (event_id) VALUES ($1)", event.id)
    if kind.startswith("psycopg2"):
        with tx.cursor() as cursor:
            cursor.execute("INSERT INTO effects (event_id) VALUES (%s)", (event.id,))
        return None
    return tx.execute("INSERT INTO effects (event_id) VALUES (%s)", (event.id,))


def where(world: World) -> str:
    return world.path.as_uri().replace("file://", "sqlite:///") if isinstance(world, SqliteWorld) else world.where()


@pytest.mark.parametrize("mode", ["durable", "inline"])
@pytest.mark.parametrize("kind", SYNC)
async def test_sync_handlers_write_on_the_applications_own_connection(
    kind: str, mode: Any, request: pytest.FixtureRequest
) -> None:
    world = world_of(kind, request)
    async with SYNC[kind](where(world)) as source:
        inbox = Inbox(source, mode, clock=wall_now)
        fail = [True]

        @own_source(inbox).on("*")
        def handler(event: Event, tx: Any) -> None:
            insert(kind, event, tx)
            if event.type == "order.fails" and fail[0]:
                raise RuntimeError("after the write")

        inbox.receive(signed("evt_1"))
        inbox.run_once()
        inbox.receive(signed("evt_2", type="order.fails"))
        inbox.run_once()
        assert (world.effects(), statuses(inbox)) == (["evt_1"], ["completed", "failed"])
        assert outcome(inbox.receive(signed("evt_1"))) == "duplicate"
        fail[0] = False
        inbox.replay(event_id="evt_2")
        inbox.run_once()
        assert (world.effects(), statuses(inbox)) == (["evt_1", "evt_2"], ["completed", "completed"])
        inbox.close()


@pytest.mark.parametrize("mode", ["durable", "inline"])
@pytest.mark.parametrize("kind", ASYNC)
async def test_async_handlers_write_on_the_applications_own_connection(
    kind: str, mode: Any, request: pytest.FixtureRequest
) -> None:
    world = world_of(kind, request)
    async with ASYNC[kind](where(world)) as source:
        inbox = Inbox(source, mode, clock=wall_now)

        @own_source(inbox).on("*")
        async def handler(event: Event, tx: Any) -> None:
            written = insert(kind, event, tx)
            if hasattr(written, "__await__"):
                await written
            if event.type == "order.fails":
                raise RuntimeError("after the write")

        await inbox.areceive(signed("evt_1"))
        await inbox.arun_once()
        await inbox.areceive(signed("evt_2", type="order.fails"))
        await inbox.arun_once()
        assert outcome(await inbox.areceive(signed("evt_1"))) == "duplicate"
        assert world.effects() == ["evt_1"]
        stats = await inbox.runner.arun(inbox.maintenance.stats())
        assert (stats.total(Status.COMPLETED), stats.total(Status.FAILED)) == (1, 1)
        await inbox.aclose()


@pytest.mark.parametrize("how", ["commit", "rollback"])
@pytest.mark.parametrize("kind", [kind for kind in SYNC if kind != "sqlite-url"])
async def test_a_handler_that_ends_its_transaction_is_found_out_with_every_driver(
    kind: str, how: str, request: pytest.FixtureRequest
) -> None:
    world = world_of(kind, request)
    async with SYNC[kind](where(world)) as source:
        inbox = Inbox(source, clock=wall_now)

        @own_source(inbox).on("*")
        def meddler(event: Event, tx: Any) -> None:
            insert(kind, event, tx)
            getattr(tx, how)()

        inbox.receive(signed())
        inbox.run_once()
        (row,) = inbox.rows()
        assert (row.overall, "TransactionMisused" in str(row.handlings[0].error)) == (Status.DEAD, True)
        inbox.close()


@pytest.mark.parametrize("kind", SYNC)
async def test_the_newest_value_of_a_field_wins_on_every_sync_driver(kind: str, request: pytest.FixtureRequest) -> None:
    world = world_of(kind, request)
    make = "CREATE TABLE signal (car text, path text, value text, at bigint, PRIMARY KEY (car, path))"
    if isinstance(world, PostgresWorld):
        with psycopg.connect(world.url) as conn:
            conn.execute(make)
    else:
        with sqlite3.connect(world.path) as conn_:
            conn_.execute(make)
        conn_.close()
    async with SYNC[kind](where(world)) as source:
        inbox = Inbox(source, clock=wall_now)
        applied: list[bool] = []

        @own_source(inbox, order="none").on("*")
        def handler(event: Event, tx: Any) -> None:
            applied.append(
                latest.apply(tx, "signal", key={"car": "c", "path": "p"}, at=event.data["at"], set={"value": event.id})
            )

        for number, at in enumerate([100, 300, 200, 300, 301]):
            inbox.receive(signed(f"evt_{number}", data={"at": at}))
            inbox.run_once()
        assert applied == [True, True, False, False, True]
        inbox.close()


async def test_a_handler_that_would_have_no_connection_of_its_kind_is_refused(postgres_url: str) -> None:
    """Accepted, it would end every pass of the worker that meets one of its events, and inline each request."""

    def sync(event: Event, tx: Any) -> None: ...

    async def later(event: Event, tx: Any) -> None: ...

    engine = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    async_engine = create_async_engine(postgres_url.replace("postgresql://", "postgresql+asyncpg://"))
    for where, handler, remedy in ((engine, later, "make the handler sync"), (async_engine, sync, "handler async")):
        inbox = Inbox(where)
        with pytest.raises(ConfigError, match=remedy):
            own_source(inbox).on("*")(handler)
    engine.dispose()
    await async_engine.dispose()


def test_what_no_inbox_can_be_kept_in_is_named() -> None:
    for wrong in (42, "mysql://x/y", "app.db"):
        with pytest.raises(ConfigError, match=r"sqlite:///app\.db"):
            Inbox(wrong)


DJANGO_WITHOUT_SETTINGS = """
import threading
import django.db, hooklane.django
from hooklane import Inbox
from hooklane.errors import ConfigError, UsageError
from hooklane.receiver.threads import closing
from hooklane.store.caller import adapt

for attempt, expected in ((lambda: Inbox("app.db"), ConfigError), (lambda: adapt("default"), UsageError)):
    try:
        attempt()
    except expected as error:
        print(type(error).__name__)
raised = []
threading.excepthook = lambda told: raised.append(told.exc_value)
thread = threading.Thread(target=closing(lambda: None))
thread.start()
thread.join()
print(raised)
"""


def test_django_that_some_library_imported_is_no_django_project(tmp_path: Path) -> None:
    """Without settings every look at Django's connections raises, so that nothing of ours looks there."""
    (tmp_path / "test_kit.py").write_text("import hooklane.django\n\ndef test_it(webhooks):\n    assert webhooks\n")
    ran = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": scaled_s(60), "check": False}
    source = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    env = {**source, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", DJANGO_WITHOUT_SETTINGS], env=env, **ran)
    assert (done.returncode, done.stdout.split()) == (0, ["ConfigError", "UsageError", "[]"]), done.stderr
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], env=env, **ran)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("driver", ["sqlite3", "psycopg"])
def test_djangos_orm_and_on_commit_work_in_handlers(driver: str, request: pytest.FixtureRequest) -> None:
    if driver == "sqlite3":
        arguments = ["sqlite3", str(request.getfixturevalue("tmp_path") / "django.db")]
    else:
        url = urlsplit(request.getfixturevalue("postgres_url"))
        arguments = ["postgresql", url.path.strip("/"), str(url.hostname), str(url.port), str(url.username)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.promises.receiving.django_receiver", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=scaled_s(60),
        check=False,
    )
    kept = 57 if driver == "sqlite3" else 55
    assert (done.returncode, done.stdout.split()) == (0, ["ok"] * kept), done.stderr + done.stdout
