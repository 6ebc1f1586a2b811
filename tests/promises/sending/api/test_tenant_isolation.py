"""Every route, for its own tenant, with another tenant's ids and with ids of nobody: the last two look the same."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.promises.sending.api.conftest import KEY as API_KEY
from tests.promises.sending.api.conftest import Api
from tests.promises.sending.api.inbox_site import Shop, Site
from tests.support.eventually import eventually
from tests.support.http_client import Answer as Reply
from tests.support.pace import scaled_s
from tests.support.receiver import Answer, Sink

from hooklane.server.api import ROUTES, stream
from hooklane.server.call import PAGING, Access, Route
from hooklane.server.live_stream import TOPICS

V1 = "/api/v1"
KEY = "k/1"
OF_SERVER = ("keys", "types", "session", "secrets", "tenants", "portal", "sim")
"""What is not a tenant's own; who may call it is another test's business."""
OF_TENANT = [
    route
    for route in ROUTES
    if route.needs is Access.KEY and not route.of_server and route.path.split("/")[3] not in OF_SERVER
]
OF_DEFAULT = (f"{V1}/inbox",)
"""The inbox is the default tenant's here."""
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
    owners = [(one["id"], one["note"], one["assignee"]) for one in letters]
    return [*lists, [(one["id"], one["state"], one["name"]) for one in endpoints], owners]


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


async def test_every_list_of_a_tenant_is_paged_to_its_end(towns: dict[str, Town]):
    mine = towns["acme"]
    letters = [one["id"] for one in (await mine.call("GET", f"{V1}/dead-letters")).json["items"]]
    for key in ("c", "d"):
        event = {"type": "order.created", "data": 1, "key": key}
        assert (await mine.call("POST", f"{V1}/events", event)).status == 202

    async def died() -> Any:
        found = [one["id"] for one in (await mine.call("GET", f"{V1}/dead-letters")).json["items"]]
        return found if len(found) == len(letters) + 2 else None

    died_now = await eventually(died)
    plan = (await mine.call("POST", f"{V1}/plans", {"op": "replay", "ids": died_now[-2:]})).json
    body = {"note": "n", "digest": plan["digest"]}
    mine.ids["jobs"] = (await mine.call("POST", f"{V1}/plans/{plan['id']}/run", body)).json["id"]
    paged = [route for route in OF_TENANT if route.method == "GET" and PAGING[0] in route.query]
    assert len(paged) >= 8

    for route in paged:
        path, pages, cursor = mine.path(route, mine.ids), 0, ""
        while cursor is not None:
            answer = await mine.call("GET", f"{path}?limit=1{cursor}")
            assert answer.status == 200, (route.path, answer)
            pages, following = pages + 1, answer.json["next"]
            cursor = None if following is None else f"&cursor={following}"

        assert pages > 1 or route.path in OF_DEFAULT, route.path


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


async def way_in(town: Town, way: str) -> dict[str, str]:
    """The headers of a caller for one tenant: a key for all tenants, a key of this one, or a customer in the portal."""
    if way == "header":
        return {"authorization": f"Bearer {API_KEY}", "hooklane-tenant": town.tenant}
    if way == "key":
        body = {"name": "theirs", "scopes": ["read"], "tenant": town.tenant}
        key = (await town.api.call("POST", f"{V1}/keys", body)).json["key"]
        return {"authorization": f"Bearer {key}"}
    link = (await town.api.call("POST", f"{V1}/tenants/{town.tenant}/portal", {})).json["url"]
    origin = {"origin": f"http://127.0.0.1:{town.api.port}"}
    async with town.api.connect({}) as browser:
        answer = await browser.call("POST", f"{V1}/session", {"key": link.partition("#")[2]}, origin)
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


@pytest.mark.parametrize("way", ["header", "key", "portal"])
async def test_a_live_stream_tells_of_its_own_tenant_alone(towns: dict[str, Town], sink: Sink, way: str):
    sink.react = lambda seen: Answer(status=422 if "dies" in str(seen.body) else 200)
    mine, other = towns["acme"], towns["other"]
    headers = await way_in(mine, way)
    topics = set(TOPICS) - ({"inbox"} if way == "header" else {"inbox", "jobs"} if way == "portal" else {"inbox"})
    async with mine.api.connect({}) as connection:
        connection.writer.write(connection.request("GET", f"{V1}/stream", headers=headers))
        await connection.reader.readuntil(b"event: reset")
        for town in (other, mine):
            for word in ("live", "dies"):
                event = {"type": "order.created", "data": word, "key": f"{word}-{town.tenant}"}
                assert (await town.call("POST", f"{V1}/events", event)).status == 202
            plan = (await town.call("POST", f"{V1}/plans", {"op": "skip", "ids": [town.ids["dead-letters"]]})).json
            run = {"note": f"note-{town.tenant}", "digest": plan["digest"]}
            assert (await town.call("POST", f"{V1}/plans/{plan['id']}/run", run)).status == 202
            await town.call("PATCH", f"{V1}/endpoints/{town.ids['endpoints']}", {"name": f"renamed-{town.tenant}"})
        seen = b""
        wanted = [f"event: {topic}\n".encode() for topic in topics] + [b"live-acme", b"dies-acme", b"renamed-acme"]
        while not all(word in seen for word in wanted):
            seen += await connection.reader.readuntil(b"\n\n")

    foreign = {*other.ids.values(), "live-other", "dies-other", "renamed-other", "note-other", "name-other"}
    assert [word for word in foreign if word.encode() in seen] == []
    assert b"event: inbox" not in seen


