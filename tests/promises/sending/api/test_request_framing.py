"""Where one request ends and the next begins is never in doubt: a body stays a body, whatever its head asks for."""

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from tests.promises.sending.api.conftest import KEY, Api
from tests.support.eventually import eventually
from tests.support.http_client import Answer, Connection

HEAD = f"host: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\n"
POST = f"POST /api/v1/events HTTP/1.1\r\n{HEAD}"
GET = f"GET /healthz HTTP/1.1\r\n{HEAD}\r\n".encode()
UPGRADES = {
    "h2c": "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
    "websocket": "connection: keep-alive, upgrade\r\nupgrade: websocket\r\nsec-websocket-key: eA==\r\n",
    "anything": "upgrade: foo/2, bar\r\nconnection: upgrade\r\n",
    "twice": "upgrade: h2c\r\nupgrade: websocket\r\nconnection: upgrade\r\nconnection: keep-alive\r\n",
}


def event(type_: str) -> bytes:
    return b'{"type":"%b","data":1}' % type_.encode()


def post(body: bytes, fields: str = "", *, path: str = "/api/v1/events", chunked: bool = False) -> tuple[bytes, bytes]:
    """The head and the body of a publish, as they go over the wire."""
    framing = "transfer-encoding: chunked\r\n" if chunked else f"content-length: {len(body)}\r\n"
    head = f"POST {path} HTTP/1.1\r\n{HEAD}{fields}{framing}\r\n".encode()
    half = len(body) // 2
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:half], body[half:]) if piece)
    return head, pieces + b"0\r\n\r\n" if chunked else body


async def in_pieces(api: Api, connection: Connection, pieces: Iterable[bytes]) -> None:
    """Write each piece only after the server has read the one before."""
    protocol = await _other_end(api, connection)
    for piece in pieces:
        before = protocol.bytes_seen
        connection.writer.write(piece)

        async def was_read(after: int = before + len(piece)) -> bool:
            return bool(protocol.bytes_seen >= after)

        await eventually(was_read, within_s=30)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Nothing can be committed to the database at *path* meanwhile."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def _other_end(api: Api, connection: Connection) -> Any:
    """The server's side of *connection*, which counts what it was given."""
    mine = connection.writer.get_extra_info("sockname")

    async def found() -> Any:
        return next((one for one in api.server.server.server_state.connections if one.client == mine), None)

    return _counting(await eventually(found, within_s=30))


def _counting(protocol: Any) -> Any:
    if not hasattr(protocol, "bytes_seen"):
        protocol.bytes_seen = 0
        received = protocol.data_received

        def count(data: bytes) -> None:
            received(data)
            protocol.bytes_seen += len(data)

        protocol.data_received = count
    return protocol


async def types_stored(api: Api) -> list[str]:
    items = (await api.get("/api/v1/events"))["items"]
    return sorted(item["type"] for item in items)


