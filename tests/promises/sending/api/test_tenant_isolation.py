"""Every route, for its own tenant, with another tenant's ids and with ids of nobody: the last two look the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.promises.sending.api.conftest import Api
from tests.promises.sending.api.inbox_site import Shop, Site
from tests.support.eventually import eventually
from tests.support.http_client import Answer as Reply
from tests.support.receiver import Answer, Sink

from hooklane.server.api import ROUTES
from hooklane.server.call import Access, Route

V1 = "/api/v1"
KEY = "k/1"
OF_SERVER = ("keys", "types", "session", "secrets", "tenants", "portal", "sim")
"""What is not a tenant's own; who may call it is another test's business."""
OF_TENANT = [
    route
    for route in ROUTES
    if route.needs is Access.KEY and not route.of_server and route.path.split("/")[3] not in OF_SERVER
]
UNKNOWN = {
    "events": "evt_nobody",
    "endpoints": "ep_nobody",
    "dead-letters": "dlv_nobody",
    "plans": "pln_nobody",
    "jobs": "job_nobody",
    "inbox": "99999",
}
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/api/v1/events"): {"type": "order.created", "data": 1},
    ("POST", "/api/v1/events/batch"): {"events": [{"type": "order.created", "data": 1}]},
    ("PATCH", "/api/v1/endpoints/{id}"): {"name": "x"},
    ("PATCH", "/api/v1/dead-letters/{id}"): {"note": "x"},
    ("POST", "/api/v1/dead-letters/{id}/skip"): {"note": "x"},
    ("POST", "/api/v1/plans/{id}/run"): {"note": "x", "digest": "0" * 64},
}


@dataclass(slots=True)
class Town:
    """A tenant with one of everything; the last parts of its paths by resource."""

    api: Api
    tenant: str
    ids: dict[str, str] = field(default_factory=dict)

    async def call(self, method: str, path: str, body: Any = None) -> Reply:
        return await self.api.call(method, path, body, {"hooklane-tenant": self.tenant})

    async def build(self, sink: Sink) -> None:
        bad = {"url": sink.url(f"/bad/{self.tenant}"), "name": f"name-{self.tenant}", "attempts_max": 1}
        self.ids["endpoints"] = (await self.call("POST", f"{V1}/endpoints", bad)).json["id"]
        for key in (KEY, f"key-{self.tenant}"):
            event = {"type": "order.created", "data": {"of": self.tenant}, "key": key}
            self.ids["events"] = (await self.call("POST", f"{V1}/events", event)).json["id"]

        async def letters() -> Any:
            found = (await self.call("GET", f"{V1}/dead-letters")).json["items"]
            return [one["id"] for one in found] if len(found) == 2 else None

        first, second = await eventually(letters)
        self.ids["dead-letters"] = first
        plan = (await self.call("POST", f"{V1}/plans", {"op": "skip", "ids": [second]})).json
        body = {"note": "n", "digest": plan["digest"]}
        self.ids["jobs"] = (await self.call("POST", f"{V1}/plans/{plan['id']}/run", body)).json["id"]
        self.ids["plans"] = (await self.call("POST", f"{V1}/plans", {"op": "skip", "ids": [first]})).json["id"]

    def path(self, route: Route, ids: dict[str, str]) -> str:
        path = route.path.replace("{endpoint}", ids["endpoints"]).replace("{key}", "k%2F1")
        resource = route.path.split("/")[3]
        return path.replace("{id}", ids.get(resource, "0"))


@pytest.fixture
async def towns(site: Site, shop: Shop, dead: str, sink: Sink) -> dict[str, Town]:
    """Two tenants that are alike, on a server whose database holds an inbox too."""
    sink.react = lambda seen: Answer(status=422 if "/bad/" in seen.path else 200)
    found: dict[str, Town] = {}
    for tenant in ("acme", "other"):
        assert (await site.api.call("POST", f"{V1}/tenants", {"id": tenant})).status == 201
        found[tenant] = Town(site.api, tenant)
        await found[tenant].build(sink)
    found["default"] = Town(site.api, "default", {**UNKNOWN, "inbox": dead})
    return found


def order(route: Route) -> tuple[int, str]:
    """What only looks comes first, what deletes comes last."""
    return (["GET", "PUT", "PATCH", "POST", "DELETE"].index(route.method), route.path)


async def test_an_id_of_another_tenant_is_answered_as_one_of_nobody_on_every_route(towns: dict[str, Town]):
    mine, other = towns["acme"], towns["other"]
    theirs = {**other.ids, "inbox": towns["default"].ids["inbox"]}
    before = {town.tenant: await told(town) for town in (other, towns["default"])}
    for route in sorted(OF_TENANT, key=order):
        if "{" not in route.path:
            continue
        body = BODIES.get((route.method, route.path))
        foreign = await mine.call(route.method, mine.path(route, theirs), body)
        nobody = await mine.call(route.method, mine.path(route, UNKNOWN), body)

        name = f"{route.method} {route.path}"
        assert (foreign.status, foreign.body) == (nobody.status, nobody.body), name
        assert foreign.status == 404, (name, foreign)
        same = {one: value for one, value in foreign.headers.items() if one != "date"}
        assert same == {one: value for one, value in nobody.headers.items() if one != "date"}, name
    assert before == {town.tenant: await told(town) for town in (other, towns["default"])}, "and nothing was done"


async def told(town: Town) -> list[Any]:
    """What a tenant's lists say, but for figures that change by themselves."""
    endpoints = (await town.call("GET", f"{V1}/endpoints")).json["items"]
    lists = [(await town.call("GET", f"{V1}/{name}")).json for name in ("audit", "inbox", "ledger")]
    letters = (await town.call("GET", f"{V1}/dead-letters")).json["items"]
    return [*lists, [(one["id"], one["state"], one["name"]) for one in endpoints], [one["id"] for one in letters]]


