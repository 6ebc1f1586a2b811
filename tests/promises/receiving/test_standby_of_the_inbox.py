"""Where a synchronous standby is asked for: a duplicate is not answered 2xx before the standby has the first copy."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from tests.promises.receiving.kit import SECRET, signed
from tests.stores.postgres.standby import a_commit_waits, only_on_the_primary, waits_for_the_standby
from tests.support.failover import Pair, ask, synchronous_pair
from tests.support.inboxes import ASYNC, SYNC, execute
from tests.support.pace import scaled_s

from hooklane.model.clock import Instant
from hooklane.model.inbox import Track
from hooklane.receiver import Inbox
from hooklane.receiver.drivers import Driver
from hooklane.receiver.steps import transaction
from hooklane.store.postgres import commits
from hooklane.store.postgres.inbox.store import by_url

NOW = Instant(1_750_000_000_000)


@pytest.fixture(scope="module")
def servers() -> Iterator[Pair]:
    with synchronous_pair() as pair:
        yield pair


@pytest.fixture
def pair(servers: Pair) -> Iterator[Pair]:
    yield servers
    servers.thaw()


@pytest.fixture
def url(pair: Pair) -> Iterator[str]:
    with pair.primary.address.fresh_database() as url:
        yield url
        pair.thaw()


def inbox_on(where: Any, mode: Any, *, is_async: bool) -> Inbox:
    inbox = Inbox(where, mode=mode)

    def handle(event: Any, tx: Any) -> None:
        pass

    async def ahandle(event: Any, tx: Any) -> None:
        pass

    inbox.source("hooklane", [SECRET]).on("order.*")(ahandle if is_async else handle)
    return inbox


@pytest.mark.parametrize("mode", ["durable", "inline"])
@pytest.mark.parametrize("kind", ["postgres-url", "psycopg2", "sqlalchemy-psycopg"])
async def test_a_duplicate_is_answered_once_the_standby_has_the_first(
    pair: Pair, url: str, kind: str, mode: str
) -> None:
    async with SYNC[kind](url) as where:
        inbox = inbox_on(where, mode, is_async=False)
        await asyncio.to_thread(inbox.receive, signed("evt_0"))
        await only_on_the_primary(pair, lambda: asyncio.to_thread(inbox.receive, signed()))

        reply = await waits_for_the_standby(pair, asyncio.to_thread(inbox.receive, signed()))

        assert (reply.status, dict(reply.headers)["hooklane-outcome"]) == (200, "duplicate")
        inbox.close()


@pytest.mark.parametrize("mode", ["durable", "inline"])
@pytest.mark.parametrize("kind", ["postgres-url", "asyncpg-pool", "psycopg-async"])
async def test_a_duplicate_is_answered_to_async_code_once_the_standby_has_the_first(
    pair: Pair, url: str, kind: str, mode: str
) -> None:
    async with ASYNC[kind](url) as where:
        inbox = inbox_on(where, mode, is_async=True)
        await inbox.areceive(signed("evt_0"))
        await only_on_the_primary(pair, lambda: inbox.areceive(signed()))

        reply = await waits_for_the_standby(pair, inbox.areceive(signed()))

        assert (reply.status, dict(reply.headers)["hooklane-outcome"]) == (200, "duplicate")
        await inbox.aclose()


@pytest.mark.parametrize("kind", [kind for kind in SYNC if "sqlite" not in kind])
async def test_an_event_is_answered_503_where_somebody_cancels_the_wait_for_the_standby(
    pair: Pair, url: str, kind: str
) -> None:
    async with SYNC[kind](url) as where:
        inbox = inbox_on(where, "inline", is_async=False)
        await asyncio.to_thread(inbox.receive, signed("evt_0"))

        first = await only_on_the_primary(pair, lambda: asyncio.to_thread(inbox.receive, signed()))

        assert first.status == 503
        pair.thaw()
        assert (await asyncio.to_thread(inbox.receive, signed())).status == 200
        inbox.close()


@pytest.mark.parametrize("kind", [kind for kind in ASYNC if "sqlite" not in kind])
async def test_an_event_is_answered_503_to_async_code_where_somebody_cancels_the_wait_for_the_standby(
    pair: Pair, url: str, kind: str
) -> None:
    async with ASYNC[kind](url) as where:
        inbox = inbox_on(where, "inline", is_async=True)
        await inbox.areceive(signed("evt_0"))

        first = await only_on_the_primary(pair, lambda: inbox.areceive(signed()))

        assert first.status == 503
        pair.thaw()
        assert (await inbox.areceive(signed())).status == 200
        await inbox.aclose()


WARN_AT_COMMIT = """
CREATE TABLE effects (n integer);
CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'stock is low'; RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION warn();
"""


@pytest.mark.parametrize("kind", [kind for kind in SYNC if "sqlite" not in kind])
async def test_a_warning_of_a_trigger_at_the_commit_is_not_taken_for_a_cancelled_wait(
    postgres_url: str, kind: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(WARN_AT_COMMIT)
    async with SYNC[kind](postgres_url) as where:
        inbox = Inbox(where, mode="inline")

        @inbox.source("hooklane", [SECRET]).on("order.*")
        def handle(event: Any, tx: Any) -> None:
            execute(tx, "INSERT INTO effects VALUES (1)")

        assert inbox.receive(signed()).status == 200
        inbox.close()


@pytest.mark.parametrize("kind", [kind for kind in ASYNC if "sqlite" not in kind])
async def test_a_warning_of_a_trigger_at_an_async_commit_is_not_taken_for_a_cancelled_wait(
    postgres_url: str, kind: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(WARN_AT_COMMIT)
    async with ASYNC[kind](postgres_url) as where:
        inbox = Inbox(where, mode="inline")

        @inbox.source("hooklane", [SECRET]).on("order.*")
        async def handle(event: Any, tx: Any) -> None:
            await execute(tx, "INSERT INTO effects VALUES (1)")

        assert (await inbox.areceive(signed())).status == 200
        await inbox.aclose()


@pytest.mark.parametrize("look", ["remember", "turn"])
async def test_what_is_known_by_its_bytes_or_its_state_is_told_once_the_standby_has_it(
    pair: Pair, url: str, look: str
) -> None:
    store = by_url(url)

    def flow() -> Any:
        if look == "turn":
            return store.turn(Track("source", "default", "", "entity"), "token")
        return store.remember("source", "default", b"digest", "evt_1", NOW)

    await only_on_the_primary(pair, lambda: asyncio.to_thread(Driver(store).run, transaction(flow())))

    again = await waits_for_the_standby(pair, asyncio.to_thread(Driver(store).run, transaction(flow())))

    assert again == ((1, False) if look == "turn" else "evt_1")
    store.close()


@pytest.mark.parametrize("kind", ["postgres-url", "asyncpg-pool", "psycopg-async", "sqlalchemy-asyncpg"])
async def test_a_request_that_is_cancelled_does_not_cancel_its_commit(pair: Pair, url: str, kind: str) -> None:
    async with ASYNC[kind](url) as where:
        inbox = inbox_on(where, "inline", is_async=True)
        await inbox.areceive(signed("evt_0"))
        pair.freeze()
        task = asyncio.ensure_future(inbox.areceive(signed()))
        before = await asyncio.to_thread(a_commit_waits, pair)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.5)  # for a request to cancel to arrive, if there were one

        assert a_commit_waits(pair) == before
        pair.thaw()
        reply = await asyncio.wait_for(inbox.areceive(signed()), scaled_s(30))
        assert reply.status == 200
        await inbox.aclose()


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_event_whose_commit_is_not_confirmed_is_answered_503(
    pair: Pair, url: str, is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = inbox_on(url, "durable", is_async=is_async)
    await inbox.areceive(signed("evt_0"))
    monkeypatch.setattr(commits, "COMMIT_WAIT_S", 0.5)
    pair.freeze()

    reply = await (inbox.areceive(signed()) if is_async else asyncio.to_thread(inbox.receive, signed()))

    assert reply.status == 503
    rows = ask(pair.primary, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    assert rows, "the commit goes on by itself"
    pair.thaw()
    await inbox.aclose()
