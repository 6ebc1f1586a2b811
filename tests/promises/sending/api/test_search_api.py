"""Lists: filters, pages, cursors, and what hostile parameters come to."""

import json
from collections import Counter
from typing import Any
from urllib.parse import quote

import pytest
from tests.promises.sending.api.conftest import Api
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Sink


async def settled(api: Api, event_id: str, state: str) -> dict[str, Any]:
    async def in_state() -> dict[str, Any] | None:
        event = await api.get(f"/api/v1/events/{event_id}")
        return dict(event) if [one["state"] for one in event["deliveries"]] == [state] else None

    return await eventually(in_state)


async def test_an_event_is_shown_with_its_data_deliveries_and_tries(api: Api, sink: Sink, endpoint: dict[str, Any]):
    made = await api.call("POST", "/api/v1/events", b'{"type":"a.b","data":{"b":1,"a": 2.50},"key":"k"}')
    event = await settled(api, made.json["id"], "delivered")
    raw = await api.call("GET", f"/api/v1/events/{made.json['id']}")
    [attempt] = (await api.get(f"/api/v1/events/{made.json['id']}/attempts"))["items"]

    assert b'"data":{"b":1,"a": 2.50}' in raw.body
    assert (event["type"], event["key"], event["deliveries"][0]["seq"]) == ("a.b", "k", 1)
    assert (attempt["outcome"], attempt["attempt"], attempt["endpoint"]) == ("delivered", 1, endpoint["id"])


async def test_events_are_found_by_what_they_are(api: Api, sink: Sink, endpoint: dict[str, Any]):
    first = await api.publish("order.created", key="A")
    second = await api.publish("order.updated", key="A")
    third = await api.publish("order.created", key="B")
    await settled(api, third["id"], "delivered")
    await settled(api, second["id"], "delivered")

    async def found(query: str) -> list[str]:
        return [one["id"] for one in (await api.get(f"/api/v1/events?{query}"))["items"]]

    assert await found("") == [third["id"], second["id"], first["id"]]
    assert await found("type=order.created") == [third["id"], first["id"]]
    assert await found("key=A") == [second["id"], first["id"]]
    assert await found(f"endpoint={endpoint['id']}&key=B") == [third["id"]]
    assert await found("state=delivered&type=order.updated") == [second["id"]]
    assert await found("state=dead") == []
    assert await found("after=2999-01-01T00:00:00Z") == []
    assert len(await found("before=2999-01-01T00:00:00Z")) == 3
    assert await found("key=" + quote("' OR 1=1 --")) == []
    assert await found("type=%25") == []


