"""What the dashboard's screens ask: is anything stuck, what do I do, and how is it going?"""

import asyncio
from typing import Any

import pytest
from tests.api.conftest import Api, Start
from tests.support.pace import scaled_s
from tests.support.receiver import Answer, Sink


@pytest.fixture
async def api(shared_db: str, start: Start) -> Api:
    """SQLite and PostgreSQL in turn."""
    made: Api = await start(db=shared_db)
    return made


async def until(api: Api, path: str, is_so: Any) -> Any:
    async with asyncio.timeout(scaled_s(10)):
        while not is_so(found := await api.get(path)):
            await asyncio.sleep(0.02)
    return found


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
    path = "/api/v1/lanes?order=attention&limit=2"
    cursor = ""
    for _ in range(20):
        page = await api.get(f"{path}{cursor}")
        seen += [one["key"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"

    assert seen[:7] == keys
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
