"""Who may call, and what a hostile page, name or client comes to."""

import asyncio
import base64
import hashlib
import hmac
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.promises.sending.api.conftest import KEY, Api
from tests.support.http_client import Answer, Connection

from hooklane.server import wrong_keys
from hooklane.server.api import ROUTES
from hooklane.server.cursor import Cursors

PATHS = ["/api/v1/events", "/api/v1/events?", "/api/v1/endpoints"]
EVENT = {"type": "a", "data": 1}


NOT_THE_KEY = [
    None,
    "",
    "Bearer",
    "Bearer ",
    "Bearer wrong",
    KEY,
    f"Basic {KEY}",
    f"Bearer  {KEY}",
    f"Bearer {KEY}x",
    f"Bearer {KEY[:-1]}",
    f"Bearer {KEY[:-1]}x",
    f"Bearer {'x' * len(KEY)}",
    "Bearer é",
]


@pytest.mark.parametrize("path", PATHS)
async def test_without_the_very_key_nothing_is_done(api: Api, path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wrong_keys, "BURST", 2 * len(NOT_THE_KEY))  # guesses are held back by another test
    for key in NOT_THE_KEY:
        async with api.connect({} if key is None else {"authorization": key}) as stranger:
            answer = await stranger.call("POST", path, EVENT)
            again = await stranger.call("POST", path, EVENT)

        assert (answer.status, answer.code, answer.headers["www-authenticate"]) == (401, "unauthorized", "Bearer"), key
        assert again.status == 401, key
    assert (await api.get("/api/v1/events"))["items"] == []


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/events?"], ids=["fast", "app"])
async def test_the_scheme_of_a_key_may_be_written_in_any_case(api: Api, path: str):
    for scheme in ("bearer", "BEARER"):
        async with api.connect({"authorization": f"{scheme} {KEY}"}) as client:
            assert (await client.call("POST", path, EVENT)).status == 202, scheme


async def test_a_key_is_judged_anew_for_each_request_of_a_connection(api: Api):
    good = await api.call("POST", "/api/v1/events", EVENT)
    bad = await api.call("POST", "/api/v1/events", EVENT, {"authorization": "Bearer wrong"})
    back = await api.call("POST", "/api/v1/events", EVENT)

    assert (good.status, bad.status, back.status) == (202, 401, 202)


async def test_two_authorization_headers_are_refused(api: Api):
    request = api.connection.request("POST", "/api/v1/events", EVENT)
    request = request.replace(b"\r\n", b"\r\nauthorization: Bearer other\r\n", 1)
    api.connection.writer.write(request)

    assert (await api.connection.answer()).code == "bad_request"


async def test_health_and_metrics_need_the_key_where_others_can_reach_them(start: Any):
    api = await start(host="0.0.0.0")
    async with api.connect({}) as stranger:
        statuses = [(await stranger.call("GET", path)).status for path in ("/healthz", "/readyz", "/metrics")]

    assert statuses == [401, 401, 401]
    assert (await api.call("GET", "/metrics")).status == 200


CROSS_SITE: list[dict[str, str]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"content-type": "text/plain"},
    {"content-type": "multipart/form-data; boundary=x"},
    {"host": "evil.example"},
    {"host": "evil.example:8787"},
    {"host": "127.0.0.1.evil.example"},
    {"host": ""},
]


@pytest.mark.parametrize("path", [*PATHS, "/api/v1/dead-letters/x/replay", "/api/v1/endpoints/x/rotate"])
async def test_a_page_of_another_site_can_do_nothing(start: Any, path: str):
    api = await start(no_auth=True)
    for headers in CROSS_SITE:
        async with api.connect({}) as page:
            answer = await page.call("POST", path, EVENT, headers)

        assert (answer.status, answer.code) == (403, "cross_site"), headers
    assert (await api.get("/api/v1/events"))["items"] == []


async def test_the_page_itself_may_write(start: Any):
    api = await start(no_auth=True)
    own = {"origin": f"http://127.0.0.1:{api.port}", "sec-fetch-site": "same-origin"}

    assert (await api.call("POST", "/api/v1/events", EVENT, own)).status == 202
    assert (await api.call("POST", "/api/v1/events", EVENT, {"host": f"localhost:{api.port}"})).status == 202


