"""The dashboard inside FastAPI, Flask and Django: behind the application's login, below a prefix, behind a proxy."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect
from tests.processes.mounting.prefix_proxy import PREFIX, prefix_proxy
from tests.support.pace import scaled_s
from tests.support.processes import Child, start_listening
from tests.support.tree import ROOT

EXAMPLES = ROOT / "examples" / "dashboard"
SERVERS = {
    "fastapi": ["uvicorn", "fastapi_app:app", "--host", "127.0.0.1", "--log-level", "warning", "--port", "{port}"],
    "flask": ["gunicorn", "flask_app:app", "--workers", "1", "--threads", "4", "--bind", "127.0.0.1:{port}"],
    "flask_run": ["flask", "--app", "flask_app", "run", "--port", "{port}"],
    "django": ["gunicorn", "django_app:app", "--workers", "1", "--threads", "4", "--bind", "127.0.0.1:{port}"],
}
STREAMS = {"fastapi"}
"""Where the stream stays open; elsewhere it comes in pieces."""
Visit = Callable[..., Any]


class Mounted:
    """A running application with a dashboard in it."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.cookie = ""

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=scaled_s(30))
        try:
            sent = {"cookie": self.cookie} if self.cookie else {}
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            data = None if body is None else json.dumps(body).encode()
            conn.request(method, path, data, {**sent, "content-type": "application/json", **given})
            response = conn.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return response.status, told, response.read()
        finally:
            conn.close()

    def sign_in(self, customer: str = "") -> None:
        status, headers, _ = self.call("POST", f"/login/{customer}" if customer else "/login")
        assert status == 303
        self.cookie = headers["set-cookie"].partition(";")[0]


@pytest.fixture(params=list(SERVERS), scope="module")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    folder: Path = tmp_path_factory.mktemp(request.param)

    def spawn(port: int) -> Child:
        words = [word.format(port=port) for word in SERVERS[request.param]]
        env = {
            "HOOKLANE_DB": f"sqlite:///{folder}/hooklane.db",
            "APP_DB": str(folder / "app.db"),
            "PYTHONPATH": ":".join(sys.path),
        }
        return Child([sys.executable, "-m", *words], log=folder / "server.log", env=env, cwd=EXAMPLES)

    child, port = start_listening(spawn, lambda child, port: child.wait_for_http(f"http://127.0.0.1:{port}/login"))
    with child:
        yield Mounted(request.param, port)


@pytest.fixture
def app(running: Mounted) -> Mounted:
    """Signed in."""
    one = Mounted(running.name, running.port)
    one.sign_in()
    return one


def test_nothing_is_answered_without_the_applications_login(running: Mounted) -> None:
    for method, path in (
        ("GET", "/hooklane/api/v1/overview"),
        ("POST", "/hooklane/api/v1/events"),
        ("GET", "/hooklane/"),
    ):
        status, headers, body = running.call(method, path, {} if method == "POST" else None)
        assert (status, json.loads(body)["code"]) == (401, "login_required"), path
        assert headers["content-type"].startswith("application/problem+json")

    status, headers, _ = running.call("GET", "/hooklane/lanes", accept="text/html")
    assert (status, headers["location"]) == (303, "/login")
    assert running.call("GET", "/hooklane/api/v1/overview", authorization="Bearer guess")[0] == 401


def test_the_page_and_its_files_load_below_the_prefix(app: Mounted) -> None:
    status, headers, page = app.call("GET", "/hooklane/", accept="text/html")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert "script-src 'self'" in headers["content-security-policy"]
    script = page.decode().partition('<script type="module" src="')[2].partition('"')[0]
    status, headers, _ = app.call("GET", f"/hooklane/{script}")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/javascript")
    assert app.call("GET", "/hooklane", accept="text/html")[1]["location"].endswith("hooklane/")


def test_calls_work_with_any_key_and_are_refused_from_other_sites(app: Mounted) -> None:
    path, body = "/hooklane/api/v1/endpoints", {"url": "http://127.0.0.1:9/x", "name": "shop"}
    assert app.call("POST", path, body, origin="https://evil.example")[0] == 403
    assert app.call("POST", path, body, sec_fetch_site="cross-site")[0] == 403
    status, _, made = app.call("POST", path, body)
    assert status == 201, made
    event = {"type": "order.created", "key": "a/b %", "data": {"n": 1}}
    assert app.call("POST", "/hooklane/api/v1/events", event)[0] == 202
    lane = f"/hooklane/api/v1/lanes/{json.loads(made)['id']}/a%2Fb%20%25"
    status, _, told = app.call("GET", lane)
    assert (status, json.loads(told)["key"]) == (200, "a/b %")
    assert app.call("GET", "/hooklane/api/v1/events?limit=1000000")[0] == 422
    assert app.call("GET", "/hooklane/api/v1/nothing")[0] == 404
    assert app.call("POST", "/hooklane/api/v1/sim", {"scenario": "timeout"})[0] == 200


