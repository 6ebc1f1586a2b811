"""What the dashboard's screens ask: is anything stuck, what do I do, and how is it going?"""

from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api, Start
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Sink


@pytest.fixture
async def api(shared_db: str, start: Start) -> Api:
    """SQLite and PostgreSQL in turn."""
    made: Api = await start(db=shared_db)
    return made


async def until(api: Api, path: str, is_so: Any) -> Any:
    async def asked() -> Any:
        found = await api.get(path)
        return found if is_so(found) else None

    return await eventually(asked)


async def blocked(api: Api, sink: Sink, *keys: str, behind: int = 0) -> list[dict[str, Any]]:
    """Lanes whose first event is dead, with others behind it."""
    sink.react = lambda _: Answer(status=422, body=b'{"error": "unknown sku"}')
    for key in keys:
        await api.publish("order.updated", {"sku": "X-9"}, key=key)
        for number in range(behind):
            await api.publish("order.paid", {"n": number}, key=key)
    found = await until(
        api, "/api/v1/lanes?state=blocked&order=attention", lambda page: len(page["items"]) == len(keys)
    )
    sink.react = lambda _: Answer()
    items: list[dict[str, Any]] = found["items"]
    return items


def _is_counted(overview: Any) -> bool:
    """Counts may be a few seconds old."""
    return bool(overview["delivered"] == 1 and overview["waiting_behind_blocked"] == 2)


async def test_the_overview_says_how_it_is_going_and_what_to_look_at_first(api: Api, sink: Sink, endpoint: Any) -> None:
    await api.publish("order.created", key="A")
    await sink.arrived(1)
    await blocked(api, sink, "order:1017", behind=2)

    overview = await until(api, "/api/v1/overview?range=15m", _is_counted)

    assert (overview["published"], overview["first_try"], overview["eventual"]) == (4, 1.0, 0.5)
    oldest = overview["oldest"]
    assert (oldest["key"], oldest["head"], oldest["reason"], oldest["waiting"]) == ("order:1017", 1, "422", 2)
    assert overview["top_reasons"][0] == {
        "endpoint": endpoint["id"],
        "endpoint_name": endpoint["name"],
        "reason": "422",
        "count": 3,
    }
    assert overview["attempt_ms"]["p50"] > 0
    assert overview["rates"]["delivered"] > 0
    assert [one["partitions"] for one in overview["workers"]] == [256]
    assert (await api.call("GET", "/api/v1/overview?range=1y")).code == "invalid_parameter"


async def test_the_board_shows_the_longest_blocked_lane_first_with_what_the_endpoint_said(
    api: Api, sink: Sink, endpoint: Any
) -> None:
    await api.publish(key="quiet")
    await api.publish(key="second")
    await sink.arrived(2)
    await until(api, "/api/v1/lanes?state=idle", lambda page: len(page["items"]) == 2)
    await blocked(api, sink, "first")
    await blocked(api, sink, "first", "second", behind=1)

    page = await until(api, "/api/v1/lanes?order=attention", lambda page: page["counts"]["blocked"] == 2)

    assert [(one["key"], one["waiting"]) for one in page["items"]] == [("first", 2), ("second", 1)]
    assert [one["settled"] for one in page["items"]] == [[], [[1, "delivered"]]]
    assert page["items"][0]["head_said"] == '{"error": "unknown sku"}'
    assert page["counts"] == {"idle": 1, "active": 0, "retrying": 0, "blocked": 2, "paused": 0}
    assert page["quiet"] == 1


