"""POST /api/v1/events: both ways in give the same answers, and nothing is answered before it is durable."""

import asyncio
import json
import sqlite3
from typing import Any

from tests.promises.sending.api.conftest import Api
from tests.support.receiver import Sink

from hooklane.cli.process import Running


def stored(server: Running) -> list[tuple[Any, ...]]:
    path = server.services.store.path  # type: ignore[attr-defined]
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as conn:
        return conn.execute("SELECT id, type, key, data FROM hooklane_event ORDER BY n").fetchall()


async def test_an_event_is_accepted_with_its_place_in_each_lane(api: Api, endpoint: dict[str, Any], publish_path: str):
    body = {"type": "order.created", "data": {"id": 7}, "key": "order:7"}

    first = await api.call("POST", publish_path, body)
    second = await api.call("POST", publish_path, body)

    assert (first.status, second.status) == (202, 202)
    assert {"id", "type", "key", "lanes", "created_at"} == set(first.json)
    assert [{"endpoint": endpoint["id"], "seq": 1}] == first.json["lanes"]
    assert [{"endpoint": endpoint["id"], "seq": 2}] == second.json["lanes"]
    assert first.json["id"].startswith("evt_")
    assert first.json["created_at"].endswith("Z")
    assert first.headers["content-type"] == "application/json"


async def test_an_accepted_event_is_already_in_the_database(api: Api, publish_path: str):
    answer = await api.call("POST", publish_path, b'{"type":"a.b","data":{"x" : [1, 2.50]},"key":"k"}')

    assert [(answer.json["id"], "a.b", "k", b'{"x" : [1, 2.50]}')] == stored(api.server)


async def test_an_event_that_matches_no_endpoint_is_stored_without_lanes(api: Api, publish_path: str):
    answer = await api.call("POST", publish_path, {"type": "a", "data": None})

    assert (answer.status, answer.json["lanes"], answer.json["key"]) == (202, [], None)


async def test_an_event_without_a_key_has_no_place_in_any_order(api: Api, endpoint: dict[str, Any], publish_path: str):
    answer = await api.call("POST", publish_path, {"type": "a", "data": 1})

    assert [{"endpoint": endpoint["id"], "seq": None}] == answer.json["lanes"]


async def test_the_same_idempotency_key_and_content_is_one_event(api: Api, endpoint: Any, publish_path: str):
    body = {"type": "a", "data": {"n": 1}, "key": "k"}

    first = await api.call("POST", publish_path, body, {"idempotency-key": "once"})
    again = await api.call("POST", publish_path, body, {"idempotency-key": "once"})

    assert (202, first.json) == (again.status, again.json)
    assert len(stored(api.server)) == 1


async def test_the_same_idempotency_key_with_other_content_is_refused(api: Api, publish_path: str):
    await api.call("POST", publish_path, {"type": "a", "data": 1}, {"idempotency-key": "once"})

    other = await api.call("POST", publish_path, {"type": "a", "data": 2}, {"idempotency-key": "once"})

    assert (other.status, other.code) == (422, "idempotency_conflict")
    assert len(stored(api.server)) == 1


async def test_an_id_of_the_caller_counts_once(api: Api, publish_path: str):
    first = await api.call("POST", publish_path, {"type": "a", "data": 1, "id": "mine-1"})
    again = await api.call("POST", publish_path, {"type": "a", "data": 1, "id": "mine-1"})
    other = await api.call("POST", publish_path, {"type": "a", "data": 2, "id": "mine-1"})

    assert ("mine-1", first.json) == (first.json["id"], again.json)
    assert other.code == "idempotency_conflict"


async def test_a_hundred_posts_of_one_idempotency_key_at_once_are_one_event(api: Api, endpoint: Any, publish_path: str):
    async def post() -> bytes:
        async with api.connect() as connection:
            body = {"type": "a", "data": 1, "key": "k"}
            answer = await connection.call("POST", publish_path, body, {"idempotency-key": "one"})
            assert answer.status == 202
            return answer.body

    answers = await asyncio.gather(*(post() for _ in range(100)))

    assert len({json.loads(body)["id"] for body in answers}) == 1
    assert len(stored(api.server)) == 1