def test_the_stream_stays_open_where_it_can_and_comes_in_pieces_elsewhere(app: Mounted) -> None:
    conn = http.client.HTTPConnection("127.0.0.1", app.port, timeout=scaled_s(30))
    try:
        conn.request("GET", "/hooklane/api/v1/stream", headers={"cookie": app.cookie})
        response = conn.getresponse()
        assert (response.status, response.getheader("content-type", "").partition(";")[0]) == (200, "text/event-stream")
        if app.name in STREAMS:
            assert response.getheader("hooklane-poll-ms") is None
            assert response.readline()
        else:
            assert int(response.getheader("hooklane-poll-ms", "")) > 0
            assert b"event: " in response.read(), "it ends, and holds what there is"
    finally:
        conn.close()


def test_a_customer_has_the_portal_of_its_own_tenant_and_nothing_else(running: Mounted, app: Mounted) -> None:
    for name in ("acme", "other"):
        assert app.call("POST", "/hooklane/api/v1/tenants", {"id": name})[0] in (201, 409)
        made = app.call(
            "POST",
            "/hooklane/api/v1/endpoints",
            {"url": f"http://127.0.0.1:9/{name}", "name": name},
            hooklane_tenant=name,
        )
        assert made[0] == 201, made
    api = "/webhooks/api/v1"
    assert running.call("GET", f"{api}/endpoints")[0] == 401
    assert app.call("GET", f"{api}/endpoints")[0] == 401, "an operator is no customer"
    customer = Mounted(running.name, running.port)
    customer.sign_in("acme")

    session = json.loads(customer.call("GET", f"{api}/session")[2])
    assert (session["role"], session["tenant"], session["asks_key"]) == ("portal", "acme", True)
    seen = json.loads(customer.call("GET", f"{api}/endpoints")[2])["items"]
    assert {one["name"] for one in seen} == {"acme"}
    assert customer.call("GET", f"{api}/endpoints", hooklane_tenant="other")[0] == 404
    event = {"type": "order.created", "key": "a", "data": {}}
    for method, path, body in (
        ("POST", "events", event),
        ("POST", "events/batch", {"events": [event]}),
        ("GET", "keys", None),
        ("GET", "tenants", None),
        ("GET", "audit", None),
        ("GET", "inbox", None),
        ("POST", "plans", {"op": "replay", "filter": {"state": "dead"}}),
        ("POST", "sim", {}),
    ):
        assert customer.call(method, f"{api}/{path}", body)[0] in (403, 404), path
    assert customer.call("GET", "/webhooks/metrics")[0] == 403
    stranger = Mounted(running.name, running.port)
    stranger.sign_in("nobody-of-this-name")
    assert stranger.call("GET", f"{api}/endpoints")[0] == 404


# One that streams and one that answers in pieces; what differs besides, the tests above show without a browser.
@pytest.mark.parametrize(
    "running",
    ["fastapi", "flask", *(pytest.param(name, marks=pytest.mark.soak) for name in ("flask_run", "django"))],
    indirect=True,
)
@pytest.mark.asyncio(loop_scope="session")
async def test_a_person_works_with_it_behind_a_proxy_that_adds_a_prefix(app: Mounted, visit: Visit) -> None:
    async with prefix_proxy(app.port) as port:
        site = f"http://127.0.0.1:{port}{PREFIX}/hooklane"
        name, _, value = app.cookie.partition("=")
        page = await visit(f"http://127.0.0.1:{port}{PREFIX}/login", quiet=False)
        await page.context.add_cookies([{"name": name, "value": value, "url": f"http://127.0.0.1:{port}/"}])
        await page.goto(f"{site}/lanes")
        await expect(page.locator(".live .word")).to_have_text("Live")
        endpoint = {"url": "http://127.0.0.1:9/y", "name": f"proxy {app.name}"}
        event = {"type": "order.created", "key": f"proxied-{app.name}", "data": {}}
        app.call("POST", "/hooklane/api/v1/endpoints", endpoint)
        app.call("POST", "/hooklane/api/v1/events", event)
        await expect(page.locator("li.lane").filter(has_text=f"proxied-{app.name}").first).to_be_visible()

        await page.goto(f"{site}/play?s=two-workers")
        await page.get_by_label("Moment of the scenario").press("End")
        await expect(page.locator("[data-receiver=check_then_mark] [data-meter=twice]")).to_have_text("2")
