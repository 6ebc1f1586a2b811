import asyncio
import http.client
import threading
import time

import aiohttp
import pytest
from tests.support.pace import scaled_s
from tests.support.receiver import Answer, Drop, Request, Sink


def post(sink: Sink, path: str = "/hook", body: bytes = b"{}", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", sink.port, timeout=scaled_s(10))
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_request_is_recorded_as_it_came(sink: Sink) -> None:
    before = time.monotonic()
    post(sink, "/hook?x=1", b"\x00raw", **{"X-Seq": "7"})

    [request] = sink.requests
    assert (request.method, request.path, request.body) == ("POST", "/hook?x=1", b"\x00raw")
    assert request.headers["x-seq"] == "7"
    assert ("X-Seq", "7") in request.raw_headers
    assert request.settled_at is not None
    assert before <= request.arrived_at <= request.settled_at


def test_answers_follow_the_script_and_then_the_function(sink: Sink) -> None:
    sink.follow([Answer(status=503, headers={"retry-after": "1"}), Answer(status=429)])
    sink.react = lambda request: Answer(status=202 if request.path == "/good" else 410)

    assert [post(sink, path) for path in ("/good", "/good", "/good", "/bad")] == [503, 429, 202, 410]


async def test_a_request_is_held_until_the_test_lets_go_while_others_pass(sink: Sink) -> None:
    gate = threading.Event()
    sink.react = lambda request: Answer(once=gate) if request.path == "/slow" else Answer()
    slow = asyncio.create_task(asyncio.to_thread(post, sink, "/slow"))
    await sink.arrived(1)

    assert await asyncio.to_thread(post, sink, "/quick") == 200
    assert not slow.done()
    gate.set()
    assert await slow == 200


@pytest.mark.parametrize("reset", [False, True])
def test_a_dropped_connection_gives_no_answer_but_is_recorded(sink: Sink, reset: bool) -> None:
    sink.follow([Drop(reset=reset)])

    with pytest.raises(ConnectionResetError if reset else http.client.RemoteDisconnected):
        post(sink)

    assert len(sink.requests) == 1
    assert post(sink) == 200


async def test_connections_are_kept_alive(sink: Sink) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            async with session.post(sink.url(), data=b"x") as response:
                assert response.status == 200

    assert len({request.peer for request in sink.requests}) == 1


async def test_waiting_ends_with_the_last_of_the_requests(sink: Sink) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/a", "/b", "/a"):
            (await session.post(sink.url(path))).release()

    def is_a(request: Request) -> bool:
        return request.path == "/a"

    assert [request.path for request in await sink.arrived(2, where=is_a)] == ["/a", "/a"]
    with pytest.raises(AssertionError, match=r"for 3 requests, 2 of 3 fit: \['POST /a'"):
        await sink.arrived(3, where=is_a, within_s=0.05)


async def test_closing_does_not_wait_for_slow_answers() -> None:
    with Sink() as sink:
        sink.follow([Answer(after_s=60)])
        caller = asyncio.create_task(asyncio.to_thread(post, sink))
        await sink.arrived(1)
        started = time.monotonic()

    with pytest.raises(http.client.RemoteDisconnected):
        await caller
    assert time.monotonic() - started < scaled_s(5)
