"""What is no proper HTTP is answered or cut off, and nobody else notices."""

import asyncio
import re
import socket
from typing import Any

import pytest
from tests.promises.sending.api.conftest import KEY, Api, Start
from tests.support.eventually import eventually
from tests.support.http_client import Connection
from tests.support.pace import scaled_s

from hooklane.cli import http_server
from hooklane.server import ingest
from hooklane.server.api import ROUTES
from hooklane.server.api.plans import PlanFilter

HEAD = f"host: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\n".encode()
POST = b"POST /api/v1/events HTTP/1.1\r\n" + HEAD
BODY = b'{"type":"a","data":1}'

SMUGGLED = {
    "length and chunked": POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"content-length: 21\r\ncontent-length: 5\r\n\r\n" + BODY,
    "negative length": POST + b"content-length: -1\r\n\r\n",
    "length with a sign": POST + b"content-length: +21\r\n\r\n" + BODY,
    "length in words": POST + b"content-length: 5, 5\r\n\r\nhello",
    "huge length": POST + b"content-length: 99999999999999999999999\r\n\r\n",
    "bare line feed": b"POST /api/v1/events HTTP/1.1\nhost: x\n\n",
    "chunk garbage": POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    "negative chunk": POST + b"transfer-encoding: chunked\r\n\r\n-5\r\n",
    "chunk too long": POST + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "space before colon": POST + b"content-length : 21\r\n\r\n" + BODY,
    "header without colon": POST + b"nonsense\r\n\r\n",
    "nul in a header": POST + b"x-a: \x00\r\n\r\n",
    "no http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    "http/0.9": b"GET /\r\n\r\n",
    "http/9.9": b"GET / HTTP/9.9\r\n" + HEAD + b"\r\n",
    "unknown method": b"BREW / HTTP/1.1\r\n" + HEAD + b"\r\n",
}


async def test_a_malformed_request_is_refused_and_the_connection_ends(api: Api):
    for name, request in SMUGGLED.items():
        async with Connection(api.port) as stranger:
            stranger.writer.write(request)
            answer = await stranger.answer()

            assert answer.status in (400, 413), name
            assert await stranger.is_closed(), name
        assert (await api.get("/api/v1/events"))["items"] == [], name


async def test_a_huge_header_is_refused_before_it_is_complete(api: Api):
    async with Connection(api.port) as stranger:
        stranger.writer.write(POST + b"x-a: " + b"a" * 1_048_576)
        answer = await stranger.answer()

    assert (answer.status, answer.code) == (431, "headers_too_large")


async def test_very_many_headers_are_refused(api: Api):
    many = b"".join(b"x-%d: 1\r\n" % number for number in range(10_000))
    for path in (b"/api/v1/events", b"/healthz"):
        async with Connection(api.port) as stranger:
            stranger.writer.write(b"POST " + path + b" HTTP/1.1\r\n" + HEAD + many + b"\r\n")
            answer = await stranger.answer()

        assert (answer.status, answer.code) == (431, "headers_too_large"), path


@pytest.mark.parametrize(
    "begun", ["0\r\nx-a: ", "1;x=", "2\r\n{}\r\n0\r\nx-b: 1\r\nx-c: "], ids=["trailer", "extension", "later"]
)
async def test_what_comes_behind_the_chunks_of_a_body_is_bounded(api: Api, publish_path: str, begun: str):
    """The parser gathers a header whole, also one behind the body: without a bound it took memory for half a minute."""
    async with Connection(api.port) as stranger:
        head = b"POST " + publish_path.encode() + b" HTTP/1.1\r\n" + HEAD
        stranger.writer.write(head + b"transfer-encoding: chunked\r\n\r\n" + begun.encode() + b"a" * 1_048_576)
        answer = await stranger.answer()

        assert (answer.status, answer.code) == (431, "headers_too_large")
        assert await stranger.is_closed()
    assert (await api.call("GET", "/healthz")).status == 200


