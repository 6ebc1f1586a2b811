"""An event claimed in the application's own block, and who may end its transaction."""

from __future__ import annotations

from typing import Any

import pytest
from tests.promises.receiving.conftest import World
from tests.promises.receiving.kit import (
    own_source,
    signed,
    statuses,
)

from hooklane.errors import TransactionMisused
from hooklane.model.message import Status


def test_an_event_claimed_by_hand_is_fresh_once(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()
    seen = []
    for _ in range(2):
        with inbox.claim("smartcar", "evt_9", payload=b'{"a": 1}') as claim:
            seen.append(claim.fresh)
            if claim.fresh:
                world.effect(claim.event, claim.tx)

    assert (seen, claim.verdict, world.effects()) == ([True, False], "duplicate", ["evt_9"])
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


async def test_an_event_can_be_claimed_by_hand_in_async_code(sql_world: World) -> None:
    world, inbox = sql_world, sql_world.inbox()
    seen = []
    for _ in range(2):
        async with inbox.claim("smartcar", "evt_9") as claim:
            seen.append(claim.fresh)
            if claim.fresh:
                await world.aeffect(claim.event, claim.tx)

    assert (seen, world.effects()) == ([True, False], ["evt_9"])
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