async def test_the_board_is_read_page_by_page_and_holds_each_lane_once(api: Api, sink: Sink, endpoint: Any) -> None:
    keys = [f"key-{number}" for number in range(7)]
    await blocked(api, sink, *keys)
    await api.call("POST", f"/api/v1/endpoints/{endpoint['id']}/pause")
    for number in range(5):
        await api.publish(key=f"held-{number}")

    seen: list[str] = []
    since: list[str] = []
    path = "/api/v1/lanes?order=attention&limit=2"
    cursor = ""
    for _ in range(20):
        page = await api.get(f"{path}{cursor}")
        seen += [one["key"] for one in page["items"]]
        since += [one["since"] for one in page["items"] if one["state"] == "blocked"]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"

    assert sorted(seen[:7]) == keys
    assert since == sorted(since)
    assert sorted(seen[7:]) == [f"held-{number}" for number in range(5)]


async def test_a_skipped_event_is_shown_as_such_in_its_lane(api: Api, sink: Sink, endpoint: Any) -> None:
    [lane] = await blocked(api, sink, "A", behind=1)
    await api.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/skip", {"note": "cancelled by the customer"})

    page = await until(api, "/api/v1/lanes?state=idle", lambda page: page["items"])

    assert page["items"][0]["settled"] == [[1, "skipped"], [2, "delivered"]]


async def test_a_lane_that_retries_tells_when_it_will_be_tried_and_when_it_would_die(api: Api, sink: Sink) -> None:
    sink.react = lambda _: Answer(status=503)
    await api.endpoint(sink.url("/hook"), attempts_max=4, backoff_ms=60_000)
    event = await api.publish(key="A")
    endpoint_id = event["lanes"][0]["endpoint"]

    lane = await until(api, f"/api/v1/lanes/{endpoint_id}/A", lambda one: one["state"] == "retrying")

    assert [one["try"] for one in lane["forecast"]] == [2, 3, 4]
    assert lane["forecast"][0]["from"] == lane["forecast"][0]["to"] == lane["next_at"]
    assert lane["forecast"][1]["from"] < lane["forecast"][1]["to"]
    assert lane["dies_between"] == {"from": lane["forecast"][2]["from"], "to": lane["forecast"][2]["to"]}


async def test_a_lane_tells_what_its_consumer_says(api: Api, sink: Sink, endpoint: Any) -> None:
    said = iter(["applied", "duplicate"])
    sink.react = lambda _: Answer(headers={"hooklane-outcome": next(said)})
    await api.publish(key="A")
    await api.publish(key="A")
    await sink.arrived(2)

    lane = await until(api, f"/api/v1/lanes/{endpoint['id']}/A", lambda one: one["state"] == "idle")

    assert lane["consumer"] == {"last_applied": 2, "duplicates": 1, "outcome": "duplicate"}
    overview = await api.get("/api/v1/overview")
    assert overview["duplicates"] == 1


async def test_the_attempts_of_late_are_there_for_a_page_that_has_just_opened(
    api: Api, sink: Sink, endpoint: Any, start: Start, shared_db: str
) -> None:
    event = await api.publish("order.created", key="A")
    await sink.arrived(1)
    [lane] = await blocked(api, sink, "B")

    page = await until(api, "/api/v1/attempts", lambda page: len(page["items"]) == 4)

    assert [one["outcome"] for one in page["items"]] == ["dead", "retry", "retry", "delivered"]
    assert page["items"][-1]["event"] == event["id"]
    [dead] = (await api.get("/api/v1/attempts?outcome=dead&limit=1"))["items"]
    assert (dead["key"], dead["status"], dead["attempt"]) == ("B", 422, 3)
    assert (await api.get("/api/v1/attempts?after=2100-01-01T00:00:00Z"))["items"] == []
    fresh: Api = await start(db=shared_db, role=("api",))  # it has seen nothing, and knows what still matters
    [stored] = (await fresh.get(f"/api/v1/attempts?endpoint={endpoint['id']}"))["items"]
    assert stored == dead
    assert lane["head_event"] == dead["event"]


async def test_an_attempt_tells_the_body_that_was_sent(api: Api, sink: Sink, endpoint: Any) -> None:
    [lane] = await blocked(api, sink, "A", behind=1)
    await api.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/skip", {"note": "cancelled"})
    await sink.arrived(4)
    body = sink.requests[-1].body

    [attempt] = (
        await until(api, f"/api/v1/events/{sink.requests[-1].headers['webhook-id']}/attempts", lambda one: one["items"])
    )["items"]

    assert attempt["detail"]["request_body"] == body.decode()
    assert attempt["detail"]["request_bytes"] == len(body)


