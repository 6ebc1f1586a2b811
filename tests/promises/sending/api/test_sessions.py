"""The session of a browser: a cookie instead of a key, and what a page of another site can do with it."""

from typing import Any

import pytest
from tests.promises.sending.api.conftest import KEY, Api
from tests.promises.sending.api.test_permissions import bearer, new_key
from tests.support.http_client import Answer, Connection

from hooklane.model.clock import Instant, rfc3339
from hooklane.server import wrong_keys

PATH = "/api/v1/session"


def origin_of(api: Api) -> dict[str, str]:
    return {"origin": f"http://127.0.0.1:{api.port}", "sec-fetch-site": "same-origin"}


async def log_in(api: Api, browser: Connection, key: str, **headers: str) -> tuple[Answer, dict[str, str]]:
    answer = await browser.call("POST", PATH, {"key": key}, {**origin_of(api), **headers})
    assert answer.status == 200, answer
    cookie, _, rules = answer.headers["set-cookie"].partition("; ")
    assert "HttpOnly" in rules
    return answer, {"cookie": cookie}


async def test_a_key_opens_a_session_and_logging_out_ends_it_everywhere(api: Api):
    async with api.connect({}) as browser:
        answer, cookie = await log_in(api, browser, KEY)
        mine = await browser.call("GET", PATH, headers=cookie)
        endpoints = await browser.call("GET", "/api/v1/endpoints", headers=cookie)
        written = await browser.call("POST", "/api/v1/events", {"type": "a", "data": 1}, {**cookie, **origin_of(api)})
        left = await browser.call("DELETE", PATH, headers={**cookie, **origin_of(api)})
        after = await browser.call("GET", PATH, headers=cookie)

    assert answer.headers["set-cookie"].endswith("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict")
    assert (mine.json["role"], mine.json["tenant"], mine.json["expires_at"] is not None) == ("admin", None, True)
    assert mine.json == answer.json
    assert (endpoints.status, written.status, left.status) == (200, 202, 204)
    assert "Max-Age=0" in left.headers["set-cookie"]
    assert (after.status, after.json["detail"]) == (401, "the session is over: log in again")


ROLES = {"viewer": ["read"], "operator": ["read", "operate"], "admin": ["admin"], "publisher": ["publish"]}


async def test_the_role_of_a_session_is_what_its_key_may_do(api: Api):
    for role, scopes in ROLES.items():
        key = await new_key(api, *scopes, tenant="acme")
        async with api.connect({}) as browser:
            answer, cookie = await log_in(api, browser, key["key"])
            paused = await browser.call("POST", "/api/v1/endpoints/x/pause", headers={**cookie, **origin_of(api)})

        assert (answer.json["role"], answer.json["tenant"]) == (role, "acme")
        assert paused.status == (404 if role in ("operator", "admin") else 403), role


OF_ANOTHER_SITE: list[dict[str, str]] = [
    {},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
]


async def test_a_page_of_another_site_can_do_nothing_with_the_cookie(api: Api):
    for headers in OF_ANOTHER_SITE:
        async with api.connect({}) as browser:
            _, cookie = await log_in(api, browser, KEY)
            for path in ("/api/v1/events", "/api/v1/endpoints", "/api/v1/keys", "/api/v1/dead-letters/x/replay"):
                answer = await browser.call("POST", path, {"type": "a", "data": 1}, {**cookie, **headers})
                assert (answer.status, answer.code) == (403, "cross_site"), (path, headers)
            foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
            read = await browser.call("GET", "/api/v1/events", headers={**cookie, **headers})

        assert read.status == (403 if foreign else 200), headers
    assert (await api.get("/api/v1/events"))["items"] == []


async def test_a_page_of_another_site_cannot_log_a_browser_in(api: Api):
    async with api.connect({}) as browser:
        answer = await browser.call("POST", PATH, {"key": KEY}, {"origin": "https://evil.example"})

    assert (answer.status, "set-cookie" in answer.headers) == (403, False)


async def test_over_https_the_cookie_is_for_this_host_alone(start: Any):
    api = await start(public_url="https://hooks.example")
    async with api.connect({}) as browser:
        answer, cookie = await log_in(api, browser, KEY, origin="https://hooks.example")
        plain = {"cookie": cookie["cookie"].removeprefix("__Host-")}

        assert answer.headers["set-cookie"].startswith("__Host-hooklane=hl_")
        assert answer.headers["set-cookie"].endswith("SameSite=Strict; Secure")
        assert (await browser.call("GET", PATH, headers=cookie)).status == 200
        assert (await browser.call("GET", PATH, headers=plain)).status == 401


