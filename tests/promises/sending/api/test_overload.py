"""More is published than the store can take: memory is bounded, refusals are quick, service is normal right after."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.promises.sending.api.conftest import Api
from tests.support.eventually import eventually
from tests.support.http_client import Answer as Reply
from tests.support.http_client import Connection
from tests.support.pace import scaled_s

from hooklane.sender import publisher as publishing

ROOM = 1024 * 1024
DATA = "x" * 20_000
CLIENTS = 10


async def test_ten_times_too_much_is_refused_quickly_and_what_was_accepted_is_stored(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(publishing, "QUEUE_BYTES_MAX", ROOM)
    publisher = api.server.services.publisher
    held = sqlite3.connect(tmp_path / "hooklane.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")  # the store takes nothing for now
    waits: list[float] = []

    async def flood(client: Connection) -> list[Reply]:
        replies = []
        for _ in range(10 * ROOM // len(DATA) // CLIENTS):
            began = time.monotonic()
            replies.append(await client.call("POST", "/api/v1/events", {"type": "a", "data": DATA}))
            waits.append(time.monotonic() - began)
        return replies

    async def is_full() -> bool:
        return publisher.waiting_bytes + len(DATA) > ROOM

    async with AsyncExitStack() as stack:
        first = [await stack.enter_async_context(api.connect()) for _ in range(ROOM // len(DATA))]
        for client in first:
            client.writer.write(client.request("POST", "/api/v1/events", {"type": "a", "data": DATA}))
        assert await eventually(is_full)
        crowd = [await stack.enter_async_context(api.connect()) for _ in range(CLIENTS)]
        refused = [one for some in await asyncio.gather(*map(flood, crowd)) for one in some]
        most = publisher.waiting_bytes
        held.execute("ROLLBACK")
        held.close()
        accepted = [await client.answer() for client in first]
        after = await crowd[0].call("POST", "/api/v1/events", {"type": "a", "data": DATA})

    assert {(one.status, one.code, one.headers["retry-after"]) for one in refused} == {(503, "overloaded", "2")}
    assert {one.status for one in (*accepted, after)} == {202}, "what was let in is stored, and more is taken"
    assert most <= ROOM
    assert publisher.waiting_bytes == 0
    assert await api.server.services.store.stored_bytes("default") == (len(accepted) + 1) * (len(DATA) + 2)
    p99 = sorted(waits)[int(len(waits) * 0.99)]
    assert p99 < scaled_s(0.25), f"p99 of {len(waits)} refusals: {p99 * 1000:.0f} ms"
