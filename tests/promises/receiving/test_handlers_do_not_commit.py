"""A handler's commit is refused before it happens, with every driver, and nothing of a shadow replay lasts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg2.extras import RealDictCursor
from sqlalchemy import create_engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from tests.promises.receiving.conftest import PostgresWorld, SqliteWorld, World
from tests.promises.receiving.kit import own_source, signed
from tests.promises.receiving.test_database_errors_of_handlers import done, effect, run_here
from tests.support.inboxes import ASYNC, SYNC, execute

from hooklane.errors import TransactionMisused
from hooklane.model.inbox import Search
from hooklane.model.message import Status
from hooklane.receiver import Event, Inbox
from hooklane.receiver.runner import Run
from hooklane.receiver.steps import transaction

HOUR_MS = 3_600_000
KINDS = [("sync", kind) for kind in SYNC] + [("async", kind) for kind in ASYNC]
every_kind = pytest.mark.parametrize(("way", "kind"), KINDS, ids=[f"{way}-{kind}" for way, kind in KINDS])


async def commit(tx: Any) -> None:
    await done(tx.commit() if hasattr(tx, "commit") else execute(tx, "COMMIT"))


async def commit_as_text(tx: Any) -> None:
    await done(execute(tx, "COMMIT"))


async def commit_and_go_on(tx: Any) -> None:
    try:
        await commit(tx)
    except Exception:
        await done(execute(tx, "INSERT INTO effects (event_id) VALUES ('after the refusal')"))


async def begin_anew(tx: Any) -> None:
    if not hasattr(tx, "rollback"):
        raise TransactionMisused("asyncpg has no such method")
    await done(tx.rollback())
    await done(execute(tx, "INSERT INTO effects (event_id) VALUES ('in another transaction')"))


async def begin_anew_and_commit(tx: Any) -> None:
    """As after an error: roll back, note what went wrong, commit the note."""
    await begin_anew(tx)
    await commit(tx)


async def leave_the_block(tx: Any) -> None:
    """`with tx:`, by which psycopg and psycopg2 commit."""
    if type(tx).__module__.partition(".")[0] not in ("psycopg", "psycopg2"):
        raise TransactionMisused("only those two have it")
    if hasattr(tx, "__aexit__"):
        async with tx:
            await effect_in(tx)
    else:
        with tx:
            await effect_in(tx)


async def effect_in(tx: Any) -> None:
    await done(execute(tx, "INSERT INTO effects (event_id) VALUES ('in a block')"))


async def end_as_text(tx: Any) -> None:
    await done(execute(tx, "END"))


KEPT = "INSERT INTO effects (event_id) VALUES ('kept')"


async def all_as_text(tx: Any) -> None:
    """One text of several statements; where a driver takes only one, each alone."""
    try:
        await done(execute(tx, f"ROLLBACK; BEGIN; {KEPT}; COMMIT"))
    except TransactionMisused:
        raise
    except Exception:
        for one in ("ROLLBACK", "BEGIN", KEPT, "COMMIT"):
            await done(execute(tx, one))


async def hidden_in_text(tx: Any) -> None:
    await done(execute(tx, f"SELECT 'it''s; $$'; /* ; /* */ ' */ rOllBaCk -- ; '\n; start transaction; {KEPT}; end"))


async def roll_back_as_text(tx: Any) -> None:
    """What comes then is in autocommit with asyncpg, and with psycopg2, which does not notice."""
    await done(execute(tx, "ROLLBACK"))
    await done(execute(tx, KEPT))


async def roll_back_and_commit_as_text(tx: Any) -> None:
    await done(tx.rollback() if hasattr(tx, "rollback") else execute(tx, "ROLLBACK"))
    await done(execute(tx, KEPT))
    await done(execute(tx, "COMMIT"))


async def close_all(tx: Any) -> None:
    """The cursor that refuses a commit is closed before it."""
    await done(execute(tx, "CLOSE ALL"))
    await done(execute(tx, KEPT))
    await done(execute(tx, "COMMIT"))


async def catch_and_go_on(tx: Any) -> None:
    """As `close_all`, and nothing of what is raised is let through."""
    for text_ in ('CLOSE "hooklane_guard"', "ROLLBACK", "BEGIN", KEPT, "COMMIT"):
        with suppress(Exception):
            await done(execute(tx, text_))


def drivers_own(tx: Any) -> Any:
    """The connection of the driver, as applications get it from SQLAlchemy; *tx* itself elsewhere."""
    if type(tx).__module__.partition(".")[0] != "sqlalchemy":
        return tx
    tx = getattr(tx, "sync_session", None) or getattr(tx, "sync_connection", None) or tx
    return (tx.connection() if hasattr(tx, "get_bind") else tx).connection.driver_connection


async def begin_a_block(tx: Any) -> None:
    """After a rollback, by what the driver has besides for writing and for beginning a transaction."""
    own = drivers_own(tx)
    match type(own).__module__.partition(".")[0]:
        case "asyncpg":
            await own.execute("ROLLBACK")
            await own.copy_records_to_table("effects", records=[("kept",)], columns=["event_id"])
        case "psycopg" if own is tx and hasattr(own, "__aenter__"):
            await own.rollback()
            async with own.transaction():
                await own.execute(KEPT)
        case "psycopg" if own is tx:
            own.rollback()
            with own.transaction():
                own.execute(KEPT)
        case _:
            await done(own.rollback())
            await done(own.cursor().execute(KEPT))
            await done(own.commit())


async def with_a_cursor_of_another_kind(tx: Any) -> None:
    match type(tx).__module__.partition(".")[0]:
        case "psycopg":
            kind: Any = psycopg.AsyncClientCursor if hasattr(tx, "__aenter__") else psycopg.ClientCursor
            await done(kind(tx).execute("ROLLBACK"))
            await done(kind(tx).execute(KEPT))
        case "psycopg2":
            tx.rollback()
            tx.cursor(cursor_factory=RealDictCursor).execute(KEPT)
        case _:
            raise TransactionMisused("the others have one kind")
    await done(tx.commit())


WAYS: dict[str, Callable[[Any], Any]] = {
    "commit": commit,
    "text": commit_as_text,
    "goes on": commit_and_go_on,
    "begins anew": begin_anew,
    "begins anew and commits": begin_anew_and_commit,
    "leaves the block": leave_the_block,
    "end": end_as_text,
}
ON_POSTGRES: dict[str, Callable[[Any], Any]] = {
    **WAYS,
    "all as text": all_as_text,
    "hidden in text": hidden_in_text,
    "rolls back as text": roll_back_as_text,
    "rolls back and commits as text": roll_back_and_commit_as_text,
    "closes all": close_all,
    "catches and goes on": catch_and_go_on,
    "begins a block": begin_a_block,
    "with a cursor of another kind": with_a_cursor_of_another_kind,
}


def world_of(kind: str, request: pytest.FixtureRequest) -> SqliteWorld | PostgresWorld:
    if "sqlite" in kind:
        return SqliteWorld(request.getfixturevalue("tmp_path") / "app.db")
    return PostgresWorld(request.getfixturevalue("postgres_url"))


@every_kind
async def test_what_a_handler_tries_to_commit_is_not_kept(way: str, kind: str, request: pytest.FixtureRequest) -> None:
    world = world_of(kind, request)
    if isinstance(world, SqliteWorld):
        where, ways = f"sqlite:///{world.path}", WAYS
    else:
        where, ways = world.url, ON_POSTGRES

    async def meddle(event: Event, tx: Any) -> None:
        await done(effect(event, tx))
        await ways[event.id.replace("_", " ")](tx)

    async with (SYNC if way == "sync" else ASYNC)[kind](where) as source:
        inbox = Inbox(source, clock=world.clock)
        on = own_source(inbox, order="none").on("*", name="meddler")
        on(meddle if way == "async" else lambda event, tx: run_here(meddle(event, tx)))
        for name in ways:
            await inbox.areceive(signed(name.replace(" ", "_")))
        await inbox.arun_once()
        rows = await inbox.runner.arun(rows_of(inbox))
        told = {row.message.event_id: (row.overall, str(row.handlings[0].error)) for row in rows}
        assert {status for status, _ in told.values()} == {Status.DEAD}, told
        assert all("TransactionMisused" in error for _, error in told.values()), told
        assert world.effects() == []

        shadows = await inbox.runner.arun(inbox.replays.shadow(Search(), None))
        assert [("TransactionMisused" in str(one.error)) for one in shadows] == [True] * len(ways), shadows
        assert world.effects() == []
        await inbox.aclose()


def rows_of(inbox: Inbox) -> Any:
    return (yield Run(transaction(inbox.store.rows(Search()))))


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_constraint_that_is_checked_at_the_commit_is_the_handlers_own_error(sql_world: World, mode: Any) -> None:
    """Inline it was taken for a store that is away: 503, and nothing on record."""
    world, inbox = sql_world, sql_world.inbox(mode)
    world.clock.pass_ms(24 * HOUR_MS)
    with inbox.claim("setup", "evt_0") as claim:
        claim.tx.execute("CREATE TABLE child (of bigint REFERENCES effects (n) DEFERRABLE INITIALLY DEFERRED)")
    calls: list[int] = []

    @own_source(inbox).on("*")
    def handler(event: Event, tx: Any) -> None:
        calls.append(event.attempt)
        world.effect(event, tx)
        if len(calls) == 1:
            tx.execute("INSERT INTO child VALUES (999)")

    reply = inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    (row,) = inbox.rows(source="hooklane")
    assert (reply.status, row.overall) == (200 if mode == "durable" else 503, Status.FAILED)
    assert "foreign key" in str(row.handlings[0].error).lower()
    assert world.effects() == []

    world.clock.pass_ms(HOUR_MS)
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    assert world.effects() == ["evt_1"]


_LATE = """
CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO nowhere VALUES (1); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION late()
"""


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_an_error_of_a_trigger_that_waits_for_the_commit_is_the_handlers_own(
    postgres_world: PostgresWorld, mode: Any
) -> None:
    """Inline it was taken for a store that refuses us: 503 again and again, and nothing on record."""
    world, inbox = postgres_world, postgres_world.inbox(mode)
    world.clock.pass_ms(24 * HOUR_MS)
    own_source(inbox).on("*")(world.effect)
    with psycopg.connect(world.url) as conn:
        conn.execute(_LATE)

    reply = inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    (row,) = inbox.rows()
    assert (reply.status, row.overall) == (200 if mode == "durable" else 503, Status.FAILED)
    assert "nowhere" in str(row.handlings[0].error)

    with psycopg.connect(world.url) as conn:
        conn.execute("CREATE TABLE nowhere (id int)")
    world.clock.pass_ms(HOUR_MS)
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    assert world.effects() == ["evt_1"]


class Base(DeclarativeBase):
    pass


class Line(Base):
    __tablename__ = "line"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.mark.parametrize("catches", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql+psycopg", "postgresql+psycopg2"])
def test_a_flush_that_fails_is_not_taken_for_a_rollback_of_the_handlers(
    kind: str, catches: bool, request: pytest.FixtureRequest
) -> None:
    """SQLAlchemy's session rolls back by itself then."""
    world = world_of(kind, request)
    url = f"sqlite:///{world.path}" if isinstance(world, SqliteWorld) else world.url
    engine = create_engine(kind + url[url.index("://") :])
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Line(id=1))
        session.commit()
    inbox = Inbox(sessionmaker(engine), clock=world.clock)
    world.clock.pass_ms(24 * HOUR_MS)
    calls: list[str] = []

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Session) -> None:
        calls.append(event.id)
        tx.execute(text(f"INSERT INTO effects (event_id) VALUES ('{event.id}')"))
        if len(calls) == 1:
            tx.add(Line(id=1))
            try:
                tx.flush()
            except Exception:
                if not catches:
                    raise

    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    (row,) = inbox.rows()
    expected = "was caught inside the handler" if catches else "IntegrityError"
    assert (row.overall, expected in str(row.handlings[0].error)) == (Status.FAILED, True), row.handlings[0].error
    assert world.effects() == []

    world.clock.pass_ms(HOUR_MS)
    inbox.run_once()
    assert world.effects() == ["evt_1"]
    inbox.close()
    engine.dispose()


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_an_error_that_undoes_a_whole_transaction_of_sqlite_is_the_handlers_own(
    sqlite_world: SqliteWorld, mode: Any
) -> None:
    """It was taken for a rollback of the handler's, and the event was dead at once."""
    world, inbox = sqlite_world, sqlite_world.inbox(mode)
    conn = sqlite3.connect(world.path)
    conn.execute("CREATE TABLE once (id INTEGER PRIMARY KEY)")
    conn.execute("INSERT INTO once VALUES (1)")
    conn.commit()
    conn.close()
    calls: list[str] = []

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        calls.append(event.id)
        world.effect(event, tx)
        if len(calls) == 1:
            tx.execute("INSERT OR ROLLBACK INTO once VALUES (1)")

    reply = inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    (row,) = inbox.rows()
    assert (reply.status, row.overall) == (200 if mode == "durable" else 503, Status.FAILED)
    assert "UNIQUE constraint failed" in str(row.handlings[0].error)

    world.clock.pass_ms(HOUR_MS)
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    assert world.effects() == ["evt_1"]


@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_locked_file_costs_a_handler_no_attempt(sqlite_world: SqliteWorld, mode: Any) -> None:
    world, inbox = sqlite_world, sqlite_world.inbox(mode)
    calls: list[int] = []

    @own_source(inbox, order="none").on("*")
    def handler(event: Event, tx: Any) -> None:
        calls.append(event.attempt)
        world.effect(event, tx)
        if len(calls) == 1:
            other = sqlite3.connect(world.path, timeout=0)
            try:
                other.execute("BEGIN IMMEDIATE")
            finally:
                other.close()

    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    (row,) = inbox.rows()
    handling = row.handlings[0]
    assert (handling.status, handling.attempts) == (Status.FAILED, 0)
    assert "database is locked" in str(handling.error)

    world.clock.pass_ms(HOUR_MS)
    inbox.receive(signed(at=world.clock.now))
    inbox.run_once()
    assert world.effects() == ["evt_1"]