async def test_a_new_session_has_a_new_cookie_and_ends_the_one_before(api: Api):
    async with api.connect({}) as browser:
        _, first = await log_in(api, browser, KEY)
        _, second = await log_in(api, browser, KEY, **first)

        assert first != second
        assert (await browser.call("GET", PATH, headers=first)).status == 401
        assert (await browser.call("GET", PATH, headers=second)).status == 200


async def test_a_session_ends_with_its_key(api: Api):
    key = await new_key(api, "read", expires_at="2999-01-01T00:00:00Z")
    async with api.connect({}) as browser:
        _, cookie = await log_in(api, browser, key["key"])
        before = await browser.call("GET", PATH, headers=cookie)
        await api.call("DELETE", f"/api/v1/keys/{key['id']}")
        after = await browser.call("GET", PATH, headers=cookie)

    assert (before.status, after.status) == (200, 401)


async def test_a_session_ends_by_itself(api: Api):
    async with api.connect({}) as browser:
        _, cookie = await log_in(api, browser, KEY)
        late = Instant(api.server.services.now() + 12 * 3_600_000 + 1)
        api.server.services.sessions._now = lambda: late

        assert (await browser.call("GET", PATH, headers=cookie)).status == 401


async def test_a_session_that_is_not_used_for_half_an_hour_is_over_and_one_in_use_lasts_half_a_day(api: Api):
    sessions, began = api.server.services.sessions, api.server.services.now()

    def at(minutes: float) -> None:
        sessions._now = lambda: Instant(began + int(minutes * 60_000))
        sessions.forget()

    async with api.connect({}) as browser:
        _, idle = await log_in(api, browser, KEY)
        at(29)
        assert (await browser.call("GET", PATH, headers=idle)).status == 200
        at(60)
        assert (await browser.call("GET", PATH, headers=idle)).status == 401
        began = api.server.services.now()
        at(0)
        _, busy = await log_in(api, browser, KEY)
        for minutes in range(25, 12 * 60, 25):
            at(minutes)
            assert (await browser.call("GET", PATH, headers=busy)).status == 200, minutes
        at(12 * 60 + 1)
        assert (await browser.call("GET", PATH, headers=busy)).status == 401


async def test_a_session_in_use_does_not_outlive_its_key(api: Api):
    began = api.server.services.now()
    key = await new_key(api, "read", expires_at=rfc3339(Instant(began + 40 * 60_000)))
    sessions = api.server.services.sessions
    async with api.connect({}) as browser:
        _, cookie = await log_in(api, browser, key["key"])
        for minutes, status in ((20, 200), (39, 200), (41, 401)):
            sessions._now = lambda after=minutes: Instant(began + after * 60_000)
            sessions.forget()
            assert (await browser.call("GET", PATH, headers=cookie)).status == status, minutes


async def test_a_session_of_an_old_static_key_is_over(start: Any):
    api = await start()
    async with api.connect({}) as browser:
        _, cookie = await log_in(api, browser, KEY)
    other = await start(api_key="another-key-0123456789", role=("api",))
    async with other.connect({}) as browser:
        assert (await browser.call("GET", PATH, headers=cookie)).status == 401


async def test_guesses_at_the_login_are_slowed(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wrong_keys, "DELAY_S", 0.01)
    statuses = []
    for _ in range(wrong_keys.BURST + 2):
        async with api.connect({}) as guesser:
            statuses.append((await guesser.call("POST", PATH, {"key": "hl_wrong"}, origin_of(api))).status)

    assert statuses == [401] * wrong_keys.BURST + [429, 429]
    assert (await api.call("GET", PATH, headers=bearer(KEY))).status == 200


async def test_a_server_that_asks_for_no_key_says_so(start: Any):
    api = await start(no_auth=True)
    answer = await api.call("GET", PATH)
    logged_in = await api.call("POST", PATH, {"key": "anything"})

    assert (answer.json["role"], answer.json["asks_key"]) == ("admin", False)
    assert (logged_in.status, "set-cookie" in logged_in.headers) == (200, False)