async def test_a_name_of_somebody_else_that_points_here_cannot_even_read(start: Any):
    api = await start(no_auth=True)

    assert (await api.call("GET", "/api/v1/events", headers={"host": "rebound.example"})).code == "cross_site"


async def test_no_get_has_an_effect(api: Api):
    assert not [route.path for route in ROUTES if route.method == "GET" and route.takes is not None]
    for route in ROUTES:
        if route.method == "POST" and route.path.endswith(
            ("/replay", "/skip", "/pause", "/resume", "/rotate", "/test")
        ):
            path = route.path.replace("{id}", "x")
            assert (await api.call("GET", path)).status == 405


async def test_the_page_lets_no_other_script_run_and_no_other_site_frame_it(api: Api):
    async with api.connect({}) as browser:
        for path in ("/", "/api/docs"):
            page = await browser.call("GET", path)

            assert page.status == 200
            assert page.headers["content-security-policy"] == (
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
                " frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
            )
            assert page.headers["x-content-type-options"] == "nosniff"
            assert page.headers["referrer-policy"] == "no-referrer"
            assert b"{version}" not in page.body
            assert b"<script>" not in page.body


async def test_only_the_files_of_the_page_are_served(api: Api):
    for name in ("../page.py", "%2e%2e/page.py", "..%2fpage.py", "/etc/passwd", "", "missing.js"):
        answer = await api.call("GET", f"/static/0.1.0/{name}")

        assert answer.status in (401, 404), name
        assert b"import" not in answer.body, name


