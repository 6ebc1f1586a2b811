"""The same head again and again on one connection, as clients do: the short way means what the long way means."""

import pytest
from tests.promises.sending.api.conftest import Api
from tests.support.http_client import Connection
from tests.support.receiver import Sink

PATH = "/api/v1/events"


def body(number: int, **more: object) -> dict[str, object]:
    return {"type": "order.created", "data": {"n": number}, **more}


async def test_the_same_head_with_another_body_is_another_event(api: Api):
    answers = [await api.call("POST", PATH, body(number)) for number in range(10, 20)]
    found = await api.get("/api/v1/events?limit=20")

    assert [answer.status for answer in answers] == [202] * 10
    stored = [(await api.get(f"{PATH}/{answer.json['id']}"))["data"] for answer in answers]
    assert stored == [{"n": number} for number in range(10, 20)]
    assert len(found["items"]) == 10


async def test_a_known_head_does_not_hide_what_is_wrong_with_a_body(api: Api):
    good, bad = b'{"type":"a","data":10}', b'{"type":"a","data":10 '
    answers = [await api.call("POST", PATH, text) for text in (good, bad, good)]

    assert [answer.status for answer in answers] == [202, 400, 202]


async def test_known_heads_that_come_in_pieces_or_together_are_understood(api: Api):
    request = api.connection.request("POST", PATH, body(10))
    await api.call("POST", PATH, body(11))
    writer = api.connection.writer
    writer.write(request[:-5])
    await writer.drain()
    writer.write(request[-5:] + request + request)
    writer.write(request)
    answers = [await api.connection.answer() for _ in range(4)]

    assert [answer.status for answer in answers] == [202] * 4
    assert len({answer.json["id"] for answer in answers}) == 4


async def test_a_refused_head_is_refused_every_time(api: Api):
    crossing = {"origin": "https://elsewhere.example"}
    wrong_key = {"authorization": "Bearer wrong-key-0123456789"}
    async with api.connect() as connection:
        crossed = [(await connection.call("POST", PATH, body(10), crossing)).status for _ in range(3)]
    async with Connection(api.port, wrong_key) as connection:
        unknown = [(await connection.call("POST", PATH, body(10))).status for _ in range(3)]

    assert crossed == [403] * 3
    assert unknown == [401] * 3


async def test_the_same_idempotency_key_on_the_same_head_is_one_event(api: Api):
    named = {"idempotency-key": "once"}
    answers = [await api.call("POST", PATH, body(10), named) for _ in range(3)]
    other = await api.call("POST", PATH, body(11), named)

    assert len({answer.json["id"] for answer in answers}) == 1
    assert other.code == "idempotency_conflict"


async def test_each_idempotency_key_of_a_known_head_is_its_own(api: Api):
    async def publish(number: int, key: str) -> str:
        answer = await api.call("POST", PATH, body(number), {"idempotency-key": key})
        assert answer.status == 202, answer.json
        return str(answer.json["id"])

    first = [await publish(number, f"key-{number}") for number in range(10, 16)]
    again = [await publish(number, f"key-{number}") for number in range(10, 16)]

    assert len(set(first)) == 6
    assert again == first


@pytest.mark.parametrize("stripped", [" ab", "\tab"])
async def test_a_key_that_a_parser_would_strip_is_the_same_key_on_a_known_head(api: Api, stripped: str):
    """The short way takes a key by its place, so it must not take what is not part of it."""
    plain = [await api.call("POST", PATH, body(10), {"idempotency-key": key}) for key in ("abc", "abc")]
    padded = await api.call("POST", PATH, body(10), {"idempotency-key": stripped})
    bare = await api.call("POST", PATH, body(10), {"idempotency-key": "ab"})

    assert {answer.status for answer in (*plain, padded, bare)} == {202}
    assert padded.json["id"] == bare.json["id"] != plain[0].json["id"]


async def test_a_line_in_the_place_of_a_key_is_a_header_of_its_own(api: Api):
    """As long as the key before, and yet two headers: the second one must not be swallowed."""
    for key in ("a" * 21, "b" * 21):
        await api.call("POST", PATH, body(10), {"idempotency-key": key})
    answer = await api.call("POST", PATH, body(10), {"idempotency-key": "ccc\r\norigin: http://x"})

    assert answer.status == 403


async def test_a_batch_owns_no_key_of_a_single_event(api: Api, publish_path: str):
    batch = {"events": [{"type": "a", "data": 1}, {"type": "a", "data": 2}]}
    singles = [({"type": "b", "data": n}, {"idempotency-key": key}) for n, key in enumerate(("abc#0", "abc#1", "abc"))]
    assert (await api.call("POST", "/api/v1/events/batch", batch, {"idempotency-key": "abc"})).status == 202

    first = [await api.call("POST", publish_path, body, headers) for body, headers in singles]
    again = [await api.call("POST", publish_path, body, headers) for body, headers in singles]

    assert [(202, one.json["type"]) for one in first] == [(202, "b")] * 3
    assert [one.json for one in first] == [one.json for one in again]


async def test_a_batch_of_equal_events_that_shrank_or_grew_is_a_conflict(api: Api):
    async def send(many: int) -> int:
        batch = {"events": [{"type": "a", "data": 1}] * many}
        return int((await api.call("POST", "/api/v1/events/batch", batch, {"idempotency-key": "x"})).status)

    assert [await send(many) for many in (2, 1, 3, 2)] == [202, 422, 422, 202]
    assert len((await api.get("/api/v1/events"))["items"]) == 2


async def test_a_repeat_gets_its_202_though_the_endpoint_that_it_named_is_deleted(
    api: Api, sink: Sink, publish_path: str
):
    endpoint = await api.endpoint(sink.url())
    body, header = {"type": "a", "data": 1, "endpoints": [endpoint["id"]]}, {"idempotency-key": "k"}
    batch = {"events": [body, {**body, "data": 2}]}
    first = [
        await api.call("POST", publish_path, body, header),
        await api.call("POST", "/api/v1/events/batch", batch, header),
    ]
    assert (await api.call("DELETE", f"/api/v1/endpoints/{endpoint['id']}")).status in (200, 202, 204)

    again = [
        await api.call("POST", publish_path, body, header),
        await api.call("POST", "/api/v1/events/batch", batch, header),
    ]

    assert [(202, one.json) for one in first] == [(one.status, one.json) for one in again]
    assert (await api.call("POST", publish_path, body)).code == "unknown_endpoint"