async def test_the_story_of_an_event_tells_for_whom_it_waited_and_what_people_did(
    api: Api, sink: Sink, endpoint: Any
) -> None:
    [lane] = await blocked(api, sink, "A", behind=1)
    letter = f"/api/v1/dead-letters/{lane['dead_letter']}"
    await api.call("PATCH", letter, {"note": "asked the shop", "assignee": "kim"})
    first = lane["head_event"]
    behind = (await api.get("/api/v1/events?key=A"))["items"][0]["id"]
    waiting = (await api.get(f"/api/v1/events/{behind}/story"))["items"]
    await api.call("POST", f"{letter}/replay")
    await until(api, f"/api/v1/events/{behind}", lambda one: one["deliveries"][0]["state"] == "delivered")

    story = (await api.get(f"/api/v1/events/{first}/story"))["items"]
    told = [(one["kind"], one["attempt"], one["actor"]) for one in story]
    assert told == [
        ("published", None, None),
        ("try", 1, None),
        ("try", 2, None),
        ("try", 3, None),
        ("dead", 3, None),
        ("noted", None, "api"),
        ("noted", None, "api"),
        ("replayed", None, "api"),
        ("delivered", 1, None),
    ]
    assert [(one["kind"], one["for_seq"]) for one in waiting] == [("published", None), ("waited", 1)]
    [_, waited, landed] = (await api.get(f"/api/v1/events/{behind}/story"))["items"]
    assert (waited["kind"], waited["for_seq"], landed["kind"]) == ("waited", 1, "delivered")
    assert waited["ms"] > 0


async def test_a_skip_is_in_the_story_with_its_note(api: Api, sink: Sink, endpoint: Any) -> None:
    [lane] = await blocked(api, sink, "A")
    await api.call("POST", f"/api/v1/dead-letters/{lane['dead_letter']}/skip", {"note": "OPS-412"})

    story = (await api.get(f"/api/v1/events/{lane['head_event']}/story"))["items"]

    assert (story[-1]["kind"], story[-1]["note"], story[-1]["actor"]) == ("skipped", "OPS-412", "api")


async def test_dead_letters_are_searched_and_grouped_by_what_they_died_of(api: Api, sink: Sink, endpoint: Any) -> None:
    await blocked(api, sink, "A", "B", behind=2)

    async def found(query: str) -> list[str]:
        # In the order in which they died, and either may die first.
        return sorted(one["key"] for one in (await api.get(f"/api/v1/dead-letters?{query}"))["items"])

    for query in ("", "http=422", "http=4xx", "reason=4*", "type=order.*", "after=2020-01-01T00:00:00Z"):
        assert await found(query) == ["A", "B"], query
    for query in ("http=5xx", "reason=timeout", "type=payment.*", "key=C", "before=2020-01-01T00:00:00Z"):
        assert await found(query) == [], query
    assert await found("key=B") == ["B"]
    assert (await api.call("GET", "/api/v1/dead-letters?http=teapot")).code == "invalid_parameter"
    letter = (await api.get("/api/v1/dead-letters?key=A"))["items"][0]
    assert (letter["said"], letter["endpoint_name"], letter["assignee"]) == ('{"error": "unknown sku"}', "", "")
    causes = await until(api, "/api/v1/dead-letters/causes", lambda page: page["items"])
    [cause] = causes["items"]
    assert (cause["endpoint"], cause["reason"], cause["letters"], cause["keys"], cause["holds_back"]) == (
        endpoint["id"],
        "422",
        2,
        2,
        4,
    )