async def test_the_files_of_the_page_may_be_kept_for_ever_under_their_version(api: Api):
    page = await api.call("GET", "/")
    [script] = [part.split('"')[0] for part in page.body.decode().split('src="') if ".js" in part[:60]][:1]
    answer = await api.call("GET", f"/{script}")

    assert (answer.status, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert "immutable" in answer.headers["cache-control"]


async def test_secrets_are_nowhere_in_answers(api: Api):
    canary = "whsec_Q0FOQVJZQ0FOQVJZQ0FOQVJZQ0FOQVJZ"
    made = await api.endpoint("https://hooks.example.com/?token=x", secret=canary, headers={"Authorization": "CANARY"})
    texts = [
        (await api.call("GET", path)).body
        for path in ("/api/v1/endpoints", f"/api/v1/endpoints/{made['id']}", "/api/v1/overview", "/metrics")
    ]
    bad = await api.call("PATCH", f"/api/v1/endpoints/{made['id']}", {"secret": canary + "!!"})

    assert made["secret"] == canary
    assert b"CANARY" not in b"".join([*texts, bad.body])


async def test_an_unexpected_failure_tells_the_caller_nothing(api: Api, caplog: pytest.LogCaptureFixture):
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError("the secret inside")

    api.server.services.store.event = broken  # type: ignore[method-assign]
    answer = await api.call("GET", "/api/v1/events/evt_1")

    assert (answer.status, answer.code) == (500, "internal")
    assert b"secret inside" not in answer.body
    assert "a call failed unexpectedly" in caplog.text


async def test_anybody_may_read_the_description(api: Api):
    async with Connection(api.port) as stranger:
        assert (await stranger.call("GET", "/api/openapi.json")).status == 200


async def test_metrics_and_health_answer_without_a_key_only_to_the_names_of_the_loopback(api: Api):
    async with Connection(api.port) as stranger:
        for path in ("/metrics", "/healthz", "/readyz"):
            there = await stranger.call("GET", path, headers={"host": "rebound.example"})
            here = await stranger.call("GET", path, headers={"host": f"localhost:{api.port}"})

            assert (there.status, there.code) == (403, "cross_site"), path
            assert here.status == 200, path
    assert (await api.call("GET", "/metrics", headers={"host": "metrics.internal"})).status == 200


async def guess(api: Api, number: int) -> Answer:
    async with api.connect({"authorization": f"Bearer guess-{number}"}) as stranger:
        return await stranger.call("POST", "/api/v1/events", EVENT)


async def test_wrong_keys_are_held_back_and_the_right_one_is_not(api: Api, monkeypatch: pytest.MonkeyPatch):
    quick = [(await guess(api, number)).status for number in range(wrong_keys.BURST)]
    monkeypatch.setattr(wrong_keys, "DELAY_S", 3_600.0)
    held = [asyncio.create_task(guess(api, number)) for number in range(3)]
    mine = await api.call("POST", "/api/v1/events", EVENT)

    assert quick == [401] * wrong_keys.BURST
    assert mine.status == 202
    assert not any(one.done() for one in held)
    for one in held:
        one.cancel()


async def test_who_guesses_on_is_told_to_slow_down(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wrong_keys, "DELAY_S", 0.01)
    answers = [await guess(api, number) for number in range(wrong_keys.BURST + 1)]

    assert (answers[-1].status, answers[-1].code) == (429, "too_many_requests")
    assert answers[-1].headers["connection"] == "close"


async def test_a_call_without_any_key_is_no_guess(api: Api):
    async with Connection(api.port) as stranger:
        statuses = {(await stranger.call("GET", "/api/v1/events")).status for _ in range(2 * wrong_keys.BURST)}

    assert statuses == {401}


def test_guesses_from_many_addresses_are_bounded_together_and_forgotten_in_the_end():
    many = wrong_keys.WrongKeys()
    delays = [
        many.delay_s(f"10.0.{number // 250}.{number % 250}", 0.0) for number in range(wrong_keys.BURST_OF_ALL + 50)
    ]

    assert delays.count(0.0) == wrong_keys.BURST_OF_ALL
    assert many.delay_s("192.0.2.1", 60.0) == 0.0
    for number in range(2 * wrong_keys.ADDRESSES_MAX):
        many.delay_s(f"2001:db8:{number:x}::1", 60.0)
    assert len(many._of) == wrong_keys.ADDRESSES_MAX


def test_an_address_of_one_customer_is_one_source():
    assert (
        wrong_keys.network_of("2001:db8::1")
        == wrong_keys.network_of("2001:db8::ffff")
        != wrong_keys.network_of("2001:db9::1")
    )
    assert wrong_keys.network_of("192.0.2.1") != wrong_keys.network_of("192.0.2.2")
    assert wrong_keys.network_of("::ffff:192.0.2.1") == wrong_keys.network_of("192.0.2.1")
    assert wrong_keys.network_of("::ffff:192.0.2.1") != wrong_keys.network_of("::ffff:192.0.2.2")


def test_the_key_of_cursors_is_no_plain_hash_of_the_api_key():
    sealed = Cursors(KEY).seal("events", {}, "7")
    assert sealed is not None
    mac = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))[:12]
    text = repr(("events", [])).encode() + b"\0" + b"7"
    key = KEY.encode()
    quick = [key, hashlib.sha256(b"hooklane cursor\0" + key).digest(), hashlib.sha256(key).digest()]

    assert all(hmac.digest(key, text, "sha256")[:12] != mac for key in quick)
    assert Cursors(KEY).open("events", {"cursor": sealed}) == "7"


EDGES = ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59")
"""In UTC, these are not within the years 1 to 9999."""


@pytest.mark.parametrize("time", EDGES)
async def test_a_time_that_cannot_be_told_again_is_refused_and_nothing_is_stored(api: Api, time: str):
    made = await api.call("POST", "/api/v1/keys", {"name": "x", "scopes": ["read"], "expires_at": time})
    searched = await api.call("GET", f"/api/v1/attempts?after={quote(time)}")

    assert (made.status, searched.status) == (422, 422)
    assert (await api.get("/api/v1/keys"))["items"] == []


async def test_a_key_that_was_stored_with_such_a_time_is_listed(api: Api, tmp_path: Path):
    assert (await api.call("POST", "/api/v1/keys", {"name": "x", "scopes": ["read"]})).status == 201
    with sqlite3.connect(tmp_path / "hooklane.db") as conn:
        conn.execute("UPDATE hooklane_api_key SET expires_at = 253402387139000")

    [key] = (await api.get("/api/v1/keys"))["items"]

    assert key["expires_at"] == "9999-12-31T23:59:59.000Z"