async def test_headers_are_bounded_however_they_are_cut(api: Api):
    for size, status in ((60_000, 202), (70_000, 431), (200_000, 431)):
        request = POST + b"content-length: %d\r\nx-a: %b\r\n\r\n" % (len(BODY), b"a" * size) + BODY
        for first in (40, 30_000, 59_000):
            async with Connection(api.port) as stranger:
                stranger.writer.write(request[:first])
                await asyncio.sleep(0)  # in a segment of its own, as a rule
                stranger.writer.write(request[first:])
                answer = await stranger.answer()

            assert answer.status == status, (size, first)


async def test_a_request_that_does_not_arrive_is_ended(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ingest, "REQUEST_S_MAX", 0.2)

    async def begin(path: str, begun: str) -> None:
        async with api.connect() as slow:
            whole = slow.request("POST", path, BODY)
            slow.writer.write({"nothing": b"", "headers": whole[:40], "body": whole[:-1]}[begun])
            answer = await slow.answer()

            assert (answer.status, answer.code) == (408, "request_timeout"), (path, begun)
            assert await slow.is_closed(), (path, begun)

    async with asyncio.TaskGroup() as clients:
        for path in ("/api/v1/events", "/api/v1/endpoints"):
            for begun in ("nothing", "headers", "body"):
                clients.create_task(begin(path, begun))


async def test_slow_clients_do_not_slow_others(api: Api):
    slow = [await Connection(api.port).__aenter__() for _ in range(200)]
    for one in slow:
        one.writer.write(POST[:20])

    async with asyncio.timeout(scaled_s(5)):
        answers = [await api.call("POST", "/api/v1/events", BODY) for _ in range(50)]

    assert {answer.status for answer in answers} == {202}
    for one in slow:
        one.writer.close()


async def test_an_idle_connection_is_ended(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ingest, "IDLE_S_MAX", 0.1)
    assert (await api.call("POST", "/api/v1/events", BODY)).status == 202

    assert await api.connection.is_closed()


async def test_a_client_that_leaves_before_its_answer_harms_nobody(api: Api):
    for _ in range(20):
        async with api.connect() as hasty:
            hasty.writer.write(hasty.request("POST", "/api/v1/events", BODY) * 5)
            await hasty.writer.drain()

    assert (await api.call("POST", "/api/v1/events", BODY)).status == 202


async def test_a_request_in_part_behind_very_many_others_is_read_to_its_end(api: Api, publish_path: str):
    """Reading stopped while 64 waited, and went on when none did: the one in part, which waited too, never came."""
    whole = api.connection.request("POST", publish_path, {"type": "a", "data": 1, "key": "k"})
    many = 100 if publish_path == "/api/v1/events" else ingest.PENDING_MAX
    for cut in (20, 60, len(whole) - 5):
        api.connection.writer.write(whole * many + whole[:cut])
        statuses = {(await api.connection.answer()).status for _ in range(many)}
        api.connection.writer.write(whole[cut:])

        assert statuses | {(await api.connection.answer()).status} == {202}, cut


async def test_so_many_questions_wait_on_one_connection_and_no_more(api: Api):
    """Each took 2.5 KiB, and three thousand fit into what is read at a time: of strangers too."""
    question = api.connection.request("GET", "/healthz")
    async with api.connect({}) as stranger:
        stranger.writer.write(question * 2_000)
        answers = [await stranger.answer() for _ in range(ingest.PENDING_MAX + 2)]

        assert {one.status for one in answers[:-1]} == {200}
        assert (answers[-1].status, answers[-1].code) == (429, "too_many_requests")
        assert await stranger.is_closed()


async def test_the_work_on_a_question_ends_with_its_client_also_where_others_are_pipelined_behind_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def takes_its_time(tenant: str) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr(api.server.services.store, "event_types", takes_its_time)
    async with api.connect() as hasty:
        hasty.writer.write(hasty.request("GET", "/api/v1/types") + hasty.request("GET", "/healthz"))
        await begun.wait()
    async with asyncio.timeout(scaled_s(10)):
        await ended.wait()


async def test_a_client_that_pipelines_without_end_is_answered_in_order(api: Api, endpoint: Any):
    many = 5_000  # more than is read at a time
    request = api.connection.request("POST", "/api/v1/events", {"type": "a", "data": 1, "key": "k"})
    api.connection.writer.write(request * many)

    seqs = [(await api.connection.answer()).json["lanes"][0]["seq"] for _ in range(many)]

    assert seqs == list(range(1, many + 1))