async def test_a_tenants_own_ids_are_found_on_every_route(towns: dict[str, Town]):
    mine = towns["acme"]
    for route in sorted(OF_TENANT, key=order):
        town = towns["default"] if "/inbox" in route.path else mine
        if route.path == f"{V1}/stream":
            continue
        body, path = BODIES.get((route.method, route.path)), town.path(route, town.ids)
        if route.path == f"{V1}/dead-letters/{{id}}/skip":  # it was replayed, and dies once more

            async def died(letter: str = path.removesuffix("/skip")) -> bool:
                return (await mine.call("GET", letter)).status == 200

            await eventually(died)
        answer = await town.call(route.method, path, body)

        assert answer.status not in (404, 500), (route.method, route.path, answer)


async def test_no_list_of_a_tenant_holds_a_word_of_another(towns: dict[str, Town]):
    mine, other = towns["acme"], towns["other"]
    row = f'"{towns["default"].ids["inbox"]}","side'  # with its quote: a dead letter's id may end with the same digit
    words = {*other.ids.values(), "name-other", "key-other", "/bad/other", row}
    for route in OF_TENANT:
        if route.method != "GET" or "{" in route.path or route.path == f"{V1}/stream":
            continue
        answer = await mine.call("GET", route.path)
        assert answer.status == 200, route.path
        found = [word for word in words if word in answer.body.decode()]
        assert not found, (route.path, found)
    assert (await mine.call("GET", f"{V1}/inbox")).json["items"] == []
    assert (await mine.call("GET", f"{V1}/dead-letters?side=inbox")).json["items"] == []
    ledger = (await mine.call("GET", f"{V1}/ledger")).json
    assert [one["endpoint"] for one in ledger["items"]] == [mine.ids["endpoints"]]
    assert ledger["balanced"]


async def test_a_cursor_of_another_tenant_is_refused(towns: dict[str, Town]):
    cursor = (await towns["other"].call("GET", f"{V1}/events?limit=1")).json["next"]
    mine = await towns["other"].call("GET", f"{V1}/events?limit=1&cursor={cursor}")
    foreign = await towns["acme"].call("GET", f"{V1}/events?limit=1&cursor={cursor}")

    assert mine.status == 200
    assert (foreign.status, foreign.code) == (400, "invalid_cursor")


async def test_an_endpoint_of_another_tenant_can_be_named_neither_by_a_publish_nor_by_a_plan(towns: dict[str, Town]):
    mine = towns["acme"]
    answers = []
    for endpoint in (towns["other"].ids["endpoints"], "ep_nobody"):
        event = {"type": "a", "data": 1, "endpoints": [endpoint]}
        refused = await mine.call("POST", f"{V1}/events", event)
        plan = await mine.call("POST", f"{V1}/plans", {"op": "replay", "filter": {"endpoint": endpoint}})
        answers.append((refused.status, re.sub(r"ep_\w+", "", refused.body.decode()), plan.status))

    assert answers[0] == answers[1]
    assert answers[0][0] == 422


async def test_a_live_stream_tells_of_its_own_tenant_alone(towns: dict[str, Town], sink: Sink):
    sink.react = lambda _: Answer()
    mine, other = towns["acme"], towns["other"]
    async with mine.api.connect() as connection:
        connection.writer.write(connection.request("GET", f"{V1}/stream", headers={"hooklane-tenant": "acme"}))
        await connection.reader.readuntil(b"event: reset")
        for town in (other, mine):
            event = {"type": "order.created", "data": 1, "key": f"live-{town.tenant}"}
            assert (await town.call("POST", f"{V1}/events", event)).status == 202
        seen = b""
        while b"event: attempts" not in seen or b"live-acme" not in seen:
            seen += await connection.reader.readuntil(b"\n\n")

    assert b"live-other" not in seen
    assert other.ids["endpoints"].encode() not in seen
