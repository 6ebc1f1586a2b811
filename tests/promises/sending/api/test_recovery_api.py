"""Lanes, dead letters and their recovery over HTTP."""

import asyncio
import json
from typing import Any
from urllib.parse import quote

from tests.promises.sending.api.conftest import Api
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Request, Sink


async def blocked(api: Api, sink: Sink, key: str, behind: int = 2) -> dict[str, Any]:
    """A lane whose head has died, with events behind it; the receiver is mended again."""
    sink.react = lambda _: Answer(status=422, body=b"unknown sku")
    for number in range(1 + behind):
        await api.publish(data={"n": number}, key=key)

    async def dead() -> dict[str, Any] | None:
        lanes = (await api.get(f"/api/v1/lanes?state=blocked&q={quote(key)}"))["items"]
        return dict(lanes[0]) if lanes and lanes[0]["waiting"] == behind else None

    lane = await eventually(dead)
    sink.react = lambda _: Answer()
    return lane


def seqs(requests: list[Request]) -> list[str]:
    return [request.headers["x-seq"] for request in requests]


async def test_a_dead_head_blocks_its_lane_and_no_other(api: Api, sink: Sink, endpoint: dict[str, Any]):
    lane = await blocked(api, sink, "A")
    await api.publish(key="B")
    [other] = await sink.arrived(1, where=lambda request: request.headers["x-key"] == "B")

    assert (lane["state"], lane["head"], lane["tail"], lane["waiting"]) == ("blocked", 1, 3, 2)
    assert (lane["attempts"], lane["reason"], lane["head_type"]) == (3, "422", "order.created")
    assert other.headers["x-seq"] == "1"
    assert seqs([one for one in sink.requests if one.headers["x-key"] == "A"]) == ["1", "1", "1"]


async def test_a_replay_sends_the_same_event_again_and_then_what_waited(api: Api, sink: Sink, endpoint: Any):
    lane = await blocked(api, sink, "A")
    died = sink.requests[0]

    answer = await api.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/replay")
    requests = (await sink.arrived(6))[3:]

    assert (answer.status, answer.json["released"], answer.json["seq"]) == (200, 2, 1)
    assert seqs(requests) == ["1", "2", "3"]
    assert requests[0].headers["webhook-id"] == died.headers["webhook-id"]
    assert requests[0].body == died.body
    assert requests[0].headers["x-attempt"] == "1"


async def test_a_skip_needs_a_note_and_releases_what_waited(api: Api, sink: Sink, endpoint: Any):
    lane = await blocked(api, sink, "A")
    path = f"/api/v1/dead-letters/{lane['dead_letter']}/skip"

    without = [await api.call("POST", path, body) for body in (None, {}, {"note": ""}, {"note": "  "})]
    answer = await api.call("POST", path, {"note": "customer cancelled"})
    requests = (await sink.arrived(5))[3:]

    assert {(one.status, one.code) for one in without} == {(422, "note_required")}
    assert (answer.status, answer.json["released"]) == (200, 2)
    assert seqs(requests) == ["2", "3"]
    assert requests[0].headers["x-prev-seq"] == "0"

    async def counted() -> bool:  # now and then, where counting takes long
        return bool((await api.get("/api/v1/overview"))["ledger"]["skipped"] == 1)

    assert await eventually(counted)


async def test_what_is_no_longer_dead_cannot_be_recovered_again(api: Api, sink: Sink, endpoint: Any):
    lane = await blocked(api, sink, "A")
    path = f"/api/v1/dead-letters/{lane['dead_letter']}"

    first, second = await asyncio.gather(_post(api, f"{path}/replay"), _post(api, f"{path}/skip", {"note": "x"}))

    assert sorted((first, second)) in ([200, 404], [200, 409])


async def _post(api: Api, path: str, body: Any = None) -> int:
    async with api.connect() as connection:
        return (await connection.call("POST", path, body)).status