async def test_explicit_endpoints_bypass_their_filters_and_unknown_ones_are_refused(
    api: Api, sink: Sink, publish_path: str
):
    narrow = await api.endpoint(sink.url(), types=["other.*"])

    chosen = await api.call("POST", publish_path, {"type": "a", "data": 1, "endpoints": [narrow["id"]]})
    unknown = await api.call("POST", publish_path, {"type": "a", "data": 1, "endpoints": ["ep_nobody"]})
    hostile = await api.call("POST", publish_path, {"type": "a", "data": 1, "endpoints": ["a\nb"]})

    assert [{"endpoint": narrow["id"], "seq": None}] == chosen.json["lanes"]
    assert (unknown.status, unknown.code) == (422, "unknown_endpoint")
    assert hostile.code == "unknown_endpoint"


BAD_BODIES = {
    "empty": (b"", 400, "invalid_json"),
    "not json": (b"{", 400, "invalid_json"),
    "nan": (b'{"x":NaN}', 400, "invalid_json"),
    "nan in data": (b'{"type":"a","data":{"x":NaN}}', 400, "invalid_json"),
    "infinity in data": (b'{"type":"a","data":-Infinity}', 400, "invalid_json"),
    "too large a number": (b'{"type":"a","data":1e999}', 400, "invalid_json"),
    "lone surrogate": (b'{"type":"a","data":"\\ud800"}', 400, "invalid_json"),
    "lone surrogate in the key": (b'{"type":"a","data":1,"key":"\\udc00"}', 400, "invalid_json"),
    "invalid utf-8": (b'{"type":"a","data":"\xff"}', 400, "invalid_json"),
    "invalid utf-8 in the type": (b'{"type":"\xff","data":1}', 400, "invalid_json"),
    "bom": (b'\xef\xbb\xbf{"type":"a","data":1}', 400, "invalid_json"),
    "utf-16": ('{"type":"a","data":1}'.encode("utf-16"), 400, "invalid_json"),
    "trailing bytes": (b'{"type":"a","data":1} {}', 400, "invalid_json"),
    "duplicate key": (b'{"id":"a","id":"b"}', 400, "duplicate_key"),
    "duplicate field": (b'{"type":"a","type":"b","data":1}', 400, "duplicate_key"),
    "duplicate field, escaped": (b'{"type":"a","t\\u0079pe":"b","data":1}', 400, "duplicate_key"),
    "duplicate data": (b'{"type":"a","data":1,"data":2}', 400, "duplicate_key"),
    "duplicate in data": (b'{"type":"a","data":{"x":1,"x":1}}', 400, "duplicate_key"),
    "deep duplicate": (b'{"type":"a","data":[{"y":{"x":1,"x":1}}]}', 400, "duplicate_key"),
    "no type": (b'{"data":1}', 422, "invalid_body"),
    "no data": (b'{"type":"a"}', 422, "invalid_body"),
    "unknown field": (b'{"type":"a","data":1,"keys":"x"}', 422, "invalid_body"),
    "array": (b"[]", 422, "invalid_body"),
    "null": (b"null", 422, "invalid_body"),
    "type is a number": (b'{"type":1,"data":1}', 422, "invalid_body"),
    "bad type": (b'{"type":"a b","data":1}', 422, "invalid_type"),
    "long type": (b'{"type":"%b","data":1}' % (b"a" * 129), 422, "invalid_type"),
    "empty type": (b'{"type":"","data":1}', 422, "invalid_type"),
    "type with a newline": (b'{"type":"a\\n","data":1}', 422, "invalid_type"),
    "bad id": (b'{"type":"a","data":1,"id":"a.b"}', 422, "invalid_id"),
    "empty key": (b'{"type":"a","data":1,"key":""}', 422, "invalid_key"),
    "key with nul": (b'{"type":"a","data":1,"key":"a\\u0000"}', 422, "invalid_key"),
    "key with escape": (b'{"type":"a","data":1,"key":"\\u001b[2J"}', 422, "invalid_key"),
    "long key": (b'{"type":"a","data":1,"key":"%b"}' % (b"k" * 256), 422, "invalid_key"),
    "too deep": (b'{"type":"a","data":%b}' % (b"[" * 65 + b"]" * 65), 422, "too_deep"),
    "far too deep": (b'{"type":"a","data":%b' % (b"[" * 100_000), 422, "too_deep"),
    "many keys": (
        json.dumps({"type": "a", "data": {str(n): 0 for n in range(10_001)}}).encode(),
        422,
        "too_many_keys",
    ),
    "long number": (b'{"type":"a","data":%b}' % (b"1" * 65), 422, "number_too_long"),
}