async def test_gaps_of_different_seqs_are_one_cause_that_a_filter_finds(api: Api, sink: Sink, endpoint: Any) -> None:
    sink.react = lambda request: Answer(
        status=409 if request.headers["x-seq"] == expects[request.headers["x-key"]] else 200,
        headers={"webhook-expected-seq": "1"},
    )
    expects = {"A": "2", "B": "3"}
    for key in ("A", "A", "B", "B", "B"):
        await api.call("POST", "/api/v1/events", {"type": "order.updated", "key": key, "data": {}})

    letters = await until(api, "/api/v1/dead-letters?reason=seq_gap", lambda page: len(page["items"]) == 2)
    causes = await until(api, "/api/v1/dead-letters/causes", lambda page: page["items"])

    assert {letter["key"]: letter["seq"] for letter in letters["items"]} == {"A": 2, "B": 3}
    assert [(one["reason"], one["letters"], one["keys"]) for one in causes["items"]] == [("seq_gap", 2, 2)]
    lane = await api.get(f"/api/v1/lanes/{endpoint['id']}/A/why")
    assert "(last: seq_gap, the receiver lacks what came before)" in lane["why"]


async def test_a_dead_letter_has_a_person_who_looks_after_it(api: Api, sink: Sink, endpoint: Any) -> None:
    [lane] = await blocked(api, sink, "A")
    path = f"/api/v1/dead-letters/{lane['dead_letter']}"

    changed = (await api.call("PATCH", path, {"assignee": "kim"})).json

    assert (changed["assignee"], changed["note"]) == ("kim", "")
    assert (await api.call("PATCH", path, {})).code == "invalid_body"
    assert (await api.call("PATCH", path, {"assignee": "two\nlines"})).code == "invalid_body"
    assert (await api.call("PATCH", "/api/v1/dead-letters/dlv_none", {"assignee": "kim"})).status == 404


async def test_a_plan_to_skip_one_letter_names_every_event_that_follows(api: Api, sink: Sink, endpoint: Any) -> None:
    [lane] = await blocked(api, sink, "order:1017", behind=2)

    plan = (await api.call("POST", "/api/v1/plans", {"op": "skip", "ids": [lane["dead_letter"]]})).json

    [release] = plan["releases"]
    assert (release["url"], release["order"], release["sees"]) == (endpoint["url"], "key", "seq 0 → 2")
    assert (release["skipped"]["seq"], release["skipped"]["data_excerpt"]) == (1, '{"sku": "X-9"}')
    assert [(one["seq"], one["type"], one["data_excerpt"]) for one in release["released"]] == [
        (2, "order.paid", '{"n": 0}'),
        (3, "order.paid", '{"n": 1}'),
    ]


async def test_a_job_can_be_called_off_while_its_grace_lasts(api: Api, sink: Sink, endpoint: Any) -> None:
    [lane] = await blocked(api, sink, "A", behind=1)
    plan = (await api.call("POST", "/api/v1/plans", {"op": "skip", "ids": [lane["dead_letter"]]})).json
    run = await api.call("POST", f"/api/v1/plans/{plan['id']}/run", {"note": "typo", "grace_s": 300})
    assert (run.status, run.json["state"]) == (202, "running")
    assert run.json["starts_at"] > run.json["started_at"]
    listed = await api.get("/api/v1/jobs?state=running")
    assert [one["id"] for one in listed["items"]] == [run.json["id"]]

    stopped = await api.call("DELETE", f"/api/v1/jobs/{run.json['id']}")

    assert (stopped.json["state"], stopped.json["counts"]["cancelled"]) == ("stopped", 1)
    assert (await api.get(f"/api/v1/lanes/{endpoint['id']}/A"))["state"] == "blocked"
    assert (await api.get("/api/v1/jobs?state=running"))["items"] == []
    assert [one["id"] for one in (await api.get("/api/v1/plans"))["items"]] == [plan["id"]]
    assert (await api.call("GET", "/api/v1/jobs?state=lost")).code == "invalid_parameter"


