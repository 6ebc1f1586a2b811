"""The same server on PostgreSQL: a change of URL and nothing else."""

import asyncio
from typing import Any

import asyncpg
import pytest
from tests.promises.sending.api.test_recovery_api import blocked, seqs
from tests.support.eventually import eventually
from tests.support.pace import scaled_s
from tests.support.receiver import Sink

from hooklane.errors import StoreError
from hooklane.sender import relay


async def test_an_event_is_published_delivered_blocked_replayed_and_skipped(postgres_url: str, start: Any, sink: Sink):
    api = await start(db=postgres_url)
    endpoint = await api.endpoint(sink.url(), attempts_max=2, backoff_ms=20)
    made = await api.publish(data={"b": 1, "a": 2.5}, key="ключ/1", id="mine-1")
    again = await api.publish(data={"b": 1, "a": 2.5}, key="ключ/1", id="mine-1")
    [first] = await sink.arrived(1)

    assert made == again
    assert (first.headers["webhook-id"], first.headers["x-seq"]) == ("mine-1", "1")
    assert (
        await api.call("POST", "/api/v1/events", {"type": "a", "data": 1, "id": "mine-1"})
    ).code == "idempotency_conflict"
    nul = await api.call("POST", "/api/v1/events", b'{"type":"a","data":"\\u0000","key":"k"}')
    assert nul.status == 202
    assert (await api.call("POST", "/api/v1/events", b'{"type":"a","data":1,"key":"\\u0000"}')).code == "invalid_key"

    lane = await blocked(api, sink, "A")
    await api.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/replay")
    requests = await sink.arrived(
        4, where=lambda one: one.headers.get("x-key") == "A" and one.headers["x-attempt"] == "1"
    )
    assert seqs(requests) == ["1", "1", "2", "3"]
    lane = await blocked(api, sink, "B", behind=1)
    await api.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/skip", {"note": "x"})
    [after] = await sink.arrived(
        1, where=lambda one: (one.headers.get("x-key"), one.headers.get("x-seq")) == ("B", "2")
    )
    assert after.headers["x-prev-seq"] == "0"

    async def counted() -> bool:  # counts may be a few seconds old
        return bool((await api.get(f"/api/v1/endpoints/{endpoint['id']}"))["ledger"]["skipped"] == 1)

    assert await eventually(counted)
    assert (await api.call("GET", "/metrics")).status == 200


async def test_two_servers_share_the_work(postgres_url: str, start: Any, sink: Sink):
    first = await start(db=postgres_url)
    second = await start(db=postgres_url)
    await first.endpoint(sink.url())
    for number in range(20):
        await (first if number % 2 else second).publish(data=number, key=f"k{number % 5}")

    requests = await sink.arrived(20)

    for key in range(5):
        mine = [request for request in requests if request.headers["x-key"] == f"k{key}"]
        assert seqs(mine) == ["1", "2", "3", "4"]


async def test_what_is_published_after_a_pause_was_answered_is_not_sent(
    postgres_url: str, start: Any, sink: Sink, monkeypatch: pytest.MonkeyPatch
):
    """The worker hears of publishes at once, and of endpoints by a poll, which may take its time."""
    monkeypatch.setattr(relay, "HEARD_WAIT_S", scaled_s(20))
    api = await start(db=postgres_url)
    endpoint = await api.endpoint(sink.url())
    await api.publish(key="A")
    await sink.arrived(1)
    connection = await asyncpg.connect(postgres_url)

    async with connection.transaction():
        await connection.execute("LOCK TABLE hooklane.redelivery IN ACCESS EXCLUSIVE MODE")  # polls read it
        pausing = asyncio.create_task(api.call("POST", f"/api/v1/endpoints/{endpoint['id']}/pause"))
        await asyncio.wait([pausing], timeout=scaled_s(1))
        too_early = pausing.done()
    paused = await pausing
    await connection.close()
    await api.publish(key="A")
    lane = (await api.get("/api/v1/lanes"))["items"][0]

    assert (too_early, paused.status, lane["state"], lane["head"]) == (False, 200, "paused", 2)
    assert len(sink.requests) == 1


async def test_a_database_that_is_not_there_is_told_in_one_line(start: Any):
    with pytest.raises((StoreError, ExceptionGroup)) as raised:
        async with asyncio.timeout(scaled_s(20)):
            await start(db="postgresql://127.0.0.1:9/nowhere")

    assert "\n" not in str(raised.value)