async def hangs_on(api: Api, requests: bytes) -> socket.socket:
    """A client who sends *requests* and reads no answer."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    one.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(one, ("127.0.0.1", api.port))
    await loop.sock_sendall(one, requests)
    return one


def other_ends(api: Api, sockets: list[socket.socket]) -> list[Any]:
    """The server's sides of *sockets*."""
    mine = {one.getsockname() for one in sockets}
    return [one for one in api.server.server.server_state.connections if one.client in mine]


@pytest.mark.parametrize("hurry", [False, True], ids=["alone", "others wait"])
async def test_a_client_that_does_not_read_its_answers_is_cut_off(
    api: Api, monkeypatch: pytest.MonkeyPatch, hurry: bool
):
    """To close such a connection is to wait until all is read, so each took a place and its answers for ever."""
    for _ in range(12):
        events = [{"type": "a", "data": "x" * 250_000} for _ in range(4)]
        assert (await api.call("POST", "/api/v1/events/batch", {"events": events})).status == 202
    one_long = b"GET /api/v1/events?data=true HTTP/1.1\r\n" + HEAD + b"\r\n"
    many_short = b"GET /api/openapi.json HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 60
    idle = await hangs_on(api, b"GET /api/v1/stream HTTP/1.1\r\n" + HEAD + b"\r\n")
    readers = [await hangs_on(api, requests) for requests in (one_long, many_short)]

    async def has_begun() -> bool:
        return all(one.transport.get_write_buffer_size() for one in other_ends(api, readers))

    async def is_gone() -> bool:
        return not other_ends(api, readers)

    try:
        await eventually(has_begun, within_s=30)
        monkeypatch.setattr(ingest, "REQUEST_S_HURRY" if hurry else "REQUEST_S_MAX", 0.1)
        if hurry:
            monkeypatch.setattr(api.server.server.listeners[0], "_most", 1)
        await eventually(is_gone, within_s=30)

        assert len(other_ends(api, [idle])) == 1, "who has nothing to read is let be"
    finally:
        for one in (idle, *readers):
            one.close()


async def test_a_client_that_reads_slowly_gets_all_of_its_answer(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ingest, "REQUEST_S_MAX", scaled_s(1.0))
    monkeypatch.setattr(http_server, "SWEEP_S", 0.01)
    events = [{"type": "a", "data": "x" * 250_000} for _ in range(16)]
    for _ in range(4):
        assert (await api.call("POST", "/api/v1/events/batch", {"events": events})).status == 202
    loop = asyncio.get_running_loop()
    asked = b"GET /api/v1/events?data=true&limit=64 HTTP/1.1\r\n" + HEAD + b"connection: close\r\n\r\n"
    slow = await hangs_on(api, asked)
    read = 0
    with slow:
        while data := await loop.sock_recv(slow, 65_536):
            read += len(data)
            await asyncio.sleep(0.005)  # a client that takes its time

    assert read > 64 * 250_000


async def test_an_upgrade_is_not_taken_up(api: Api):
    upgrade = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-key": "eA==",
        "sec-websocket-version": "13",
    }
    answer = await api.call("GET", "/healthz", headers=upgrade)

    assert answer.status == 200


async def test_a_nul_in_a_path_names_nothing_and_in_a_plan_it_is_refused(start: Start, shared_db: str):
    api = await start(db=shared_db)
    asked = [(route.method, route.path) for route in ROUTES if "{" in route.path]
    bodies = [{"filter": {name: "a\0"}} for name in PlanFilter.__struct_fields__] + [{"ids": ["evt_\0"]}]

    by_path = [await api.call(method, re.sub(r"\{\w+\}", "%00", path), {}) for method, path in asked]
    by_plan = [await api.call("POST", "/api/v1/plans", {"op": "replay", **body}) for body in bodies]

    assert {404} == {answer.status for answer in by_path}
    assert {(422, "invalid_body")} == {(answer.status, answer.code) for answer in by_plan}
