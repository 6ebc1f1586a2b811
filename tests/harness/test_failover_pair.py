"""The pair of servers that failover tests stand on does what they rely on."""

from collections.abc import Iterator
from threading import Thread

import asyncpg
import psycopg
import pytest
from tests.support.failover import Pair, ask, synchronous_pair
from tests.support.pace import scaled_s
from tests.support.processes import until


@pytest.fixture
def pair() -> Iterator[Pair]:
    with synchronous_pair() as servers:
        yield servers


def test_a_commit_waits_for_a_frozen_standby_and_is_lost_when_that_is_promoted(pair: Pair) -> None:
    ask(pair.primary, "CREATE TABLE ledger (id int)", "INSERT INTO ledger VALUES (1)")
    pair.freeze()
    waiting = psycopg.connect(pair.url(), autocommit=True)
    lost: list[BaseException] = []

    def insert() -> None:
        try:
            waiting.execute("INSERT INTO ledger VALUES (2)")
        except psycopg.Error as error:
            lost.append(error)

    thread = Thread(target=insert)
    thread.start()
    is_waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    until(lambda: ask(pair.primary, is_waiting), what="the commit to wait")
    pair.fail_over()
    thread.join(scaled_s(20))

    assert lost
    assert ask(pair.primary, "SELECT id FROM ledger") == [(1,)]


async def test_the_servers_take_turns_and_one_url_finds_the_primary(pair: Pair) -> None:
    ask(pair.primary, "CREATE TABLE ledger (id int)")
    for turn in range(2):
        connection = await asyncpg.connect(pair.url())
        await connection.execute(f"INSERT INTO ledger VALUES ({turn})")
        await connection.close()
        pair.fail_over()
        pair.come_back()

    assert ask(pair.primary, "SELECT id FROM ledger ORDER BY id") == [(0,), (1,)]
    assert pair.is_synchronous