async def test_dead_letters_can_be_listed_shown_and_noted(api: Api, sink: Sink, endpoint: dict[str, Any]):
    lane = await blocked(api, sink, "A")
    path = f"/api/v1/dead-letters/{lane['dead_letter']}"

    noted = await api.call("PATCH", path, {"note": "see <b>OPS-412</b>"})
    [listed] = (await api.get("/api/v1/dead-letters"))["items"]
    shown = await api.get(path)

    assert noted.json["note"] == listed["note"] == shown["note"] == "see <b>OPS-412</b>"
    assert shown["data"] == {"n": 0}
    assert (listed["endpoint"], listed["key"], listed["seq"], listed["waiting"]) == (endpoint["id"], "A", 1, 2)
    assert (await api.get("/api/v1/dead-letters?endpoint=ep_other"))["items"] == []
    assert (await api.call("GET", "/api/v1/dead-letters?side=nowhere")).code == "invalid_parameter"


async def test_all_dead_letters_can_be_read_as_lines(api: Api, sink: Sink, endpoint: Any):
    for key in ("A", "B", "C"):
        await blocked(api, sink, key, behind=0)

    answer = await api.call("GET", "/api/v1/dead-letters", headers={"accept": "application/x-ndjson"})

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert {json.loads(line)["key"] for line in answer.body.splitlines()} == {"A", "B", "C"}


async def test_a_url_that_is_no_longer_allowed_is_not_replayed_to(start: Any, sink: Sink):
    api = await start()
    await api.endpoint(sink.url(), attempts_max=1)
    lane = await blocked(api, sink, "A", behind=0)
    closed = await start(egress_allow=(), role=("api",))

    answer = await closed.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/replay")

    assert (answer.status, answer.code) == (422, "url_not_allowed")


async def test_an_unknown_dead_letter_is_not_found(api: Api):
    for method, action, body in (("GET", "", None), ("POST", "/replay", None), ("POST", "/skip", {"note": "x"})):
        answer = await api.call(method, f"/api/v1/dead-letters/dlv_nobody{action}", body)

        assert (answer.status, answer.code) == (404, "not_found"), action


async def test_why_says_in_one_sentence_what_is_waited_for(api: Api, sink: Sink, endpoint: dict[str, Any]):
    lane = await blocked(api, sink, "A")
    events = (await api.get("/api/v1/events"))["items"]

    of_lane = (await api.get(f"/api/v1/lanes/{endpoint['id']}/A/why"))["why"]
    of_event = (await api.get(f"/api/v1/events/{events[0]['id']}/why"))["why"]

    assert of_lane.startswith("#1 of A died after 3 tries (last: 422 'unknown sku');")
    assert f"until you replay or skip #1 ({lane['dead_letter']})" in of_lane
    assert of_event == f"#3 waits for #1; {of_lane}"


ANY_KEYS = ["a/b", "a/why", "why", "ключ 🙂", "a%2Fb", "..", "a?b#c", "'; DROP TABLE x --", "%", "a\\b"]


async def test_a_lane_is_found_by_any_key_percent_encoded(api: Api, sink: Sink, endpoint: dict[str, Any]):
    for key in ANY_KEYS:
        await api.publish(key=key)
    await sink.arrived(len(ANY_KEYS))
    for key in ANY_KEYS:
        lane = await api.get(f"/api/v1/lanes/{endpoint['id']}/{quote(key, safe='')}")
        why = await api.get(f"/api/v1/lanes/{endpoint['id']}/{quote(key, safe='')}/why")
        found = (await api.get(f"/api/v1/lanes?q={quote(key, safe='')}"))["items"]

        assert (lane["key"], [one["seq"] for one in lane["deliveries"]]) == (key, [1])
        assert set(why) == {"why"}
        assert {one["key"] for one in found} == {one for one in ANY_KEYS if key in one}


async def test_an_unknown_lane_is_not_found(api: Api, endpoint: dict[str, Any]):
    for path in (f"{endpoint['id']}/nobody", "ep_nobody/k", f"{endpoint['id']}/%ff"):
        assert (await api.call("GET", f"/api/v1/lanes/{path}")).code == "not_found"


async def test_lanes_carry_the_deliveries_round_the_head_when_asked(api: Api, sink: Sink, endpoint: Any):
    lane = await blocked(api, sink, "A")
    await api.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/skip", {"note": "x"})
    await sink.arrived(5)

    [shown] = (await api.get("/api/v1/lanes?cells=24"))["items"]

    assert shown["deliveries"][0]["state"] == "skipped"
    assert {one["type"] for one in shown["deliveries"]} == {"order.created"}
    assert (await api.call("GET", "/api/v1/lanes?cells=41")).code == "invalid_parameter"