async def test_pages_go_on_where_the_last_one_ended(api: Api):
    made = [(await api.publish(data=number))["id"] for number in range(7)]
    seen: list[str] = []
    cursor = ""
    for _ in range(10):
        page = await api.get(f"/api/v1/events?limit=3{cursor}")
        seen += [one["id"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"

    assert seen == made[::-1]


async def test_a_cursor_that_was_not_given_for_this_list_is_refused(api: Api, endpoint: Any):
    for number in range(3):
        await api.publish(data=number, key=f"k{number}")
    cursor = (await api.get("/api/v1/events?limit=1"))["next"]
    flipped = cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1]

    for path in (
        f"/api/v1/events?limit=1&cursor={flipped}",
        f"/api/v1/events?limit=1&cursor={cursor}&type=other",
        f"/api/v1/lanes?cursor={cursor}",
        f"/api/v1/dead-letters?cursor={cursor}",
        "/api/v1/events?cursor=1",
        "/api/v1/events?cursor=%00",
        "/api/v1/events?cursor=" + "A" * 5000,
        "/api/v1/lanes?cursor=MS4x",
    ):
        answer = await api.call("GET", path)
        assert (answer.status, answer.code) in ((400, "invalid_cursor"), (422, "invalid_parameter")), path


HOSTILE_PARAMETERS = [
    "limit=0",
    "limit=201",
    "limit=-1",
    "limit=9223372036854775808",
    "limit=1000000000",
    "limit=1e2",
    "limit=٣",
    "limit=+5",
    "offset=-1",
    "page=2",
    "sort=id;DROP%20TABLE",
    "state=nonsense",
    "after=yesterday",
    "after=2026-01-01T00:00:00",
    "before=99999999999999999999",
    "limit=1&limit=2",
    "type=%00",
    "type=%ff",
    "&".join(f"x{n}=1" for n in range(100)),
]


async def test_a_hostile_parameter_is_refused(api: Api):
    for query in HOSTILE_PARAMETERS:
        answer = await api.call("GET", "/api/v1/events?" + quote(query, safe="=&%;+"))

        assert (answer.status, answer.code) == (422, "invalid_parameter"), query


async def test_unknown_ids_are_not_found_and_byte_identical(api: Api):
    answers = [await api.call("GET", f"/api/v1/events/{name}") for name in ("evt_1", "evt_2", "x" * 500)]
    no_names = [await api.call("GET", f"/api/v1/events/{name}") for name in ("%ff", "%00")]

    assert {answer.status for answer in answers} == {404}
    assert len({answer.body for answer in answers}) == 1
    for answer in no_names:
        assert (answer.status, answer.json["detail"]) == (
            404,
            "there is nothing at this path; /api/docs lists all calls",
        )


async def test_an_unknown_path_is_404_and_a_wrong_method_is_405_with_allow(api: Api):
    unknown = await api.call("GET", "/api/v1/nothing")
    wrong = await api.call("PUT", "/api/v1/events", {})
    page = await api.call("DELETE", "/healthz")

    assert (unknown.status, unknown.code) == (404, "not_found")
    assert (wrong.status, wrong.code, wrong.headers["allow"]) == (405, "method_not_allowed", "GET, HEAD, POST")
    assert page.status == 405


async def test_head_is_answered_without_a_body(api: Api):
    api.connection.writer.write(api.connection.request("HEAD", "/api/v1/overview"))
    answer = await api.connection.answer(to_head=True)

    assert answer.status == 200
    assert (await api.call("GET", "/healthz")).status == 200


async def test_an_event_that_matches_nothing_says_so(api: Api):
    event = await api.publish()

    assert "no endpoint matched" in (await api.get(f"/api/v1/events/{event['id']}/why"))["why"]


async def test_why_an_event_waits_is_told_at_the_same_cost_however_many_endpoints_it_waits_at(
    api: Api, sink: Sink, monkeypatch: pytest.MonkeyPatch
):
    """For each of its deliveries all health of the tenant and all its tries were read: with 200 endpoints 2.8 s."""
    sink.react = lambda _: Answer(status=500)
    many, store = 40, api.server.services.store
    for _ in range(many):
        await api.endpoint(sink.url(), backoff_ms=60_000)
    event = await api.publish(key="k")
    path = f"/api/v1/events/{event['id']}"

    async def all_wait() -> bool:
        return {one["state"] for one in (await api.get(path))["deliveries"]} == {"retrying"}

    await eventually(all_wait)
    asked: Counter[str] = Counter()

    def counted(name: str) -> Any:
        verb = getattr(store, name)

        def ask(*args: Any) -> Any:
            asked[name] += 1
            return verb(*args)

        return ask

    for name in ("lane", "lanes_named", "endpoint", "endpoints", "health", "attempts"):
        monkeypatch.setattr(store, name, counted(name))
    told = await api.get(f"{path}/why")

    assert len(told["deliveries"]) == many
    assert all("#1 of k failed 1 time of at most 35 (last: 500" in one["why"] for one in told["deliveries"])
    assert asked["attempts"] == asked["health"] == 1
    assert asked.total() < 10


NAUGHTY = [
    "<script>alert(1)</script>",
    "javascript:alert(1)",
    "' OR '1'='1",
    "%s%n%x",
    "‮txet",
    "̷̧̛Z̵͙͛a̶l̴g̷o̶",
    "🏳️‍🌈",
    "../../etc/passwd",
    "null",
    "NaN",
    "\ufeff",
    "a" * 255,
    "\u2028\u2029",
    "ＴＥＳＴ",
    "${jndi:ldap://x}",
    "{{7*7}}",
]


async def test_naughty_text_comes_back_byte_for_byte_as_data_and_key(api: Api, endpoint: Any):
    for text in NAUGHTY:
        body = json.dumps({"type": "a", "data": {"value": text}, "key": text}, ensure_ascii=False).encode()
        made = await api.call("POST", "/api/v1/events", body)
        as_type = await api.call("POST", "/api/v1/events", {"type": text + " ", "data": 1})

        assert made.status == 202, text
        event = await api.get(f"/api/v1/events/{made.json['id']}")
        assert (event["data"]["value"], event["key"]) == (text, text)
        assert as_type.code == "invalid_type", text


async def test_a_search_for_a_pattern_with_many_stars_is_refused(api: Api):
    few = await api.call("GET", f"/api/v1/events?type={'*a' * 8}")
    many = await api.call("GET", f"/api/v1/events?type={'*a' * 9}")
    long = await api.call("GET", f"/api/v1/events?type={'a' * 256}")
    plan = await api.call("POST", "/api/v1/plans", {"op": "replay", "filter": {"state": "dead", "reason": "*a" * 9}})

    assert (few.status, many.status, many.code) == (200, 422, "invalid_parameter")
    assert (long.status, long.code) == (422, "invalid_parameter")
    assert plan.status in (400, 422)
    assert "at most 8 `*`" in plan.json["detail"]
