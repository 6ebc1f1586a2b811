"""The description of the API is true: of every answer its shape, and of every route whether a key is asked for."""

from typing import Any

import pytest
from tests.promises.sending.api.conftest import KEY, SEEN, Api, Start
from tests.promises.sending.api.inbox_site import Shop, Site
from tests.support.eventually import eventually
from tests.support.http_client import Connection
from tests.support.receiver import Answer, Sink

from hooklane.server.api import ROUTES
from hooklane.server.api.documents import described
from hooklane.server.problem import CODES

V1 = "/api/v1"


async def test_every_route_answers_in_the_shape_that_its_description_gives(
    site: Site, shop: Shop, dead: str, sink: Sink
):
    api = site.api
    SEEN.clear()
    sink.react = lambda seen: Answer(status=422 if "bad" in seen.path else 200, body=b"no")
    good = await api.endpoint(sink.url("/good"), types=["order.*"])
    bad = await api.endpoint(sink.url("/bad"), types=["pay.*"], attempts_max=1)
    event = await api.publish("order.created", {"a": 1}, key="k/1")
    for number in range(3):
        await api.publish("pay.failed", {"n": number}, key=f"p{number}")
    await api.call("POST", f"{V1}/events/batch", {"events": [{"type": "order.paid", "data": 1, "key": "k/1"}]})

    async def letters() -> Any:
        found = (await api.get(f"{V1}/dead-letters"))["items"]
        return found if len(found) == 3 else None

    first, second, third = [letter["id"] for letter in await eventually(letters, within_s=60)]
    paths = [f"events/{event['id']}{rest}" for rest in ("", "/attempts", "/story", "/why")]
    paths += ["events", "endpoints", f"endpoints/{good['id']}", "lanes?cells=4", "audit", "audit/verify", "ledger"]
    paths += [f"lanes/{good['id']}/k%2F1", f"lanes/{good['id']}/k%2F1/why", "overview", "inbox", "inbox/stats"]
    paths += [f"dead-letters/{first}", "dead-letters?side=inbox", f"dead-letters/{dead}", f"inbox/{dead}"]
    paths += ["series", "attempts", "dead-letters/causes", "jobs", "plans", "inbox/sources", "endpoints/last-hour"]
    for path in paths:
        await api.get(f"{V1}/{path}")
    for path in ("/healthz", "/readyz", "/metrics", "/api/openapi.json"):
        assert (await api.call("GET", path)).status == 200
    await api.call("PATCH", f"{V1}/dead-letters/{first}", {"note": "seen"})
    await api.call("POST", f"{V1}/dead-letters/{first}/replay")
    await api.call("POST", f"{V1}/dead-letters/{second}/skip", {"note": "given up"})
    await api.call("POST", f"{V1}/dead-letters/{dead}/replay")
    await api.call("POST", f"{V1}/inbox/{dead}/replay")
    for act in ("test", "probe", "pause", "resume", "rotate", "reveal"):
        await api.call("POST", f"{V1}/endpoints/{good['id']}/{act}")
    await api.call("PATCH", f"{V1}/endpoints/{good['id']}", {"name": "shop"})
    await api.get(f"{V1}/endpoints/{good['id']}/breaker")
    await api.call("POST", f"{V1}/endpoints/{good['id']}/close")
    plan = (await api.call("POST", f"{V1}/plans", {"op": "skip", "ids": [third]})).json
    await api.get(f"{V1}/plans/{plan['id']}")
    job = (await api.call("POST", f"{V1}/plans/{plan['id']}/run", {"note": "all", "digest": plan["digest"]})).json
    await api.get(f"{V1}/jobs/{job['id']}")
    await api.get(f"{V1}/jobs/{job['id']}/members")
    assert (await api.call("DELETE", f"{V1}/jobs/{job['id']}")).status == 200
    await api.call("POST", f"{V1}/tenants", {"id": "acme", "quota": {"events_per_s": 5}})
    await api.call("PATCH", f"{V1}/tenants/acme", {"name": "Acme"})
    for act in ("suspend", "resume"):
        await api.call("POST", f"{V1}/tenants/acme/{act}")
    await api.get(f"{V1}/tenants")
    await api.get(f"{V1}/tenants/acme")
    assert (await api.call("DELETE", f"{V1}/endpoints/{bad['id']}")).status == 204
    key = (await api.call("POST", f"{V1}/keys", {"name": "ci", "scopes": ["read"]})).json
    await api.get(f"{V1}/keys")
    assert (await api.call("DELETE", f"{V1}/keys/{key['id']}")).status == 204
    await api.get(f"{V1}/secrets")
    await api.call("POST", f"{V1}/secrets/rotate")
    await api.call("PUT", f"{V1}/types/order.paid", {"description": "paid", "schema": {"type": "object"}})
    await api.get(f"{V1}/types")
    await api.get(f"{V1}/types/order.paid")
    assert (await api.call("DELETE", f"{V1}/types/order.paid")).status == 204
    await api.call("POST", f"{V1}/tenants/default/portal", {})
    await api.call("POST", f"{V1}/session", {"key": KEY})
    await api.get(f"{V1}/session")

    assert {f"{route.method} {route.path}" for route in ROUTES if route.answers is not None} - SEEN == set()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_described_with_its_answer_its_errors_and_its_key(route: Any):
    told = described(ROUTES)["paths"][route.path][route.method.lower()]
    done = told["responses"][str(route.status)]

    assert told["security"] == {"key": [{"key": []}], "loopback": [{}, {"key": []}], "nothing": []}[route.needs]
    assert route.status == 204 or done["content"][route.gives]["schema"]
    assert {"400", "403", "422", "500", "503"} <= set(told["responses"])
    logs_in = (route.method, route.path) == ("POST", "/api/v1/session")
    assert ("401" in told["responses"]) == (route.needs != "nothing" or logs_in)


def test_every_code_of_a_problem_is_described_somewhere():
    responses = [
        answer
        for path in described(ROUTES)["paths"].values()
        for operation in path.values()
        for answer in operation["responses"].values()
    ]
    told = " ".join(answer.get("description", "") for answer in responses)

    assert [code for code in CODES if f"`{code}`" not in told] == []


async def test_a_key_is_asked_for_exactly_where_the_description_says_so(api: Api):
    async with Connection(api.port) as stranger:
        for route in ROUTES:
            path = (
                route.path.replace("{id}", "x")
                .replace("{endpoint}", "x")
                .replace("{key}", "x")
                .replace("{tenant}", "x")
            )
            status = (await stranger.call(route.method, path)).status

            assert (status == 401) == (route.needs == "key"), (route.path, status)


async def test_a_server_that_asks_for_no_key_describes_itself_so(start: Start):
    api = await start(no_auth=True, api_key=None)
    document = (await api.call("GET", "/api/openapi.json")).json
    operations = [one for path in document["paths"].values() for one in path.values()]

    assert document["components"]["securitySchemes"] == {}
    assert [one["operationId"] for one in operations if one["security"] or "401" in one["responses"]] == []


def test_the_header_that_makes_repeating_a_publish_safe_is_described():
    headers = described(ROUTES)["paths"][f"{V1}/events"]["post"]["parameters"]

    assert [(one["name"], one["in"]) for one in headers] == [
        ("Idempotency-Key", "header"),
        ("Hooklane-Tenant", "header"),
    ]
