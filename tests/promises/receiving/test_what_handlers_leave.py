"""What one handler does to its connection, or raises, does not reach the next event."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from tests.promises.receiving.conftest import PostgresWorld, SqliteWorld, World
from tests.promises.receiving.kit import outcome, own_source, signed, statuses
from tests.support.inboxes import SYNC

from hooklane import Retry
from hooklane.model.clock import wall_now
from hooklane.model.message import Status
from hooklane.receiver import Event, Inbox

SEARCH_PATH = "CREATE SCHEMA acme; CREATE TABLE acme.effects (LIKE effects); SET search_path TO acme"
TEMPORARY = "CREATE TEMPORARY TABLE effects (event_id text)"
ROLE = "GRANT INSERT ON effects TO pg_monitor; SET ROLE pg_monitor; RESET ROLE; SET default_transaction_read_only = on"
LEFT = pytest.mark.parametrize("left", [SEARCH_PATH, TEMPORARY, ROLE], ids=["search_path", "temporary", "read_only"])
MODE = pytest.mark.parametrize("mode", ["durable", "inline"])


@MODE
@LEFT
def test_what_a_handler_set_on_a_connection_of_ours_is_not_there_for_the_next_event(
    left: str, mode: str, postgres_url: str
) -> None:
    world = PostgresWorld(postgres_url)
    inbox = world.inbox(mode)

    @own_source(inbox).on("*")
    def handler(event: Event, tx: Any) -> None:
        if event.id == "evt_1":
            tx.execute(left)
        else:
            world.effect(event, tx)
            if event.id == "evt_2":
                raise RuntimeError("what is rolled back is not what the first has set")

    for number in (1, 2, 3, 4):
        inbox.receive(signed(f"evt_{number}", at=world.clock.now))
        inbox.run_once()
    assert (world.effects(), statuses(inbox)) == (["evt_3", "evt_4"], ["completed", "failed", "completed", "completed"])
    world.close()


@MODE
@LEFT
async def test_what_an_async_handler_set_is_not_there_for_the_next_event(
    left: str, mode: str, postgres_url: str
) -> None:
    world = PostgresWorld(postgres_url)
    inbox = world.inbox(mode)

    @own_source(inbox).on("*")
    async def handler(event: Event, tx: Any) -> None:
        if event.id == "evt_1":
            await tx.execute(left)
        else:
            await world.aeffect(event, tx)

    for number in (1, 2, 3):
        await inbox.areceive(signed(f"evt_{number}", at=world.clock.now))
        await inbox.arun_once()
    assert world.effects() == ["evt_2", "evt_3"]
    await inbox.aclose()


@MODE
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_lock_that_a_handler_took_for_its_session_ends_with_its_failure(
    is_async: bool, mode: str, postgres_url: str
) -> None:
    """It could not let go of it, and handlers on other connections would wait for it, one worker after another."""
    world = PostgresWorld(postgres_url)
    inbox = world.inbox(mode)

    def handle(event: Event, tx: Any) -> None:
        tx.execute("SELECT pg_advisory_lock(42)")
        raise RuntimeError

    async def ahandle(event: Event, tx: Any) -> None:
        await tx.execute("SELECT pg_advisory_lock(42)")
        raise RuntimeError

    own_source(inbox).on("*")(ahandle if is_async else handle)
    await inbox.areceive(signed(at=world.clock.now))
    await inbox.arun_once()
    assert statuses(inbox) == ["failed"]
    with psycopg.connect(postgres_url) as conn:
        assert conn.execute("SELECT pg_try_advisory_lock(42)").fetchone() == (True,)
    await inbox.aclose()


LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND pid = pg_backend_pid()"
CURSORS = "SELECT count(*) FROM pg_cursors WHERE name = 'report'"
CHANNELS = "SELECT count(*) FROM pg_listening_channels()"
LEAVES = {
    "lock": ("SELECT pg_advisory_lock(42)", LOCKS),
    "cursor": ("DECLARE report CURSOR WITH HOLD FOR SELECT 1", CURSORS),
    "channel": ("LISTEN orders", CHANNELS),
}


@MODE
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kind", LEAVES)
async def test_what_a_handler_left_on_its_session_when_it_succeeded_does_not_stay(
    kind: str, is_async: bool, mode: str, postgres_url: str
) -> None:
    leave, count = LEAVES[kind]
    world = PostgresWorld(postgres_url)
    inbox = world.inbox(mode)
    counted: list[int] = []

    def handle(event: Event, tx: Any) -> None:
        counted.append(tx.execute(count).fetchone()[0])
        if event.id == "evt_1":
            tx.execute(leave)

    async def ahandle(event: Event, tx: Any) -> None:
        counted.append(await tx.fetchval(count))
        if event.id == "evt_1":
            await tx.execute(leave)

    own_source(inbox).on("*")(ahandle if is_async else handle)
    for number in (1, 2, 3):
        await inbox.areceive(signed(f"evt_{number}", at=world.clock.now))
        await inbox.arun_once()
    # The end of a LISTEN is that of the transaction in which it is ended: the second still sees it.
    assert (statuses(inbox), counted[0], counted[2]) == (["completed"] * 3, 0, 0)
    await inbox.aclose()


@MODE
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_what_a_handler_set_on_a_connection_to_sqlite_is_not_there_for_the_next_event(
    is_async: bool, mode: str, tmp_path: Path
) -> None:
    world = SqliteWorld(tmp_path / "app.db")
    inbox = world.inbox(mode)
    like: list[Any] = []

    def handle(event: Event, tx: Any) -> None:
        like.append(tx.execute("SELECT 'a' LIKE 'A'").fetchone())
        if event.id == "evt_1":
            tx.execute(TEMPORARY)
            tx.execute("PRAGMA case_sensitive_like = ON")
        world.effect(event, tx)

    async def ahandle(event: Event, tx: Any) -> None:
        handle(event, tx)

    own_source(inbox, order="none").on("*")(ahandle if is_async else handle)
    for number in (1, 2, 3):
        await inbox.areceive(signed(f"evt_{number}", at=world.clock.now))
        await inbox.arun_once()
    assert (world.effects(), like) == (["evt_2", "evt_3"], [(1,)] * 3)
    await inbox.aclose()


STAGED = ["CREATE TEMPORARY TABLE IF NOT EXISTS staged (id text)", "INSERT INTO staged VALUES (?)"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_handlers_that_share_a_commit_share_no_temporary_table(is_async: bool, tmp_path: Path) -> None:
    """Each would write what those before it have staged once more."""
    world = SqliteWorld(tmp_path / "app.db")
    inbox = world.inbox("inline")

    def handle(event: Event, tx: Any) -> None:
        for statement in STAGED:
            tx.execute(statement, (event.id,) * statement.count("?"))
        tx.execute("INSERT INTO effects (event_id) SELECT id FROM staged")

    async def ahandle(event: Event, tx: Any) -> None:
        handle(event, tx)
        await asyncio.sleep(0)  # others come meanwhile

    own_source(inbox, order="none").on("*")(ahandle if is_async else handle)
    ids = [f"evt_{number}" for number in range(20)]
    replies = await asyncio.gather(*(inbox.areceive(signed(id, at=world.clock.now)) for id in ids))
    assert ({reply.status for reply in replies}, sorted(world.effects())) == ({200}, sorted(ids))
    await inbox.aclose()


def test_the_row_factory_of_one_handler_is_not_that_of_the_next(postgres_url: str) -> None:
    world = PostgresWorld(postgres_url)
    inbox = world.inbox()
    seen: list[Any] = []

    @own_source(inbox).on("*")
    def handler(event: Event, tx: Any) -> None:
        seen.append(tx.execute("SELECT 1 AS n").fetchone())
        tx.row_factory = dict_row

    for event_id in ("evt_1", "evt_2"):
        inbox.receive(signed(event_id, at=world.clock.now))
        inbox.run_once()
    assert seen == [(1,), (1,)]
    world.close()


@MODE
async def test_a_pool_of_asyncpg_may_have_codecs_for_json(mode: Any, postgres_url: str) -> None:
    """The recipe of asyncpg's own documentation; with it a text for `$1::jsonb` would be written as a JSON string."""

    async def init(conn: Any) -> None:
        for kind in ("json", "jsonb"):
            await conn.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")

    world = PostgresWorld(postgres_url)
    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=4, init=init) as pool:
        inbox = Inbox(pool, mode, clock=wall_now)

        @own_source(inbox).on("*")
        async def handler(event: Event, tx: Any) -> None:
            await world.aeffect(event, tx)

        await inbox.areceive(signed())
        await inbox.arun_once()
        assert outcome(await inbox.areceive(signed())) == "duplicate"
        await inbox.arun_once()  # which counts the copy
        stats = await inbox.runner.arun(inbox.maintenance.stats())
        assert (world.effects(), stats.total(Status.COMPLETED)) == (["evt_1"], 1)
        await inbox.aclose()