@pytest.mark.parametrize("way", ["key", "portal"])
async def test_a_stream_ends_when_its_caller_is_not_let_in_any_more(
    towns: dict[str, Town], way: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stream, "LOOK_S", 0.0)
    mine = towns["acme"]
    made = (await mine.api.call("POST", f"{V1}/keys", {"name": "a", "scopes": ["admin"], "tenant": "acme"})).json
    async with mine.api.connect({"authorization": f"Bearer {made['key']}"}) as admin:
        headers = {"authorization": f"Bearer {made['key']}"}
        if way == "portal":
            headers = await way_in(Town(Api(mine.api.server, admin), "acme"), "portal")
        async with mine.api.connect({}) as connection:
            connection.writer.write(connection.request("GET", f"{V1}/stream", headers=headers))
            await connection.reader.readuntil(b"event: reset")
            assert (await mine.api.call("DELETE", f"{V1}/keys/{made['id']}")).status == 204
            event = {"type": "order.created", "data": 1, "key": "after-the-end"}
            assert (await mine.call("POST", f"{V1}/events", event)).status == 202
            async with asyncio.timeout(scaled_s(60)):
                rest = await connection.reader.readuntil(b"0\r\n\r\n")

    assert b"after-the-end" not in rest


async def test_what_a_caller_may_not_read_it_is_not_told_either(towns: dict[str, Town]):
    async with towns["acme"].api.connect({}) as connection:
        for way, topic in (("key", "inbox"), ("portal", "jobs"), ("portal", "inbox")):
            headers = await way_in(towns["acme"], way)
            answer = await connection.call("GET", f"{V1}/stream?topics={topic}", headers=headers)
            assert (answer.status, answer.code) == (403, "forbidden"), (way, topic)


async def test_with_a_tenants_own_key_foreign_and_unknown_ids_are_answered_alike_on_every_route(
    towns: dict[str, Town],
):
    """Also what is about the server: tenants, keys and types, with the strongest key that a tenant can have."""
    mine, other = towns["acme"], towns["other"]
    keys = {}
    for town in (mine, other):
        body = {"name": "a", "scopes": ["admin"], "tenant": town.tenant}
        keys[town.tenant] = (await town.api.call("POST", f"{V1}/keys", body)).json
        await town.call("PUT", f"{V1}/types/type-of-{town.tenant}", {"description": "x"})
    theirs = {**other.ids, "inbox": towns["default"].ids["inbox"], "keys": keys["other"]["id"]}
    theirs |= {"types": "type-of-other", "tenants": "other"}
    nobodys = {**UNKNOWN, "keys": "key_nobody", "types": "type-of-nobody", "tenants": "nobody"}
    async with mine.api.connect({"authorization": f"Bearer {keys['acme']['key']}"}) as caller:
        for route in sorted(ROUTES, key=order):
            if "{" not in route.path or route.method == "PUT":  # a type of one's own may have any name
                continue
            answers = []
            for ids in (theirs, nobodys):
                path = mine.path(route, ids).replace("{tenant}", ids["tenants"]).replace("{type}", ids["types"])
                answer = await caller.call(route.method, path, BODIES.get((route.method, route.path)))
                shown = {name: value for name, value in answer.headers.items() if name != "date"}
                answers.append((answer.status, answer.body, shown))
            assert answers[0] == answers[1], f"{route.method} {route.path}"
            assert answers[0][0] in (403, 404), f"{route.method} {route.path}"
        for path in ("lanes", "events", "attempts", "dead-letters"):
            found = [await caller.call("GET", f"{V1}/{path}?endpoint={ids['endpoints']}") for ids in (theirs, nobodys)]
            assert found[0].json["items"] == found[1].json["items"] == [], path


@pytest.mark.parametrize("way", ["key", "portal"])
async def test_what_an_application_received_is_not_for_a_caller_of_one_tenant_not_even_of_default(
    towns: dict[str, Town], way: str
):
    """`/inbox` was closed to it, and the same rows, with what providers sent, stood open as dead letters."""
    town, row = towns["default"], towns["default"].ids["inbox"]
    assert [one["id"] for one in (await town.call("GET", f"{V1}/dead-letters?side=inbox")).json["items"]] == [row]
    async with town.api.connect(await way_in(town, way)) as caller:
        listed = await caller.call("GET", f"{V1}/dead-letters?side=inbox")
        lines = await caller.call("GET", f"{V1}/dead-letters?side=inbox", headers={"accept": "application/x-ndjson"})
        shown = await caller.call("GET", f"{V1}/dead-letters/{row}")
        nobodys = await caller.call("GET", f"{V1}/dead-letters/{UNKNOWN['inbox']}")
        origin = {"origin": f"http://127.0.0.1:{town.api.port}"}
        again = await caller.call("POST", f"{V1}/dead-letters/{row}/replay", headers=origin)

    assert (listed.json["items"], lines.body) == ([], b"")
    assert (shown.status, shown.body) == (nobodys.status, nobodys.body) == (404, nobodys.body)
    assert again.status == (404 if way == "portal" else 403)
    assert (await town.call("GET", f"{V1}/dead-letters/{row}")).status == 200, "and nothing was done"


@pytest.mark.parametrize("way", ["key", "portal"])
async def test_how_large_the_database_is_no_tenant_is_told(towns: dict[str, Town], way: str):
    """The call kept it back, and the live stream told it: by how it grows, how much others publish."""
    mine = towns["acme"]
    async with mine.api.connect(await way_in(mine, way)) as caller:
        asked = (await caller.call("GET", f"{V1}/overview")).json
        caller.writer.write(caller.request("GET", f"{V1}/stream?topics=overview"))
        told = await caller.reader.readuntil(b"verdict")
    everything = (await mine.api.call("GET", f"{V1}/overview")).json

    assert (asked["store_bytes"], everything["store_bytes"] > 0) == (0, True)
    assert b"ledger" in told
    assert b"store_bytes" not in told
