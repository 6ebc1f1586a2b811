"""POST /api/v1/events/batch: all or nothing, in order."""

import asyncio
import json
import tracemalloc
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api
from tests.promises.sending.api.test_publish_api import stored

from hooklane.sender.draft import draft_of
from hooklane.server import views

PATH = "/api/v1/events/batch"
LINES = {"content-type": "application/x-ndjson"}


@pytest.fixture
def cores() -> int:
    """With the process that writes, as on most machines."""
    return 2


async def test_a_batch_keeps_its_order_inside_each_key(api: Api, endpoint: dict[str, Any]):
    events = [{"type": "a", "data": number, "key": "AB"[number % 2]} for number in range(10)]

    answer = await api.call("POST", PATH, {"events": events})

    assert answer.status == 202
    assert [one["lanes"][0]["seq"] for one in answer.json["events"]] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert [one["type"] for one in answer.json["events"]] == ["a"] * 10


async def test_a_batch_may_come_as_lines(api: Api):
    lines = b'{"type":"a","data":{"x" : 1}}\n\n{"type":"b","data":2}\r\n'

    answer = await api.call("POST", PATH, lines, LINES)

    assert answer.status == 202
    assert [row[3] for row in stored(api.server)] == [b'{"x" : 1}', b"2"]


async def test_one_bad_event_refuses_the_whole_batch_and_is_named(api: Api):
    good = {"type": "a", "data": 1}
    cases = [
        ({"type": "a b", "data": 1}, 422, "invalid_type"),
        ({"type": "a"}, 422, "invalid_body"),
        ({"type": "a", "data": 1, "endpoints": ["ep_nobody"]}, 422, "unknown_endpoint"),
        ({"type": "a", "data": "x" * 300_000}, 413, "too_large"),
    ]
    for bad, status, code in cases:
        answer = await api.call("POST", PATH, {"events": [good, good, bad, good]})

        assert (answer.status, answer.code) == (status, code)
        assert answer.json["errors"][0]["index"] == 2
    assert stored(api.server) == []


async def test_duplicate_keys_in_a_batch_are_refused(api: Api):
    for body in (
        b'{"events":[],"events":[{"type":"a","data":1}]}',
        b'{"events":[{"type":"a","type":"b","data":1}]}',
        b'{"events":[{"type":"a","data":{"x":1,"x":2}}]}',
    ):
        assert (await api.call("POST", PATH, body)).code == "duplicate_key"
    assert stored(api.server) == []


async def test_a_batch_has_at_most_a_thousand_events(api: Api):
    events = [{"type": "a", "data": number} for number in range(1_001)]

    too_many = await api.call("POST", PATH, {"events": events})
    enough = await api.call("POST", PATH, {"events": events[:1_000]})

    assert (too_many.status, too_many.code) == (422, "too_many_events")
    assert (enough.status, len(stored(api.server))) == (202, 1_000)


async def test_a_batch_has_at_most_eight_mebibytes(api: Api):
    event = json.dumps({"type": "a", "data": "x" * 200_000}).encode()

    answer = await api.call("POST", PATH, b"\n".join([event] * 42), LINES)

    assert (answer.status, answer.code) == (413, "too_large")
    assert stored(api.server) == []


async def test_repeating_a_batch_under_its_idempotency_key_repeats_nothing(api: Api):
    batch = {"events": [{"type": "a", "data": number} for number in range(3)]}

    first = await api.call("POST", PATH, batch, {"idempotency-key": "b1"})
    again = await api.call("POST", PATH, batch, {"idempotency-key": "b1"})
    other = await api.call("POST", PATH, {"events": batch["events"][::-1]}, {"idempotency-key": "b1"})

    assert first.json == again.json
    assert (other.status, other.code) == (422, "idempotency_conflict")
    assert len(stored(api.server)) == 3


@pytest.mark.parametrize("data", [(1, 2, 3), (1, 1, 1)], ids=["other", "equal"])
async def test_a_batch_that_grew_under_its_idempotency_key_is_refused(api: Api, data: tuple[int, ...]):
    events = [{"type": "a", "key": "k", "data": number} for number in data]
    head = {"idempotency-key": "b" * 255}

    first = await api.call("POST", PATH, {"events": events[:2]}, head)
    longer = await api.call("POST", PATH, {"events": events}, head)
    again = await api.call("POST", PATH, {"events": events[:2]}, head)

    assert first.status == 202
    assert (longer.status, longer.code) == (422, "idempotency_conflict")
    assert first.json == again.json
    assert len(stored(api.server)) == 2


