"""The customer portal: a link for one tenant, what is possible behind it, and that nothing else is."""

import re
from typing import Any

import pytest
from tests.promises.sending.api.conftest import KEY, Api
from tests.promises.sending.api.test_permissions import bearer, new_key
from tests.promises.sending.api.test_sessions import PATH, log_in, origin_of
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Sink

from hooklane.model.clock import Instant
from hooklane.server.api import ROUTES
from hooklane.server.call import Access
from hooklane.server.caller import portal_pass, tenant_of_pass
from hooklane.server.permission import PORTAL, scope_of

LINK = "/api/v1/tenants/acme/portal"


async def link(api: Api, path: str = LINK, **body: Any) -> str:
    made = await api.call("POST", "/api/v1/tenants", {"id": path.split("/")[4]})
    assert made.status in (201, 409)
    answer = await api.call("POST", path, body)
    assert answer.status == 201, answer
    root, token = answer.json["url"].split("/portal#")
    assert root == f"http://127.0.0.1:{api.port}"
    return str(token)


class Customer:
    """A browser that came in through a link."""

    def __init__(self, api: Api, cookie: dict[str, str], connection: Any) -> None:
        self.headers = {**cookie, **origin_of(api)}
        self.connection = connection

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return await self.connection.call(method, path, body, self.headers)


@pytest.fixture
async def customer(api: Api) -> Any:
    async with api.connect({}) as browser:
        _, cookie = await log_in(api, browser, await link(api))
        yield Customer(api, cookie, browser)


async def test_a_link_opens_the_page_for_one_tenant_until_it_ends(api: Api):
    token = await link(api, ttl_s=60)
    async with api.connect({}) as browser:
        answer, cookie = await log_in(api, browser, token)
        again, _ = await log_in(api, browser, token)
        as_key = await browser.call("GET", "/api/v1/events", headers=bearer(token))
        as_cookie = await browser.call("GET", PATH, headers={"cookie": f"hooklane={token}"})
        page = await browser.call("GET", "/portal")
        late = Instant(api.server.services.now() + 60_001)
        api.server.services.sessions._now = lambda: late
        over = await browser.call("GET", PATH, headers=cookie)
        old = await browser.call("POST", PATH, {"key": token}, origin_of(api))

    assert (answer.json["role"], answer.json["tenant"]) == ("portal", "acme")
    assert re.search(r"Max-Age=(59|60);", answer.headers["set-cookie"])
    assert again.status == 200  # a frame may be loaded again
    assert (as_key.status, as_cookie.status) == (401, 401)
    assert (page.status, page.headers["x-frame-options"]) == (200, "DENY")
    assert (over.status, old.status) == (401, 401)
    audit = await api.call("GET", "/api/v1/audit", headers=bearer((await new_key(api, "read", tenant="acme"))["key"]))
    assert [one["action"] for one in audit.json["items"]] == ["session.opened", "session.opened", "portal.link_made"]


async def test_behind_a_link_all_but_the_listed_calls_are_closed(api: Api, customer: Customer):
    for route in ROUTES:
        if route.needs is not Access.KEY or scope_of(route) is None:
            continue
        path = re.sub(r"{\w+}", "x", route.path) + ("?topics=none" if route.path == "/api/v1/stream" else "")
        answer = await customer.call(route.method, path, b"[]" if route.method != "GET" else None)
        may = f"{route.method} {route.path}" in PORTAL
        assert (answer.status == 403) == (not may), (route, answer)
        assert answer.status < 500


async def test_a_customer_adds_tests_rotates_and_pauses_an_endpoint_and_replays(
    api: Api, customer: Customer, sink: Sink
):
    sink.react = lambda seen: Answer(status=422 if b"bad" in seen.body else 200)
    made = (await customer.call("POST", "/api/v1/endpoints", {"url": sink.url("/hook"), "attempts_max": 1})).json
    base = f"/api/v1/endpoints/{made['id']}"
    tested = await customer.call("POST", f"{base}/test")
    rotated = await customer.call("POST", f"{base}/rotate", {})
    paused = await customer.call("POST", f"{base}/pause")
    resumed = await customer.call("POST", f"{base}/resume")
    key = await new_key(api, "publish", tenant="acme")
    await api.call("POST", "/api/v1/events", {"type": "a", "data": "bad", "key": "k"}, bearer(key["key"]))

    async def dead() -> Any:
        return (await customer.call("GET", "/api/v1/dead-letters")).json["items"]

    (letter,) = await eventually(dead, within_s=20)
    replayed = await customer.call("POST", f"/api/v1/dead-letters/{letter['id']}/replay")
    skipped = await customer.call("POST", f"/api/v1/dead-letters/{letter['id']}/skip", {"note": "x"})
    shown = await customer.call("GET", f"/api/v1/events/{letter['event']}")

    assert (tested.json["ok"], rotated.json["secret"].startswith("whsec_")) == (True, True)
    assert (paused.json["state"], resumed.json["state"], replayed.status) == ("paused", "active", 200)
    assert (skipped.status, shown.json["data"]) == (403, "bad")


