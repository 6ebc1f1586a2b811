"""How an endpoint does: its figures, who paused it, what its breaker did, and closing that by hand."""

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


async def test_an_endpoint_tells_how_it_does(api: Api, sink: Sink, endpoint: Any) -> None:
    await api.publish(key="A")
    await sink.arrived(1)
    sink.react = lambda _: Answer(status=422)
    await api.publish(key="A")
    await api.publish(key="A")

    async def counted() -> Any:
        [one] = (await api.get("/api/v1/endpoints"))["items"]
        return one if one["stats"]["blocked"] and one["stats"]["success"] == 0.25 else None

    one = await eventually(counted)
    assert one["stats"]["backlog"] == 1
    assert one["stats"]["p95_ms"] > 0
    assert one["stats"]["rate"] > 0
    assert 0 <= one["secret_age_s"] < 3_600
    assert one["tls_expires_at"] is None  # it is not reached by https


async def test_a_paused_endpoint_says_who_paused_it_and_when(api: Api, sink: Sink, endpoint: Any) -> None:
    path = f"/api/v1/endpoints/{endpoint['id']}"
    paused = (await api.call("POST", f"{path}/pause")).json
    again = (await api.call("POST", f"{path}/pause")).json
    resumed = (await api.call("POST", f"{path}/resume", {"rate": 5})).json

    assert (paused["paused_by"], paused["paused_at"] is None) == ("api", False)
    assert again["paused_at"] == paused["paused_at"]
    assert (resumed["paused_by"], resumed["paused_at"], resumed["rate_limit"]) == (None, None, 5.0)
    assert (await api.call("POST", f"{path}/resume")).json["rate_limit"] == 5.0
    assert (await api.call("POST", f"{path}/resume", {"rate": None})).json["rate_limit"] is None
    assert (await api.call("POST", f"{path}/resume", {"rate": -1})).code == "invalid_endpoint"


async def test_a_breaker_tells_what_it_did_and_is_closed_by_hand(api: Api, sink: Sink) -> None:
    sink.react = lambda _: Answer(status=503)
    endpoint = await api.endpoint(sink.url(), backoff_ms=20, backoff_cap_ms=20, attempts_max=1_000)
    for number in range(30):
        await api.publish(key=f"k{number}")
    path = f"/api/v1/endpoints/{endpoint['id']}"

    async def is_open() -> bool:
        return bool((await api.get(f"{path}/breaker"))["state"] == "open")

    await eventually(is_open)
    sink.react = lambda _: Answer()
    closed = await api.call("POST", f"{path}/close")

    assert closed.status == 200
    states = [change["state"] for change in closed.json["changes"]]
    assert (states[0], states[-1]) == ("open", "closed")
    assert closed.json["changes"][-1]["by"] == "api"
    assert [change["at"] for change in closed.json["changes"]] == sorted(
        change["at"] for change in closed.json["changes"]
    )

    async def is_drained() -> bool:
        return not (await api.get("/api/v1/lanes?state=retrying,active"))["items"]

    await eventually(is_drained)
    assert [line["action"] for line in (await api.get("/api/v1/audit?action=breaker.*"))["items"]] == ["breaker.closed"]
    assert (await api.call("POST", f"{path}/close")).status == 200  # it is closed: nothing to do
    kinds = {mark["kind"] for mark in (await api.get("/api/v1/series?range=15m"))["marks"]}
    assert "breaker.open" in kinds


async def test_the_last_hour_of_an_endpoint_shows_what_was_delivered_what_failed_and_that_its_breaker_was_open(
    api: Api, sink: Sink
) -> None:
    well = await api.endpoint(sink.url("/well"), types=["well.*"])
    ill = await api.endpoint(sink.url("/ill"), types=["ill.*"], backoff_ms=20, backoff_cap_ms=20, attempts_max=1_000)
    sink.react = lambda seen: Answer(status=503 if "ill" in seen.path else 200)
    for number in range(30):
        await api.publish("well.it", key=f"k{number}")
        await api.publish("ill.it", key=f"k{number}")

    async def shown() -> Any:
        hour = await api.get(f"/api/v1/endpoints/last-hour?ids={ill['id']},ep_unknown,{well['id']}")
        of_ill, of_well = hour["items"]
        return hour if "open" in of_ill["breaker"][-2:] and sum(of_well["delivered"]) == 30 else None

    hour = await eventually(shown)
    of_ill, of_well = hour["items"]
    assert (of_ill["endpoint"], of_well["endpoint"]) == (ill["id"], well["id"])
    assert hour["step_s"] == 120
    assert {len(of_ill[name]) for name in ("breaker", "delivered", "failed")} == {30}
    assert sum(of_ill["delivered"]) == 0
    assert sum(of_ill["failed"]) >= 20
    assert sum(of_well["failed"]) == 0
    assert of_well["breaker"][-1] == "closed"
    assert of_well["breaker"][:27] == [None] * 27  # there was no endpoint then
    everyone = await api.get("/api/v1/endpoints/last-hour")
    assert [one["endpoint"] for one in everyone["items"]] == [well["id"], ill["id"]]


async def test_the_last_hour_is_told_of_few_endpoints_at_a_time(api: Api) -> None:
    many = ",".join(f"ep_{number}" for number in range(21))

    assert (await api.call("GET", f"/api/v1/endpoints/last-hour?ids={many}")).code == "invalid_parameter"
    assert (await api.call("GET", "/api/v1/endpoints/last-hour?ids=ep_1,,ep_2")).code == "invalid_parameter"
    assert (await api.get(f"/api/v1/endpoints/last-hour?ids={many[:-6]}"))["items"] == []