async def test_a_batch_that_shrank_under_its_idempotency_key_is_refused(api: Api):
    events = [{"type": "a", "key": "k", "data": number} for number in range(3)]

    await api.call("POST", PATH, {"events": events}, {"idempotency-key": "b1"})
    shorter = await api.call("POST", PATH, {"events": events[:2]}, {"idempotency-key": "b1"})

    assert (shorter.status, shorter.code) == (422, "idempotency_conflict")
    assert len(stored(api.server)) == 3


async def test_a_batch_that_an_older_server_took_is_repeated_by_a_newer_one(api: Api):
    events = [{"type": "a", "key": "k", "data": number} for number in range(2)]
    services, before = api.server.services, []
    for position in range(2):
        name = f"key:b1#{position}"  # as 0.1 named them, and nothing for the whole
        made = draft_of("a", b"%d" % position, key="k", now=services.now(), names=(name,))
        before.append(views.published(await services.publisher.publish(made)))

    again = await api.call("POST", PATH, {"events": events}, {"idempotency-key": "b1"})

    assert again.json == {"events": before}


async def test_an_empty_batch_is_an_empty_batch(api: Api):
    assert (await api.call("POST", PATH, {"events": []})).json == {"events": []}
    assert (await api.call("POST", PATH, {"events": []}, {"idempotency-key": "b1"})).json == {"events": []}


async def test_another_shape_is_refused(api: Api):
    for body in (b"", b"[]", b'{"event":[]}', b'{"events":1}', b'{"events":[1]}'):
        assert (await api.call("POST", PATH, body)).status in (400, 422)


async def test_a_large_batch_of_another_shape_is_refused_before_anything_is_built_of_it(api: Api):
    fill = 8 * 1024 * 1024 // 3 - 20
    cases = [
        (b"[" + b"[]," * fill + b"[]]", {}, "invalid_body"),
        (b'{"events":{"a":[' + b"[]," * fill + b"[]]}}", {}, "invalid_body"),
        (b'{"events":[' + b"[]," * fill + b"[]]}", {}, "too_many_events"),
        (b'{"events":[' + b"[]," * fill + b"[]],}", {}, "invalid_json"),
        (b"\n" * (3 * fill), LINES, "too_many_events"),
        (b" " * (3 * fill), LINES, None),
    ]
    for text, headers, code in cases:
        tracemalloc.start()
        try:
            answer = await api.call("POST", PATH, text, headers)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert (answer.status, answer.json.get("code")) == ((202, None) if code is None else (answer.status, code))
        assert most < 120 * 2**20, (text[:20], most)


async def test_a_large_batch_is_read_beside_the_event_loop(api: Api):
    event = b'{"type":"a","data":[' + b"[]," * 30_000 + b"[]]}"
    text = b'{"events":[' + b",".join([event] * 30) + b"]}"
    late = 0.0

    async def watch() -> None:
        nonlocal late
        while True:
            began = asyncio.get_running_loop().time()
            await asyncio.sleep(0.01)
            late = max(late, asyncio.get_running_loop().time() - began)

    watching = asyncio.create_task(watch())
    began = asyncio.get_running_loop().time()
    answer = await api.call("POST", PATH, text)
    took = asyncio.get_running_loop().time() - began
    watching.cancel()

    assert answer.status == 202
    assert late < took / 2, f"the event loop stood still for {late:.2f} of {took:.2f} s"


async def test_the_case_of_a_media_type_does_not_matter(api: Api):
    lines = b'{"type":"a","data":1}\n{"type":"a","data":2}\n'

    taken = await api.call("POST", PATH, lines, {"content-type": "Application/X-NDJSON"})
    given = await api.call("GET", "/api/v1/dead-letters", headers={"accept": "Application/X-NDJSON"})

    assert (taken.status, len(taken.json["events"])) == (202, 2)
    assert given.headers["content-type"].startswith("application/x-ndjson")