def cut(request: bytes, parts: int) -> list[bytes]:
    size = -(-len(request) // parts)
    return [request[at : at + size] for at in range(0, len(request), size)]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_the_body_of_a_request_that_asks_for_an_upgrade_is_its_body(api: Api, publish_path: str, chunked: bool):
    inner = b"".join(post(event("smuggled")))
    for name, upgrade in UPGRADES.items():
        head, body = post(b'{"type":"outer","data":1,"key":"%b"}' % b"k", upgrade, path=publish_path, chunked=chunked)
        hidden_head, hidden = post(inner, upgrade, path=publish_path, chunked=chunked)
        async with api.connect() as client:
            await in_pieces(api, client, [head, *cut(body, 3)])
            published = await client.answer()
            await in_pieces(api, client, [hidden_head, *cut(hidden, 3)])
            refused = await client.answer()
            after = await client.call("GET", "/healthz")

        assert (published.status, refused.status, after.status) == (202, 400, 200), name
        assert refused.code == "invalid_json", name
    assert await types_stored(api) == ["outer"] * len(UPGRADES)


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
async def test_pipelined_requests_that_ask_for_an_upgrade_are_answered_one_by_one(api: Api, parts: int, chunked: bool):
    requests = [
        b"".join(post(event(f"t{number}"), upgrade, chunked=chunked))
        for number, upgrade in enumerate(UPGRADES.values())
    ]
    line = b"".join([requests[0], GET, *requests[1:], b"".join(post(event("plain")))])
    async with api.connect() as client:
        await in_pieces(api, client, cut(line, parts))
        answers = [await client.answer() for _ in range(len(requests) + 2)]

    assert [answer.status for answer in answers] == [202, 200, 202, 202, 202, 202]
    assert [answer.json["type"] for answer in answers if answer.status == 202] == ["t0", "t1", "t2", "t3", "plain"]
    assert await types_stored(api) == ["plain", "t0", "t1", "t2", "t3"]


async def test_a_large_body_of_a_request_that_asks_for_an_upgrade_is_published(api: Api, publish_path: str):
    body = b'{"type":"large","data":"%b"}' % (b"x" * 200_000)
    async with api.connect() as client:
        client.writer.write(b"".join(post(body, UPGRADES["h2c"], path=publish_path)))
        assert (await client.answer()).status == 202
        assert (await client.call("GET", "/healthz")).status == 200


async def test_an_upgrade_that_asks_first_whether_to_send_its_body_is_told_to(api: Api):
    head, body = post(event("asked"), UPGRADES["h2c"] + "expect: 100-continue\r\n")
    async with api.connect() as client:
        client.writer.write(head)
        assert (await client.answer()).status == 100
        client.writer.write(body)
        assert (await client.answer()).status == 202


async def test_curl_publishes_whichever_version_it_asks_for(api: Api):
    curl = shutil.which("curl")
    assert curl is not None, "install curl"
    url = f"http://127.0.0.1:{api.port}/api/v1/events"
    key = f"authorization: Bearer {KEY}"
    for version in ("--http2", "--http1.1", "--http1.0"):
        command = (curl, "-sS", version, "-H", key, "-H", "content-type: application/json", "-w", "%{http_code}", url)
        process = await asyncio.create_subprocess_exec(
            *command, "-d", event("curl").decode(), "-o", "/dev/null", stdout=-1, stderr=-1
        )
        out, err = await process.communicate()

        assert (out, err) == (b"202", b""), version
    assert await types_stored(api) == ["curl"] * 3


async def test_a_tunnel_is_refused_and_nothing_behind_it_is_read(api: Api):
    async with api.connect() as client:
        client.writer.write(
            f"CONNECT 127.0.0.1:80 HTTP/1.1\r\n{HEAD}\r\n".encode() + b"".join(post(event("tunnelled")))
        )
        answer = await client.answer()

        assert (answer.status, answer.code) == (405, "method_not_allowed")
        assert await client.is_closed()
    assert await types_stored(api) == []


LAST = {
    "http/1.1": f"{POST}connection: close\r\ncontent-length: 24\r\n\r\n",
    "http/1.0": f"POST /api/v1/events HTTP/1.0\r\n{HEAD}content-length: 24\r\n\r\n",
    "with an upgrade": f"{POST}connection: close, upgrade\r\nupgrade: h2c\r\ncontent-length: 24\r\n\r\n",
}


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
@pytest.mark.parametrize("head", LAST.values(), ids=LAST.keys())
async def test_nothing_is_read_behind_a_request_that_is_the_last(api: Api, head: str, at_once: bool):
    last = head.encode() + event("last").ljust(24)
    behind = b"".join(post(event("behind")))
    async with api.connect() as client:
        with locked(api.server.services.store.path):  # so that the answer, and the end, cannot come before all is read
            await in_pieces(api, client, [last + behind] if at_once else [last, behind])
        answer = await client.answer()

        assert (answer.status, answer.headers["connection"]) == (202, "close")
        assert await client.is_closed()
    assert await types_stored(api) == ["last"]


async def test_nothing_is_read_behind_a_request_that_was_refused_as_too_large(api: Api):
    large = b"".join(post(b"x" * 300_000))
    async with api.connect() as client:
        client.writer.write(large + b"".join(post(event("behind"))))
        answer = await client.answer()

        assert (answer.status, answer.code) == (413, "too_large")
        assert await client.is_closed()
    assert await types_stored(api) == []


FIRST = {
    "fast": (b"".join(post(event("first"))), 202),
    "app": (b"".join(post(event("first"), path="/api/v1/events?")), 202),
    "read": (f"GET /api/v1/events HTTP/1.1\r\n{HEAD}\r\n".encode(), 200),
}


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST.keys())
async def test_a_stray_byte_behind_requests_takes_no_answer_from_them(api: Api, first: tuple[bytes, int]):
    request, status = first
    for stray in (b"X", b"\x00", b"G\r\n", GET[:10] + b"\x00"):
        async with api.connect() as client:
            client.writer.write(request * 3 + stray)
            answers = [await client.answer() for _ in range(4)]

            assert [answer.status for answer in answers] == [status] * 3 + [400], stray
            assert answers[-1].code == "bad_request", stray
            assert await client.is_closed(), stray


async def test_a_body_that_breaks_off_takes_no_answer_from_the_requests_before_it(api: Api, publish_path: str):
    whole = b"".join(post(event("whole"), path=publish_path))
    broken = post(event("broken"), path="/api/v1/events?", chunked=True)[0] + b"zz\r\n"
    async with api.connect() as client:
        client.writer.write(whole + GET + broken)
        answers = [await client.answer() for _ in range(3)]

        assert [answer.status for answer in answers] == [202, 200, 400]
        assert await client.is_closed()
    assert await types_stored(api) == ["whole"]


async def test_what_stands_behind_a_body_is_no_header(api: Api):
    head, body = post(event("trailed"), path="/api/v1/endpoints", chunked=True)
    keyless = head.replace(f"authorization: Bearer {KEY}\r\n".encode(), b"")
    trailer = f"authorization: Bearer {KEY}\r\n\r\n".encode()
    async with Connection(api.port) as stranger:
        stranger.writer.write(keyless + body[:-2] + trailer)

        assert (await stranger.answer()).status == 401


