"""An event claimed in the application's own block, and who may end its transaction."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg
import pytest
import sqlalchemy
from tests.promises.receiving.conftest import SqliteWorld, World
from tests.promises.receiving.kit import (
    own_source,
    signed,
    statuses,
)

from hooklane.errors import CommitRefused, StoreBusy, TransactionMisused
from hooklane.model.message import Status
from hooklane.receiver import Inbox


def test_an_event_claimed_by_hand_is_fresh_once(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()
    seen = []
    for _ in range(2):
        with inbox.claim("smartcar", "evt_9", payload=b'{"a": 1}') as claim:
            fresh = claim.fresh
            if claim.fresh:
                world.effect(claim.event, claim.tx)
        seen.append((fresh, claim.verdict, claim.tx))

    assert seen == [(True, "applied", None), (False, "duplicate", None)]
    assert world.effects() == ["evt_9"]
    with inbox.claim("smartcar", "evt_9", payload=b'{"a": 2}') as other:
        assert (other.fresh, other.verdict) == (False, "conflict")


def test_a_block_that_raises_undoes_its_claim(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()

    def fail(claim: Any) -> None:
        world.effect(claim.event, claim.tx)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), inbox.claim("smartcar", "evt_9") as claim:
        fail(claim)

    assert world.effects() == []
    with inbox.claim("smartcar", "evt_9") as claim:
        assert (claim.fresh, claim.event.attempt) == (True, 2)
        world.effect(claim.event, claim.tx)
    assert world.effects() == ["evt_9"]


def rule_for_the_commit(world: World) -> None:
    """A table whose rows need another one, which the database looks for at the commit."""
    conn: Any = sqlite3.connect(world.path) if isinstance(world, SqliteWorld) else psycopg.connect(world.where())
    with closing(conn):
        conn.execute("CREATE TABLE account (id integer PRIMARY KEY)")
        conn.execute("CREATE TABLE entry (account integer REFERENCES account DEFERRABLE INITIALLY DEFERRED)")
        conn.commit()


def test_a_claim_whose_commit_is_refused_says_so_and_can_be_made_again(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()
    rule_for_the_commit(world)
    with pytest.raises(CommitRefused), inbox.claim("bank", "evt_9") as claim:
        claim.tx.execute("INSERT INTO entry VALUES (99)")

    assert claim.verdict == "busy"
    with inbox.claim("bank", "evt_9") as claim:
        assert (claim.fresh, claim.event.attempt) == (True, 2)
        world.effect(claim.event, claim.tx)
    assert (claim.verdict, world.effects()) == ("applied", ["evt_9"])


async def test_an_async_claim_whose_commit_is_refused_says_so_and_can_be_made_again(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()
    rule_for_the_commit(world)

    async def break_the_rule() -> None:
        async with inbox.claim("bank", "evt_9") as claim:
            added = claim.tx.execute("INSERT INTO entry VALUES (99)")
            if world.name == "postgres":
                await added

    with pytest.raises(CommitRefused):
        await break_the_rule()
    async with inbox.claim("bank", "evt_9") as claim:
        assert claim.fresh
        await world.aeffect(claim.event, claim.tx)
    assert (claim.verdict, world.effects()) == ("applied", ["evt_9"])
    await inbox.aclose()


def test_a_claim_that_loses_a_race_at_its_commit_says_so_and_can_be_made_again(postgres_url: str) -> None:
    address = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(address, isolation_level="SERIALIZABLE")
    look = sqlalchemy.text("SELECT sum(cents) FROM balance")
    inbox = Inbox(engine)
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE balance (id integer PRIMARY KEY, cents integer)")
        conn.execute("INSERT INTO balance VALUES (1, 0), (2, 0)")

    def cross(tx: Any) -> None:
        """Each of two transactions reads what the other writes."""
        tx.execute(look)
        tx.execute(sqlalchemy.text("UPDATE balance SET cents = 1 WHERE id = 1"))
        with psycopg.connect(postgres_url) as other:
            other.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            other.execute("SELECT sum(cents) FROM balance")
            other.execute("UPDATE balance SET cents = 1 WHERE id = 2")

    with pytest.raises(StoreBusy), inbox.claim("bank", "evt_9") as claim:
        cross(claim.tx)

    assert inbox.rows(source="bank") == []
    with inbox.claim("bank", "evt_9") as claim:
        assert claim.fresh
        assert claim.tx.execute(look).scalar() == 1
    assert claim.verdict == "applied"
    inbox.close()
    engine.dispose()


def test_a_block_that_meets_a_busy_store_of_its_own_can_claim_again(sql_world: World) -> None:
    inbox = sql_world.inbox()
    with pytest.raises(StoreBusy, match="an outbox elsewhere"), inbox.claim("bank", "evt_9"):
        raise StoreBusy("an outbox elsewhere is busy")

    with inbox.claim("bank", "evt_9") as claim:
        assert claim.fresh
    assert claim.verdict == "applied"


async def test_an_event_can_be_claimed_by_hand_in_async_code(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()
    seen = []
    for _ in range(2):
        async with inbox.claim("smartcar", "evt_9") as claim:
            fresh = claim.fresh
            if claim.fresh:
                await world.aeffect(claim.event, claim.tx)
        seen.append((fresh, claim.verdict, claim.tx))

    assert seen == [(True, "applied", None), (False, "duplicate", None)]
    assert world.effects() == ["evt_9"]
    await inbox.aclose()


@pytest.mark.parametrize("how", ["commit", "rollback", "sql"])
@pytest.mark.parametrize("mode", ["durable", "inline"])
def test_a_handler_that_ends_the_transaction_itself_is_told_so(sql_world: World, mode: Any, how: str) -> None:
    world, inbox = sql_world, sql_world.inbox(mode)

    @own_source(inbox).on("*")
    def meddler(event: Any, tx: Any) -> None:
        world.effect(event, tx)
        if how == "sql":
            tx.execute("COMMIT")
        else:
            getattr(tx, how)()

    inbox.receive(signed())
    inbox.run_once()

    (row,) = inbox.rows()
    assert row.overall is Status.DEAD
    assert "commit" in str(row.handlings[0].error)
    assert "TransactionMisused" in str(row.handlings[0].error)
    if world.name == "sqlite":
        assert world.effects() == [], "there it is not even possible"


def test_a_block_that_commits_is_told_so(sql_world: World) -> None:
    inbox = sql_world.inbox()
    with pytest.raises(TransactionMisused), inbox.claim("smartcar", "evt_9") as claim:
        claim.tx.execute("COMMIT")


def test_a_savepoint_in_a_handler_is_fine(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()

    @own_source(inbox).on("*")
    def careful(event: Any, tx: Any) -> None:
        tx.execute("SAVEPOINT maybe")
        world.effect(event, tx)
        tx.execute("ROLLBACK TO SAVEPOINT maybe")
        world.effect(event, tx)

    inbox.receive(signed())
    inbox.run_once()
    assert (statuses(inbox), world.effects()) == (["completed"], ["evt_1"])
