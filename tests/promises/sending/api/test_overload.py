"""More is published than the store can take: memory is bounded, refusals are quick, service is normal right after."""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.promises.sending.api.conftest import KEY, Api
from tests.support.eventually import eventually
from tests.support.http_client import Answer as Reply
from tests.support.http_client import Connection
from tests.support.pace import scaled_s

from hooklane.sender import publisher as publishing
from hooklane.server.arriving import ArrivingBodies, ArrivingBody

ROOM = 1024 * 1024
DATA = "x" * 20_000
SIZE = len(DATA) + 2 + publishing.DRAFT_BYTES
CLIENTS = 10
TO_ANOTHER = {"hooklane-tenant": "other"}


@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.soak)])
async def test_ten_times_too_much_is_refused_quickly_and_what_was_accepted_is_stored(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
):
    monkeypatch.setattr(publishing, "QUEUE_BYTES_MAX", 2 * ROOM)  # of which one tenant may fill half
    publisher = api.server.services.publisher
    assert (await api.call("POST", "/api/v1/tenants", {"id": "other"})).status == 201
    waits: list[float] = []

    async def flood(client: Connection) -> list[Reply]:
        replies = []
        for _ in range(10 * ROOM // len(DATA) // CLIENTS):
            began = time.monotonic()
            replies.append(await client.call("POST", "/api/v1/events", {"type": "a", "data": DATA}))
            waits.append(time.monotonic() - began)
        return replies

    async def is_full() -> bool:
        return publisher.waiting_bytes + SIZE > ROOM

    async def has_more() -> bool:
        return publisher.waiting_bytes > ROOM

    async with AsyncExitStack() as stack:
        first = [await stack.enter_async_context(api.connect()) for _ in range(ROOM // SIZE)]
        crowd = [await stack.enter_async_context(api.connect()) for _ in range(CLIENTS)]
        other = await stack.enter_async_context(api.connect())
        grown: list[int] = []
        for _ in range(rounds):
            held = sqlite3.connect(tmp_path / "hooklane.db", isolation_level=None)
            held.execute("BEGIN IMMEDIATE")  # the store takes nothing for now
            for client in first:
                client.writer.write(client.request("POST", "/api/v1/events", {"type": "a", "data": DATA}))
            assert await eventually(is_full)
            refused = [one for some in await asyncio.gather(*map(flood, crowd)) for one in some]
            most = publisher.waiting_bytes
            other.writer.write(other.request("POST", "/api/v1/events", {"type": "a", "data": DATA}, TO_ANOTHER))
            assert await eventually(has_more)
            held.execute("ROLLBACK")
            held.close()
            accepted = [await client.answer() for client in first]
            assert (await other.answer()).status == 202, "a flood of one tenant leaves room for the others"
            after = await crowd[0].call("POST", "/api/v1/events", {"type": "a", "data": DATA})

            assert {(one.status, one.code, one.headers["retry-after"]) for one in refused} == {(503, "overloaded", "2")}
            assert {one.status for one in (*accepted, after)} == {202}, "what was let in is stored, and more is taken"
            assert most <= ROOM
            assert publisher.waiting_bytes == 0
            grown.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    stored = await api.server.services.store.stored_bytes("default")
    assert stored == rounds * (len(first) + 1) * (len(DATA) + 2)
    assert grown[-1] - grown[0] < 64 * 1024, "KiB: no round takes more memory than the first"
    # By the slowest tenth, as one stall of the machine holds up all ten clients.
    p90 = sorted(waits)[int(len(waits) * 0.9)]
    assert p90 < scaled_s(0.05), f"p90 of {len(waits)} refusals: {p90 * 1000:.0f} ms"


def test_where_there_is_no_room_what_has_arrived_for_longest_gives_way():
    bodies, given_up = ArrivingBodies(100), list[str]()
    slow, slower, quick = (
        ArrivingBody(lambda name=name: given_up.append(name)) for name in ("slow", "slower", "quick")
    )

    assert bodies.grow(slow, 40)
    assert bodies.grow(slower, 50)
    bodies.complete(slower)  # it is being answered now
    assert bodies.grow(quick, 50)
    assert given_up == ["slow"]
    assert bodies.held_bytes == 100
    assert not bodies.grow(quick, 10), "and where all others are being answered, the one that grows"
    bodies.drop(slower)
    bodies.drop(slow)
    assert bodies.held_bytes == 0


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/events/batch"])
async def test_bodies_that_arrive_slowly_hold_no_more_than_their_room_and_keep_no_client_out(api: Api, path: str):
    services = api.server.services
    services.arriving = ArrivingBodies(ROOM)
    body = json.dumps(
        {"type": "a", "data": DATA} if path.endswith("events") else {"events": [{"type": "a", "data": DATA}]}
    )
    whole = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\n"
    whole += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    slow = [await asyncio.open_connection("127.0.0.1", api.port) for _ in range(3 * ROOM // len(DATA))]
    most = 0
    for _, writer in slow:
        writer.write(whole[:-10].encode())  # all but its end
    async with api.connect() as client:
        for _ in range(20):
            answer = await client.call("POST", path, json.loads(body))
            assert answer.status == 202, answer
            most = max(most, services.arriving.held_bytes)

        async def all_have_begun() -> bool:
            return services.arriving.held_bytes > ROOM - 2 * len(DATA)

        await eventually(all_have_begun)
        assert (await client.call("POST", path, json.loads(body))).status == 202
    assert most <= ROOM
    for _, writer in slow:
        writer.write(whole[-10:].encode())
    told = [await reader.readuntil(b"\r\n") for reader, _ in slow]
    for _, writer in slow:
        writer.close()

    assert {line.split()[1] for line in told} == {b"202", b"503"}
    assert told[-1].split()[1] == b"202"

    async def all_gone() -> bool:
        return services.arriving.held_bytes == 0

    await eventually(all_gone)