async def test_a_job_acts_when_its_grace_is_over(api: Api, sink: Sink, endpoint: Any) -> None:
    [lane] = await blocked(api, sink, "A", behind=1)
    plan = (await api.call("POST", "/api/v1/plans", {"op": "skip", "ids": [lane["dead_letter"]]})).json
    await api.call("POST", f"/api/v1/plans/{plan['id']}/run", {"note": "cancelled", "grace_s": 0.3})

    lane = await until(api, f"/api/v1/lanes/{endpoint['id']}/A", lambda one: one["state"] == "idle")

    assert lane["settled"] == [[1, "skipped"], [2, "delivered"]]


async def test_a_job_that_stops_at_its_first_failure_leaves_the_rest_as_it_was(
    api: Api, sink: Sink, endpoint: Any
) -> None:
    await blocked(api, sink, *(f"key-{number}" for number in range(4)))
    sink.react = lambda _: Answer(status=422)
    plan = (await api.call("POST", "/api/v1/plans", {"op": "replay", "filter": {"state": "dead"}})).json
    how = {"rate": 1.0, "stop_at_first_failure": True}
    job = (await api.call("POST", f"/api/v1/plans/{plan['id']}/run", how)).json

    ended = await until(api, f"/api/v1/jobs/{job['id']}", lambda one: one["state"] == "done")

    assert ended["counts"]["failed"] >= 1
    assert ended["counts"]["cancelled"] >= 1
    assert ended["counts"]["failed"] + ended["counts"]["cancelled"] == 4


async def test_events_are_found_by_text_place_tries_and_answers(api: Api, sink: Sink, endpoint: Any) -> None:
    good = await api.publish("order.created", key="order:1001")
    loose = await api.publish("note.added")
    await sink.arrived(2)
    [lane] = await blocked(api, sink, "order:1017")
    dead = lane["head_event"]

    async def found(query: str) -> set[str]:
        return {one["id"] for one in (await api.get(f"/api/v1/events?{query}"))["items"]}

    await until(api, f"/api/v1/events/{good['id']}/attempts", lambda page: page["items"])
    for query, ids in {
        "q=1017": {dead},
        "q=ORDER": {good["id"], dead},
        "q=note": {loose["id"]},
        f"q={good['id'][:16]}": await found(f"id={good['id']}") | await found(f"q={good['id'][:16]}"),
        f"id={loose['id']}": {loose["id"]},
        f"id={loose['id'][:-1]}": set(),
        "seq=1&key=order:1001": {good["id"]},
        "seq=2": set(),
        "attempts_min=2": {dead},
        "attempts_min=4": set(),
        "http=422": {dead},
        "http=2xx&type=order.*": {good["id"]},
        "http=5xx": set(),
        "reason=4*": {dead},
        "type=*.added": {loose["id"]},
        "state=dead&http=4xx": {dead},
    }.items():
        assert await found(query) == ids, query
    assert good["id"] in await found(f"q={good['id'][:16]}")
    for wrong in ("seq=0", "attempts_min=x", "http=9"):
        assert (await api.call("GET", f"/api/v1/events?{wrong}")).code == "invalid_parameter"


async def test_an_answer_with_a_nul_hides_nothing_from_the_lists(api: Api, sink: Sink):
    sink.react = lambda seen: Answer(status=422, body=b"oops \x00 nul")
    await api.endpoint(sink.url(), attempts_max=1)
    await api.publish(key="k")

    async def letters() -> Any:
        return (await api.get("/api/v1/dead-letters"))["items"]

    [letter] = await eventually(letters)

    assert letter["said"] == "oops \0 nul"
    assert [one["key"] for one in (await api.get("/api/v1/lanes"))["items"]] == ["k"]
    assert await until(api, "/api/v1/overview", lambda found: found["ledger"]["dead"] == 1)  # counted now and then
    lines = await api.call("GET", "/api/v1/dead-letters", headers={"accept": "application/x-ndjson"})
    assert lines.body.count(b"\n") == 1