async def test_a_bad_body_is_refused_by_name_and_not_stored(api: Api, publish_path: str):
    for name, (body, status, code) in BAD_BODIES.items():
        answer = await api.call_alone("POST", publish_path, body)

        assert (status, code) == (answer.status, answer.code), name
        assert stored(api.server) == [], name


GOOD_DATA = [
    b"null",
    b"0",
    b"-0.0",
    b'""',
    b'"\\u0000\\ud83d\\ude00"',
    b" [ 1 , 2 ] ".strip(),
    b'{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}',
    b'{"type":"x","data":"y","key":"z"}',
    b'{"q":"\\"type\\":\\"a\\",\\"type\\""}',
    b'{"":0}',
    b"1" * 64,
    b"[" * 64 + b"]" * 64,
    '{"ключ":"значение 🙂"}'.encode(),
    b'"' + b"x" * (256 * 1024 - 2) + b'"',
]


async def test_data_is_kept_byte_for_byte(api: Api, publish_path: str):
    for data in GOOD_DATA:
        answer = await api.call("POST", publish_path, b'{"type":"a","data":%b}' % data)

        assert answer.status == 202, data[:24]
    assert [row[3] for row in stored(api.server)] == GOOD_DATA


KEYS = ["a", "ключ", "🙂", "a/b", "a%2Fb", "' ; DROP TABLE event --", "%", "_", "\\", "k" * 255]


async def test_any_text_can_be_a_key(api: Api, endpoint: Any, publish_path: str):
    for key in KEYS:
        answer = await api.call("POST", publish_path, {"type": "a", "data": 1, "key": key})

        assert (202, key, 1) == (answer.status, answer.json["key"], answer.json["lanes"][0]["seq"])
    assert sorted(KEYS) == sorted(lane["key"] for lane in (await api.get("/api/v1/lanes"))["items"])


async def test_one_bad_event_never_fails_others_of_the_same_commit(api: Api, endpoint: Any, publish_path: str):
    def post(number: int) -> bytes:
        good = {"type": "a", "data": number, "key": "k"}
        bad = {"type": "a", "data": 1, "endpoints": ["ep_nobody"]}
        return api.connection.request("POST", publish_path, bad if number == 5 else good)

    api.connection.writer.write(b"".join(post(number) for number in range(10)))
    statuses = [(await api.connection.answer()).status for _ in range(10)]

    assert statuses == [202] * 5 + [422] + [202] * 4
    assert list(map(str, [0, 1, 2, 3, 4, 6, 7, 8, 9])) == [row[3].decode() for row in stored(api.server)]


async def test_pipelined_requests_of_all_kinds_are_answered_in_order(api: Api, endpoint: Any):
    wanted = [
        ("POST", "/api/v1/events", {"type": "a", "data": 1, "key": "k"}, 202),
        ("GET", "/healthz", None, 200),
        ("POST", "/api/v1/events", {"type": "a"}, 422),
        ("POST", "/api/v1/events", {"type": "a", "data": 2, "key": "k"}, 202),
        ("POST", "/api/v1/events", b"{", 400),
        ("GET", "/api/v1/nothing", None, 404),
        ("POST", "/api/v1/events", {"type": "a", "data": 3, "key": "k"}, 202),
    ] * 5

    api.connection.writer.write(b"".join(api.connection.request(*one[:3]) for one in wanted))
    answers = [await api.connection.answer() for _ in wanted]

    assert [one[3] for one in wanted] == [answer.status for answer in answers]
    seqs = [answer.json["lanes"][0]["seq"] for answer in answers if answer.status == 202]
    assert list(range(1, 16)) == seqs