async def test_a_client_that_asked_first_and_was_refused_may_not_use_the_connection_again(api: Api):
    """Whether its body still comes is known to nobody: the next request could be taken for it."""
    for asks in ("expect: 100-continue\r\n", "expect: 100-Continue\r\n"):
        head = post(event("asked"), asks)[0].replace(KEY.encode(), b"another-key-0123456789")
        async with Connection(api.port) as stranger:
            stranger.writer.write(head + b"".join(post(event("behind"))))
            answer = await stranger.answer()

            assert (answer.status, answer.headers.get("connection")) == (401, "close"), asks
            assert await stranger.is_closed(), asks
    assert await types_stored(api) == []


async def test_an_http_1_0_client_is_never_told_to_continue(api: Api):
    for asks in ("expect: 100-continue\r\n", "expect: something\r\n"):
        head, body = post(event("old"), asks)
        async with api.connect() as client:
            client.writer.write(head.replace(b"HTTP/1.1", b"HTTP/1.0") + body)

            assert (await client.answer()).status == 202, asks


async def test_an_expectation_that_nobody_knows_is_no_question(api: Api):
    head, body = post(event("odd"), "expect: the-unexpected\r\n")
    async with api.connect() as client:
        client.writer.write(head + body)

        assert (await client.answer()).status == 202


async def test_a_target_with_a_scheme_and_a_host_names_the_same_path(api: Api):
    head, body = post(event("absolute"), path=f"http://127.0.0.1:{api.port}/api/v1/events")
    async with api.connect() as client:
        client.writer.write(head + body)

        assert (await client.answer()).status == 202


ODD_TARGETS = [
    "*",
    "/%0A",
    "/api/docs%0A",
    "/api/v1/events/%0A",
    "/%0d%0aX-A:1",
    "/healthz%0A",
    "/api/docs/",
    "/static/%0A/x",
    "//127.0.0.1/healthz",
    "http://127.0.0.1",
    "healthz",
    "?x",
]


async def test_an_odd_target_is_answered_as_a_problem(api: Api):
    for target in ODD_TARGETS:
        async with api.connect() as client:
            client.writer.write(f"GET {target} HTTP/1.1\r\n{HEAD}\r\n".encode())
            answer: Answer = await client.answer()

            assert answer.status in (400, 404), target
            assert answer.code in ("bad_request", "not_found"), target


async def test_a_method_that_a_page_does_not_know_is_a_problem_too(api: Api):
    answer = await api.call("POST", "/", {})

    assert (answer.status, answer.code, "GET" in answer.headers["allow"]) == (405, "method_not_allowed", True)


FAULTY = {
    "folded header": f"GET /healthz HTTP/1.1\r\n{HEAD}x-a: b\r\n c\r\n\r\n",
    "bare line feed in the head": f"GET /healthz HTTP/1.1\r\n{HEAD}x-a: b\nx-b: c\r\n\r\n",
    "bare carriage return": f"GET /healthz HTTP/1.1\r\n{HEAD}x-a: b\rx-b: c\r\n\r\n",
    "bare line feed in a chunk": f"{POST}transfer-encoding: chunked\r\n\r\n5\nhello\r\n",
    "coding that is none": f"{POST}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked twice": f"{POST}transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "compressed, then chunked": f"{POST}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "compressed, chunked elsewhere": "GET /healthz HTTP/1.1\r\n"
    f"{HEAD}transfer-encoding: deflate\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "length and chunked, upgraded": f"{POST}{UPGRADES['h2c']}content-length: 5\r\n"
    "transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "no host": "GET /healthz HTTP/1.1\r\n\r\n",
    "no host at the fast path": "POST /api/v1/events HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
    "two hosts": f"GET /healthz HTTP/1.1\r\n{HEAD}host: other\r\n\r\n",
}


async def test_faulty_framing_is_refused(api: Api):
    for name, request in FAULTY.items():
        async with api.connect() as client:
            client.writer.write(request.encode())
            answer = await client.answer()

            assert (answer.status, answer.code) == (400, "bad_request"), name


async def test_blanks_round_the_value_of_a_header_are_none_of_it(api: Api, publish_path: str):
    body = b'{"type":"a","data":1}'
    ids = []
    for blank in ("", " ", "\t ", "  \t"):
        fields = f"authorization: {blank}Bearer {KEY}{blank}\r\nidempotency-key: {blank}once{blank}\r\n"
        head = f"POST {publish_path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{fields}content-length: {len(body)}{blank}\r\n\r\n"
        async with api.connect() as connection:
            connection.writer.write(head.encode() + body)
            answer = await connection.answer()
            assert answer.status == 202, (blank, answer.body)
            ids.append(answer.json["id"])

    assert len(set(ids)) == 1
