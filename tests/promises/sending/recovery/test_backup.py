"""Backup and restore: the ledger adds up afterwards, and only what was delivered since the backup comes twice."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest
from tests.promises.sending.recovery.wire import OK, Sent, Wire
from tests.support.pace import scaled_s
from tests.support.postgres import installation
from tests.support.running_sender import SECRET

from hooklane.core.audit import ChainCheck
from hooklane.core.fanout import places
from hooklane.model.audit import Act
from hooklane.model.clock import Instant, wall_now
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Timings
from hooklane.sender.publisher import Publisher
from hooklane.sender.relay import Relay
from hooklane.store.open import Outbox, outbox_store
from hooklane.store.outbox import Draft, StoreOptions

KEYS = 20
BUSY = Answer(503, Timings(0.1))

# What docs/how-to/backup-and-restore.md tells people to do, word for word but for the names.
SQLITE_BACKUP = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]), pages=50)"
POSTGRES_AFTER_A_LOGICAL_RESTORE = (
    "UPDATE hooklane.lane_event SET xid = '3'; UPDATE hooklane.loose SET xid = '3';"
    " UPDATE hooklane.recovered SET xid = '3';"
)


@contextlib.asynccontextmanager
async def sending(url: str, wire: Wire) -> AsyncIterator[tuple[Outbox, Publisher]]:
    store = outbox_store(url, StoreOptions(placer=places))
    await store.open()
    relay = Relay(store, wire, poll_ms=20)
    publisher = Publisher(store, relay.feed)
    running = asyncio.create_task(relay.run())
    await relay.ready()
    try:
        yield store, publisher
    finally:
        relay.stop()
        await running
        await publisher.close()
        await store.close()


async def traffic(publisher: Publisher, prefix: str, many: int) -> list[str]:
    ids = []
    for n in range(many):
        event = Event(f"{prefix}{n}", "order.changed", f"k{n % KEYS}", b'{"n":%d}' % n, wall_now())
        await publisher.publish(Draft(event))
        ids.append(event.id)
    return ids


def sqlite_urls(tmp_path):
    return f"sqlite:///{tmp_path}/hooklane.db", f"sqlite:///{tmp_path}/restored.db"


async def backup_sqlite(source: str, copy: str) -> None:
    paths = [url.removeprefix("sqlite:///") for url in (source, copy)]
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SQLITE_BACKUP, *paths)
    assert await asyncio.wait_for(process.wait(), scaled_s(30)) == 0


async def backup_postgres(source: str, copy: str, folder) -> None:
    tools = installation().bin
    dump = str(folder / "hooklane.dump")
    parts = urlsplit(source)
    env = {**os.environ, "PGPASSWORD": parts.password or ""}
    process = await asyncio.create_subprocess_exec(
        tools / "pg_dump", "--format=custom", "--schema=hooklane", f"--file={dump}", source, env=env
    )
    assert await asyncio.wait_for(process.wait(), scaled_s(60)) == 0
    await asyncio.to_thread(
        subprocess.run,
        [tools / "pg_restore", "--no-owner", f"--dbname={copy}", dump],
        check=True,
        env=env,
        timeout=scaled_s(60),
    )
    connection = await asyncpg.connect(copy)
    await connection.execute(POSTGRES_AFTER_A_LOGICAL_RESTORE)
    await connection.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def urls(request, tmp_path):
    """Where the sender works, and where its backup is restored to."""
    if request.param == "sqlite":
        yield (*sqlite_urls(tmp_path), backup_sqlite)
        return
    source = request.getfixturevalue("postgres_url")
    name = f"restored_{os.getpid()}"
    admin = await asyncpg.connect(source)
    await admin.execute(f"CREATE DATABASE {name}")
    copy = source.rpartition("/")[0] + f"/{name}"

    async def backup(source: str, copy: str) -> None:
        await backup_postgres(source, copy, tmp_path)

    yield source, copy, backup
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


async def test_f56_a_backup_taken_while_writing_is_whole_and_only_later_deliveries_come_twice(urls):
    source, copy, backup = urls
    first = Wire(lambda sent: BUSY if sent.key == "k7" else OK)
    endpoint = Endpoint(
        id="ep_a",
        url="https://a.example",
        created_at=Instant(1),
        keys=(SigningKey(SECRET),),
        backoff_ms=60_000,
        backoff_cap_ms=60_000,
    )
    async with sending(source, first) as (store, publisher):
        act = Act(tenant="default", at=wall_now(), actor="ann", action="endpoint.created", subject="ep_a")
        await store.save_endpoint(endpoint, expect=None, act=act)
        before = await traffic(publisher, "before", 300)
        while len({one.id for one in first.sent}) < 200:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        known = len(first.sent)
        during, _ = await asyncio.gather(traffic(publisher, "during", 300), backup(source, copy))
        await traffic(publisher, "after", 60)
    by_id = {one.id: one for one in first.sent}

    second = Wire()
    async with sending(copy, second) as (store, _):
        assert all(line.is_balanced for line in await store.check_ledger())
        chain = await store.audit_chain(0, 100)
        check = ChainCheck(chain.anchor)
        check.take(chain.lines)
        assert check.finish(chain.head) is None
        (found,) = await store.endpoints()
        quick = Endpoint(id="ep_a", url=found.url, created_at=found.created_at, keys=found.keys, backoff_ms=1)
        await store.save_endpoint(quick, expect=found)
        lane = await store.lane("default", "ep_a", "k7")
        assert lane is not None
        assert lane.next_at is not None, "the wait of a failed head is kept"
        kept = [id for id in (*before, *during) if await store.event("default", id) is not None]
        held = {one.event_id for one in await store.lane_deliveries(lane.lane_id, 1, 1_000)}
        await wait_for(second, lambda: {one.id for one in second.sent} | set(by_id) >= set(kept) - held)
        assert all(line.is_balanced for line in await store.check_ledger())

    assert set(before) <= set(kept), "what was accepted before the backup is in it"
    twice = [one for one in second.sent if one.id in by_id]
    for one in twice:
        assert (one.seq, one.key, one.body) == (by_id[one.id].seq, by_id[one.id].key, by_id[one.id].body)
    early = {one.id for one in first.sent[:known]} - held
    assert len([one for one in twice if one.id in early]) <= KEYS, "at most what was in flight when the backup began"
    in_order(second.sent)


async def wait_for(wire: Wire, holds) -> None:
    async with asyncio.timeout(scaled_s(20)):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def in_order(sent: list[Sent]) -> None:
    last: dict[str, int] = {}
    for one in sent:
        assert one.key is not None
        assert one.seq is not None
        if one.key in last:
            assert one.seq == last[one.key] + 1
        last[one.key] = one.seq