async def test_a_request_that_arrives_byte_by_byte_is_understood(api: Api, publish_path: str):
    for byte in api.connection.request("POST", publish_path, {"type": "a", "data": 1}):
        api.connection.writer.write(bytes([byte]))
        await api.connection.writer.drain()

    assert (await api.connection.answer()).status == 202


async def test_a_chunked_body_is_understood(api: Api, publish_path: str):
    body = b'{"type":"a","data":1}'
    chunks = b"5\r\n" + body[:5] + b"\r\n%x\r\n" % (len(body) - 5) + body[5:] + b"\r\n0\r\n\r\n"

    answer = await api.call("POST", publish_path, chunks, {"transfer-encoding": "chunked"})

    assert answer.status == 202


async def test_a_client_that_expects_100_gets_it_and_its_answer(api: Api, publish_path: str):
    request = api.connection.request("POST", publish_path, {"type": "a", "data": 1}, {"expect": "100-continue"})
    head, body = request.split(b"\r\n\r\n")
    api.connection.writer.write(head + b"\r\n\r\n")

    assert (await api.connection.answer()).status == 100
    api.connection.writer.write(body)
    assert (await api.connection.answer()).status == 202


async def test_connection_close_is_honoured(api: Api, publish_path: str):
    answer = await api.call("POST", publish_path, {"type": "a", "data": 1}, {"connection": "close"})

    assert (answer.status, answer.headers["connection"]) == (202, "close")
    assert await api.connection.is_closed()


async def test_a_body_over_the_limit_is_refused_and_the_connection_ends(api: Api, publish_path: str):
    answer = await api.call("POST", publish_path, b'{"type":"a","data":"%b"}' % (b"x" * 400_000))

    assert (answer.status, answer.code) == (413, "too_large")
    assert await api.connection.is_closed()
    assert stored(api.server) == []


async def test_data_over_the_limit_is_refused_though_the_body_is_within(api: Api, publish_path: str):
    answer = await api.call("POST", publish_path, b'{"type":"a","data":"%b"}' % (b"x" * (256 * 1024 - 1)))

    assert (answer.status, answer.code) == (413, "too_large")


async def test_an_endless_chunked_body_is_refused_after_the_limit(api: Api, publish_path: str):
    api.connection.writer.write(api.connection.request("POST", publish_path, b"", {"transfer-encoding": "chunked"}))
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"

    async def drip() -> None:
        for _ in range(64):
            api.connection.writer.write(piece)
            await api.connection.writer.drain()

    dripping = asyncio.create_task(drip())
    answer = await api.connection.answer()

    assert (answer.status, answer.code) == (413, "too_large")
    assert await api.connection.is_closed()
    await asyncio.gather(dripping, return_exceptions=True)


async def test_an_idempotency_key_must_be_printable(api: Api, publish_path: str):
    empty = await api.call("POST", publish_path, {"type": "a", "data": 1}, {"idempotency-key": ""})
    long = await api.call("POST", publish_path, {"type": "a", "data": 1}, {"idempotency-key": "x" * 256})
    odd = await api.call("POST", publish_path, {"type": "a", "data": 1}, {"idempotency-key": "é"})

    assert [empty.code, long.code, odd.code] == ["invalid_idempotency_key"] * 3


async def test_an_event_is_delivered(api: Api, endpoint: dict[str, Any], sink: Sink, publish_path: str):
    answer = await api.call("POST", publish_path, b'{"type":"a.b","data":{"x" : 1},"key":"k"}')

    [request] = await sink.arrived(1)
    assert answer.json["id"] == request.headers["webhook-id"]
    assert b'"data":{"x" : 1}}' in request.body


async def test_an_empty_list_of_endpoints_is_refused(api: Api, publish_path: str):
    answer = await api.call("POST", publish_path, {"type": "a", "data": 1, "endpoints": []})

    assert (answer.status, answer.code) == (422, "invalid_endpoints")