async def test_nothing_of_another_tenant_can_be_had_by_changing_an_id(api: Api, customer: Customer, sink: Sink):
    sink.react = lambda seen: Answer(status=422)
    other = bearer((await new_key(api, "admin", tenant="other"))["key"])
    endpoint = (await api.call("POST", "/api/v1/endpoints", {"url": sink.url("/"), "attempts_max": 1}, other)).json
    await api.call("PUT", "/api/v1/types/secret.type", {"description": "canary"}, other)
    event = (await api.call("POST", "/api/v1/events", {"type": "a", "data": "canary", "key": "k"}, other)).json

    async def dead() -> Any:
        return (await api.call("GET", "/api/v1/dead-letters", headers=other)).json["items"]

    (letter,) = await eventually(dead, within_s=20)
    theirs = {"id": [endpoint["id"], event["id"], letter["id"]], "endpoint": [endpoint["id"]], "key": ["k"]}
    theirs["type"] = ["secret.type"]
    for name in sorted(PORTAL):
        method, path = name.split()
        if name not in {f"{route.method} {route.path}" for route in ROUTES} or path == "/api/v1/stream":
            continue
        (parameter,) = re.findall(r"{(id|endpoint|type)}", path) or [""]
        for id in theirs.get(parameter, [""]):
            body = {} if method != "GET" else None
            foreign = await customer.call(method, _filled(path, parameter, id), body)
            unknown = await customer.call(method, _filled(path, parameter, id[:3] + "_unknown"), body)
            if parameter:
                assert (foreign.status, foreign.body) == (unknown.status, unknown.body), (name, id)
                assert foreign.status in (404, 422), (name, foreign)
            for canary in ("canary", endpoint["id"], event["id"], letter["id"], "secret.type"):
                assert canary.encode() not in foreign.body, (name, canary)
    for query in (f"endpoint={endpoint['id']}", "side=inbox"):
        answer = await customer.call("GET", f"/api/v1/dead-letters?{query}")
        assert answer.json["items"] == []
    named = await customer.connection.call(
        "GET", "/api/v1/endpoints", headers={**customer.headers, "hooklane-tenant": "other"}
    )
    assert endpoint["id"].encode() not in named.body


def _filled(path: str, parameter: str, id: str) -> str:
    return path.replace(f"{{{parameter}}}", id).replace("{key}", "k") if parameter else path


async def test_a_link_is_for_admins_of_that_tenant(api: Api):
    own = bearer((await new_key(api, "admin", tenant="acme"))["key"])
    other = bearer((await new_key(api, "admin", tenant="other"))["key"])
    operator = bearer((await new_key(api, "operate", "read"))["key"])

    statuses = [(await api.call("POST", LINK, {}, headers)).status for headers in (own, other, operator)]

    assert statuses == [201, 403, 403]
    assert (await api.call("POST", LINK, {"ttl_s": 5})).code == "invalid_body"
    assert (await api.call("POST", LINK, {}, {"host": "evil.example"})).code == "wrong_state"


async def test_a_link_dies_with_the_key_that_made_it(api: Api):
    key = await new_key(api, "admin")
    await api.call("POST", "/api/v1/tenants", {"id": "acme"})
    answer = await api.call("POST", LINK, {}, bearer(key["key"]))
    token = answer.json["url"].partition("#")[2]
    async with api.connect({}) as browser:
        _, cookie = await log_in(api, browser, token)
        await api.call("DELETE", f"/api/v1/keys/{key['id']}")

        assert (await browser.call("GET", PATH, headers=cookie)).status == 401
        assert (await browser.call("POST", PATH, {"key": token}, origin_of(api))).status == 401


async def test_only_the_listed_sites_may_frame_the_page_and_only_the_portals_cookie_goes_there(start: Any):
    api = await start(
        public_url="https://hooks.example/in",
        portal_frames=("https://app.example", "https://*.shop.example"),
        page_accent="#0055aa",
        page_logo="https://cdn.example/logo.png",
    )
    await api.call("POST", "/api/v1/tenants", {"id": "acme"})
    made = await api.call("POST", LINK, {})
    assert made.json["url"].startswith("https://hooks.example/in/portal#hl_")
    own = {"origin": "https://hooks.example", "sec-fetch-site": "same-origin"}
    async with api.connect({}) as browser:
        portal = await browser.call("POST", PATH, {"key": made.json["url"].partition("#")[2]}, own)
        admin = await browser.call("POST", PATH, {"key": KEY}, own)
        page = await browser.call("GET", "/portal")
        cookie = {"cookie": portal.headers["set-cookie"].partition(";")[0]}
        forged = await browser.call("POST", "/api/v1/endpoints", {}, {**cookie, "origin": "https://app.example"})

    assert portal.headers["set-cookie"].endswith("; HttpOnly; SameSite=None; Partitioned; Secure")
    assert admin.headers["set-cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")
    assert "frame-ancestors https://app.example https://*.shop.example;" in page.headers["content-security-policy"]
    assert "img-src 'self' https://cdn.example;" in page.headers["content-security-policy"]
    assert "x-frame-options" not in page.headers
    assert portal.json["look"] == {"accent": "#0055aa", "logo": "https://cdn.example/logo.png"}
    assert (forged.status, forged.code) == (403, "cross_site")


def test_a_pass_is_for_the_tenant_that_it_was_made_for_and_worth_nothing_without_the_key():
    key = "k" * 32
    made = portal_pass(key, "acme")
    assert tenant_of_pass(key, made) == "acme"
    seal = made.split(".")[1]
    for other in (
        f"portal.{seal}.other",
        f"portal.{seal}.acme ",
        f"portal.{seal}.",
        "portal..acme",
        made[:-1],
        portal_pass("another key", "acme"),
        "acme",
        "\udcff",
    ):
        assert tenant_of_pass(key, other) is None, other
    assert tenant_of_pass(key, portal_pass(key, "acme.eu")) == "acme.eu"
