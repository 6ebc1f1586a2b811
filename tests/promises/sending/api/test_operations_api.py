"""Health, metrics, overview, and the description of the API."""

import asyncio
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Sink

from hooklane.errors import StoreBusy, StoreError, StoreFull, StoreGone, StoreUnavailable
from hooklane.server.api import ROUTES
from hooklane.server.problem import CODES


@pytest.fixture
def cores() -> int:
    """With the process that writes, as on most machines."""
    return 2


async def until_ready(api: Api) -> None:
    async def ready() -> bool:
        return (await api.call("GET", "/readyz")).status == 200

    await eventually(ready)


async def test_a_server_that_answers_is_alive_and_soon_ready(api: Api):
    assert (await api.call("GET", "/healthz")).json == {"status": "ok"}
    await until_ready(api)

    assert (await api.call("GET", "/readyz")).json == {"status": "ready"}


async def test_a_server_whose_store_does_not_answer_is_not_ready(api: Api, monkeypatch: pytest.MonkeyPatch):
    async def broken(*_: Any) -> None:
        raise StoreUnavailable("gone")

    await until_ready(api)  # a relay that has not joined yet ends where the store fails
    monkeypatch.setattr(api.server.services.store, "roster", broken)
    answer = await api.call("GET", "/readyz")

    assert (answer.status, "retry-after" in answer.headers) == (503, True)
    assert (await api.call("GET", "/healthz")).status == 200


TROUBLE = [
    (StoreUnavailable("x"), 503, "unavailable"),
    (StoreBusy("x"), 503, "busy"),
    (StoreFull("x"), 507, "storage_full"),
    (StoreGone("x"), 503, "storage_gone"),
    (StoreError("x"), 503, "unknown_outcome"),
]


async def test_trouble_of_the_store_is_told_with_when_to_come_back(
    api: Api, monkeypatch: pytest.MonkeyPatch, publish_path: str
):
    for error, status, code in TROUBLE:

        async def broken(*_: Any, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(api.server.services.store, "publish", broken)
        answer = await api.call("POST", publish_path, {"type": "a", "data": 1})

        assert (answer.status, answer.code) == (status, code)
        assert answer.headers["retry-after"].isdigit()


async def test_nothing_is_answered_before_the_commit(api: Api, monkeypatch: pytest.MonkeyPatch, publish_path: str):
    store = api.server.services.store
    commit, may_commit = store.publish, asyncio.Event()

    async def held(drafts: Any) -> Any:
        await may_commit.wait()
        return await commit(drafts)

    monkeypatch.setattr(store, "publish", held)
    api.connection.writer.write(api.connection.request("POST", publish_path, {"type": "a", "data": 1}))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await api.connection.reader.read(1)

    may_commit.set()
    assert (await api.connection.answer()).status == 202


async def test_the_metrics_of_the_contract_are_there_without_a_label_per_key(
    api: Api, sink: Sink, endpoint: dict[str, Any]
):
    sink.follow([Answer(), Answer(status=500)])
    for number in range(3):
        await api.publish(data=number, key="secret-key")
    await sink.arrived(4)

    async def counted() -> str | None:
        text = (await api.call("GET", "/metrics")).body.decode()
        delivered = f'hooklane_attempts_total{{endpoint="{endpoint["id"]}",outcome="delivered"}} 3.0'
        return text if delivered in text and "hooklane_backlog 0.0" in text else None

    text = await eventually(counted)
    assert "hooklane_events_published_total 3.0" in text
    assert f'hooklane_attempts_total{{endpoint="{endpoint["id"]}",outcome="retry"}} 1.0' in text
    assert "hooklane_delivery_seconds_count 3.0" in text
    assert "hooklane_attempt_seconds_count 4.0" in text
    assert 'hooklane_lanes{state="idle"} 1.0' in text
    assert "hooklane_oldest_pending_seconds 0.0" in text
    assert 'hooklane_dead_letters{side="sender"} 0.0' in text
    assert "hooklane_fence_rejections_total 0.0" in text
    assert "hooklane_missed_by_polls_total 0.0" in text
    assert f'hooklane_breaker_state{{endpoint="{endpoint["id"]}"}} 0.0' in text
    assert "secret-key" not in text


async def test_the_overview_says_whether_anything_is_stuck(api: Api, sink: Sink, endpoint: dict[str, Any]):
    assert (await api.get("/api/v1/overview"))["verdict"] == "Healthy"
    sink.react = lambda _: Answer(status=422)
    await api.publish(key="A")

    async def stuck() -> dict[str, Any] | None:
        overview = await api.get("/api/v1/overview")
        return dict(overview) if overview["lanes"]["blocked"] else None

    overview = await eventually(stuck)
    assert overview["verdict"] == "1 lane is blocked by a dead letter"
    assert (overview["ledger"]["accepted"], overview["ledger"]["dead"]) == (1, 1)
    assert overview["oldest_pending_at"] is not None
    assert overview["endpoints"] == [{"id": endpoint["id"], "name": "", "state": "active"}]


async def test_the_overview_does_not_say_healthy_beside_a_dead_letter_that_blocks_no_lane(
    api: Api, sink: Sink, endpoint: dict[str, Any]
):
    sink.react = lambda _: Answer(status=422)
    await api.publish(key=None)

    async def dead() -> str | None:
        overview = await api.get("/api/v1/overview")
        return str(overview["verdict"]) if overview["ledger"]["dead"] else None

    assert await eventually(dead) == "No lane is blocked, 1 dead letter waits to be replayed or skipped"


async def test_the_description_holds_every_call_and_every_code(api: Api):
    document = await api.get("/api/openapi.json")

    assert document["openapi"] == "3.1.0"
    described = {(method.upper(), path) for path, calls in document["paths"].items() for method in calls}
    assert described == {(route.method, route.path) for route in ROUTES}
    assert set(document["x-codes"]) == set(CODES)
    ids = [call["operationId"] for calls in document["paths"].values() for call in calls.values()]
    assert len(ids) == len(set(ids))
    body = document["paths"]["/api/v1/events"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(document["components"]["schemas"][body["$ref"].rpartition("/")[2]]["properties"]) == {
        "type",
        "data",
        "key",
        "id",
        "endpoints",
    }
