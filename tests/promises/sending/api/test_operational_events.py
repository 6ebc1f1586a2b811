"""Operational events: the owner is told, at an endpoint that asked for it, and telling never causes more to tell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Request, Sink

V1 = "/api/v1"
ACME = {"hooklane-tenant": "acme"}


def told(sink: Sink, path: str) -> list[dict[str, Any]]:
    """What arrived at an endpoint for operational events."""
    return [json.loads(one.body) for one in sink.requests if one.path == path]


def of_type(type_: str, path: str) -> Any:
    return lambda one: one.path == path and json.loads(one.body)["type"] == type_


@pytest.fixture
async def acme(api: Api, sink: Sink) -> dict[str, Any]:
    """A tenant with an endpoint for its operational events, and the operator's for those of all."""
    quota = {"events_per_s": 20, "endpoints": 2}
    assert (await api.call("POST", f"{V1}/tenants", {"id": "acme", "quota": quota})).status == 201
    await api.endpoint(sink.url("/operator"), operational="all")
    body = {"url": sink.url("/told"), "operational": "tenant", "attempts_max": 1}
    made = await api.call("POST", f"{V1}/endpoints", body, ACME)
    assert (made.status, made.json["order"], made.json["operational"]) == (201, "none", "tenant")
    body = {"url": sink.url("/hook"), "attempts_max": 1, "name": "shop"}
    return dict((await api.call("POST", f"{V1}/endpoints", body, ACME)).json)


async def publish(api: Api, **fields: Any) -> Any:
    return await api.call("POST", f"{V1}/events", {"type": "order.created", "data": 1, **fields}, ACME)


def failing(status: int, *paths: str) -> Any:
    return lambda one: Answer(status=status if one.path in paths else 200)


async def test_a_dead_letter_and_the_lane_that_it_blocks_are_told_to_tenant_and_operator(
    api: Api, sink: Sink, acme: dict[str, Any]
):
    sink.react = failing(422, "/hook")
    event = (await publish(api, key="k/1")).json
    [blocked] = await sink.arrived(1, where=of_type("hooklane.lane.blocked", "/told"))
    await sink.arrived(1, where=of_type("hooklane.lane.blocked", "/operator"))
    letter = (await api.call("GET", f"{V1}/dead-letters", headers=ACME)).json["items"][0]

    data = json.loads(blocked.body)["data"]
    assert (data["tenant"], data["endpoint"], data["endpoint_name"]) == ("acme", acme["id"], "shop")
    assert (data["dead_letter"], data["event"], data["key"], data["reason"]) == (
        letter["id"],
        event["id"],
        "k/1",
        "422",
    )
    types = {"hooklane.lane.blocked", "hooklane.dead_letter.created"}
    assert {one["type"] for one in told(sink, "/told")} == types
    assert "x-key" not in blocked.headers
    assert [one for one in sink.requests if one.path == "/hook"][1:] == [], "nobody else is sent what is operational"


async def test_an_endpoint_that_was_just_deleted_keeps_nobody_else_from_being_told(api: Api, sink: Sink, acme: Any):
    other = await api.endpoint(sink.url("/other"), operational="all")
    sink.react = failing(422, "/hook")
    await publish(api, key="k/1")
    await sink.arrived(1, where=of_type("hooklane.lane.blocked", "/other"))
    assert (await api.call("DELETE", f"{V1}/endpoints/{other['id']}?backlog=cancel")).status == 204
    await publish(api, key="k/2")

    await sink.arrived(2, where=of_type("hooklane.lane.blocked", "/operator"))


async def test_an_endpoint_that_answers_410_is_told_as_disabled(api: Api, sink: Sink, acme: dict[str, Any]):
    sink.react = failing(410, "/hook")
    await publish(api)
    [disabled] = await sink.arrived(1, where=of_type("hooklane.endpoint.disabled", "/told"))

    assert json.loads(disabled.body)["data"]["endpoint"] == acme["id"]


async def test_a_quota_that_is_reached_is_told_once_and_not_with_every_refusal(api: Api, sink: Sink, acme: Any):
    statuses = [(await publish(api, data=n)).status for n in range(60)]
    created = await api.call("POST", f"{V1}/endpoints", {"url": sink.url()}, ACME)

    async def both() -> bool:
        found = [one["data"] for one in told(sink, "/told") if one["type"] == "hooklane.quota.reached"]
        return sorted(one["quota"] for one in found) == ["endpoints", "events_per_s"]

    assert (429 in statuses, created.status) == (True, 429)
    assert await eventually(both)
    assert len([one for one in told(sink, "/told") if one["type"] == "hooklane.quota.reached"]) == 2


async def test_a_breaker_that_opens_and_closes_is_told(api: Api, sink: Sink):
    await api.endpoint(sink.url("/told"), operational="tenant", types=["hooklane.breaker.*"])
    await api.endpoint(sink.url("/hook"), backoff_ms=20, backoff_cap_ms=50, order="none", in_flight_max=8)
    sink.react = failing(503, "/hook")
    for n in range(60):
        await api.publish(data=n)
    [opened] = await sink.arrived(1, where=of_type("hooklane.breaker.opened", "/told"))
    sink.react = failing(200)
    await sink.arrived(1, where=of_type("hooklane.breaker.closed", "/told"), within_s=60)

    assert "next_probe_at" in json.loads(opened.body)["data"]
    assert {one["type"] for one in told(sink, "/told")} == {"hooklane.breaker.opened", "hooklane.breaker.closed"}


async def test_nothing_is_told_about_the_deliveries_of_what_is_told(api: Api, sink: Sink, acme: dict[str, Any]):
    sink.react = failing(422, "/hook", "/told")
    await publish(api, key="k")

    async def dead() -> bool:
        letters = (await api.call("GET", f"{V1}/dead-letters", headers=ACME)).json["items"]
        return sorted(one["type"] for one in letters) == [
            "hooklane.dead_letter.created",
            "hooklane.lane.blocked",
            "order.created",
        ]

    assert await eventually(dead), "they are dead letters like others, on view, and hold up nothing"

    def at_operator() -> list[Request]:
        return [one for one in sink.requests if one.path == "/operator"]

    sink.react = failing(422, "/hook")
    await publish(api, key="other")
    await sink.arrived(2, where=of_type("hooklane.lane.blocked", "/operator"))
    about = [json.loads(one.body)["data"]["type"] for one in at_operator()]
    assert set(about) == {"order.created"}


async def test_an_endpoint_for_operational_events_has_no_order_and_stays_one(api: Api, sink: Sink, acme: Any):
    refused = await api.call("POST", f"{V1}/endpoints", {"url": sink.url(), "operational": "tenant", "order": "key"})
    foreign = await api.call("POST", f"{V1}/tenants", {"id": "other"})
    everything = await api.call(
        "POST", f"{V1}/endpoints", {"url": sink.url(), "operational": "all"}, {"hooklane-tenant": "other"}
    )
    changed = await api.call("PATCH", f"{V1}/endpoints/{acme['id']}", {"operational": "tenant"}, ACME)

    assert (refused.status, refused.code) == (422, "invalid_endpoint")
    assert foreign.status == 201
    assert (everything.status, everything.code) == (422, "invalid_endpoint")
    assert (changed.status, changed.code) == (422, "immutable_field")