CLOSABLE = [kind for kind in SYNC if not kind.endswith("-session")]  # a session that was closed begins again


@MODE
@pytest.mark.parametrize("kind", CLOSABLE)
async def test_a_handler_that_closes_its_connection_is_told_so(
    kind: str, mode: Any, request: pytest.FixtureRequest
) -> None:
    world: SqliteWorld | PostgresWorld
    if "sqlite" in kind:
        world = SqliteWorld(request.getfixturevalue("tmp_path") / "app.db")
    else:
        world = PostgresWorld(request.getfixturevalue("postgres_url"))
    async with SYNC[kind](world.where()) as source:
        inbox = Inbox(source, mode, clock=wall_now)

        @own_source(inbox).on("*")
        def handler(event: Event, tx: Any) -> None:
            if event.id == "evt_1":
                tx.close()

        for event_id in ("evt_1", "evt_2"):
            inbox.receive(signed(event_id))
            inbox.run_once()
        first, second = inbox.rows()
        assert (first.overall, second.overall) == (Status.DEAD, Status.COMPLETED)
        assert "the handler has closed tx" in first.handlings[0].error
        inbox.close()


class _NoText(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class _NoModule(Exception):
    pass


_NoModule.__module__ = None  # type: ignore[assignment]


def _raises(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@MODE
@pytest.mark.parametrize("kind", [_NoText, _NoModule])
def test_an_error_that_cannot_be_told_is_recorded(kind: type[Exception], mode: str, world: World) -> None:
    inbox = world.inbox(mode)

    @own_source(inbox).on("*")
    def handler(event: Event, tx: Any) -> None:
        raise kind

    reply = inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    (row,) = inbox.rows()
    assert (reply.status, row.overall) == (200 if mode == "durable" else 503, Status.FAILED)
    assert kind.__name__ in row.handlings[0].error


@MODE
def test_a_hook_whose_error_cannot_be_told_fails_alone(mode: str, world: World) -> None:
    class _NoWords(Exception):
        def __repr__(self) -> str:
            raise ValueError("no words")

    inbox = world.inbox(mode)

    @own_source(inbox).on("*")
    def handler(event: Event, tx: Any) -> None:
        world.effect(event, tx)
        event.on_commit(_raises(_NoWords()))

    assert inbox.receive(signed(at=world.clock.now)).status == 200
    inbox.run_once()
    assert (world.effects(), statuses(inbox)) == (["evt_1"], ["completed"])


def test_a_hook_of_a_claim_whose_error_cannot_be_told_fails_alone(world: World) -> None:
    class _NoWords(Exception):
        def __repr__(self) -> str:
            raise ValueError("no words")

    inbox = world.inbox()
    with inbox.claim("shop", "evt_1") as claim:
        claim.event.on_commit(_raises(_NoWords()))
    assert claim.verdict == "applied"


def _as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    """The recipe of Python's own documentation."""
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


@MODE
@pytest.mark.parametrize("factory", [{"row_factory": _as_dict}, {"text_factory": bytes}], ids=["rows", "texts"])
def test_connections_of_sqlite3_may_have_factories_of_their_own(
    factory: dict[str, Any], mode: Any, tmp_path: Path
) -> None:
    world = SqliteWorld(tmp_path / "app.db")

    def connect() -> sqlite3.Connection:
        conn = sqlite3.connect(world.path)
        for name, value in factory.items():
            setattr(conn, name, value)
        return conn

    inbox = Inbox(connect, mode, clock=wall_now)
    own_source(inbox).on("*", name="handler")(world.effect)
    inbox.receive(signed())
    inbox.run_once()
    assert outcome(inbox.receive(signed())) == "duplicate"
    assert (world.effects(), statuses(inbox)) == (["evt_1"], ["completed"])
    inbox.close()


@pytest.mark.parametrize("after", [timedelta(seconds=3), "3", float("nan"), -1])
def test_a_retry_says_how_its_wait_is_given(after: Any) -> None:
    with pytest.raises(ValueError, match="is a number of seconds from 0 to a year"):
        Retry(after=after)
