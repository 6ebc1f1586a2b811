"""Who may look: a key typed once, and a customer behind a portal link, in a real browser."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.support.http_client import Connection
from tests.support.pace import scaled_ms
from tests.support.receiver import Sink
from tests.ui.axe import AXE, faults_of
from tests.ui.conftest import settings_in

from hooklane.cli.process import Running, running
from hooklane.config import Secret

KEY = "key-for-the-page"
PORTAL_SCREENS = ("/", "/lanes", "/events", "/dead", "/endpoints")
KEPT = "document.cookie + JSON.stringify([{...localStorage}, {...sessionStorage}])"

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(tmp_path_factory: pytest.TempPathFactory, one_core: None) -> AsyncIterator[Running]:
    changes = {"no_auth": False, "api_key": Secret(KEY), "page_accent": "#0055aa"}
    async with running(settings_in(tmp_path_factory.mktemp("guarded"), **changes)) as server:
        yield server


async def call(server: Running, method: str, path: str, body: Any = None, key: str = KEY) -> Any:
    headers = {"authorization": f"Bearer {key}"}
    async with Connection(int(server.address.rpartition(":")[2]), headers) as connection:
        answer = await connection.call(method, f"/api/v1/{path}", body)
        assert answer.status < 300, answer
        return answer.json


async def fresh(browser: Browser) -> Page:
    page = await (await browser.new_context()).new_page()
    page.set_default_timeout(scaled_ms(10_000))
    return page


async def test_a_key_is_asked_for_once_and_kept_nowhere_that_a_script_can_read(guarded: Running, browser: Browser):
    page = await fresh(browser)
    await page.context.add_init_script(path=AXE)
    await page.goto(guarded.address)
    box = page.get_by_label("This server asks for its API key")
    await expect(box).to_be_visible()
    assert await faults_of(page, "sign in") == []
    await box.fill("wrong-key")
    await page.get_by_role("button", name="Open").click()
    await expect(page.get_by_role("alert")).to_contain_text("API key")
    await box.fill(KEY)
    await page.get_by_role("button", name="Open").click()
    await expect(box).to_have_count(0, timeout=scaled_ms(10_000))
    await page.goto(f"{guarded.address}/endpoints")
    await expect(box).to_have_count(0)

    kept = await page.evaluate(KEPT)
    (cookie,) = await page.context.cookies()
    assert KEY not in kept
    assert "hl_" not in kept
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    await page.context.close()


async def test_a_customer_opens_a_link_and_sees_what_is_theirs_and_nothing_else(guarded: Running, browser: Browser):
    await call(guarded, "POST", "tenants", {"id": "acme"})
    acme = (await call(guarded, "POST", "keys", {"name": "acme", "scopes": ["admin"], "tenant": "acme"}))["key"]
    for name, key in (("mine", acme), ("others", KEY)):
        await call(guarded, "POST", "endpoints", {"url": f"http://127.0.0.1:9/{name}", "name": name}, key)
    link = await call(guarded, "POST", "tenants/acme/portal", {})
    page = await fresh(browser)
    await page.goto(link["url"])

    await expect(page.get_by_label("This server asks for its API key")).to_have_count(0)
    await page.wait_for_url(lambda url: "hl_" not in url)
    await expect(page.locator("html")).to_have_css("--accent", re.compile(r"^light-dark\(#0055aa, "))
    await expect(page.get_by_role("link", name="Endpoints").first).to_be_visible()
    await expect(page.get_by_role("link", name="Audit and keys")).to_have_count(0)
    seen = await page.evaluate("fetch('api/v1/endpoints').then((answer) => answer.json())")
    assert [one["name"] for one in seen["items"]] == ["mine"]
    await page.context.add_init_script(path=AXE)
    for width in (1280, 390):
        await page.set_viewport_size({"width": width, "height": 844})
        for path in PORTAL_SCREENS:
            await page.goto(guarded.address + path)
            await expect(page.locator("main > *").first).to_be_visible()
            await expect(page.locator(".skeleton")).to_have_count(0)
            await expect(page.locator(".failed")).to_have_count(0)
            assert await faults_of(page, f"{path} of the portal at {width} px") == []
    await page.goto(f"{guarded.address}/endpoints")
    await expect(page.get_by_text("mine", exact=True).first).to_be_visible(timeout=scaled_ms(10_000))
    await expect(page.get_by_text("others", exact=True)).to_have_count(0)
    await page.context.close()


@pytest.fixture
def shop() -> Iterator[Sink]:
    with Sink() as sink:
        yield sink


async def test_a_customer_adds_an_endpoint_sees_a_test_arrive_and_finds_nothing_of_another_tenant(
    guarded: Running, browser: Browser, shop: Sink
):
    await call(guarded, "POST", "tenants", {"id": "fox"})
    others = await call(guarded, "POST", "endpoints", {"url": shop.url("/others"), "name": "secret-name"})
    event = await call(guarded, "POST", "events", {"type": "secret.type", "data": {}, "key": "secret-key"})
    link = await call(guarded, "POST", "tenants/fox/portal", {})
    page = await fresh(browser)
    await page.goto(link["url"])
    await page.get_by_role("link", name="Endpoints").first.click()
    await page.get_by_role("button", name="Add an endpoint").click()
    await page.get_by_label("URL").fill(shop.url("/hooks"))
    await page.get_by_label("Name").fill("our shop")
    await page.get_by_role("button", name="Add", exact=True).click()
    await page.get_by_role("button", name="I have kept it").click()
    await page.get_by_role("button", name="Test…").click()
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.get_by_role("dialog")).to_contain_text("200", timeout=scaled_ms(10_000))
    arrived = [one for one in shop.requests if one.path == "/hooks"]
    assert [one.headers["webhook-id"][:4] for one in arrived] == ["evt_"]

    paths = [f"endpoints/{others['id']}", f"events/{event['id']}"]
    lists = ["", "events", "lanes", "events?q=secret", "lanes?q=secret", "dead", "endpoints", "audit", "inbox"]
    for path in (*paths, *lists):
        async with page.expect_response(lambda one: "/api/v1/" in one.url and "stream" not in one.url):
            await page.goto(f"{guarded.address}/{path}")
        await expect(page.get_by_role("heading", level=1).first).to_be_visible(timeout=scaled_ms(10_000))
        text = await page.evaluate("document.body.innerText")
        assert "secret-name" not in text, path
        assert "secret.type" not in text, path
        assert "secret-key" not in text.replace(page.url, ""), path
    for path in (*paths, f"lanes/{others['id']}/secret-key"):
        status = await page.evaluate(f"fetch('{guarded.address}/api/v1/{path}').then((answer) => answer.status)")
        assert status == 404, path
    named = {"hooklane-tenant": "default"}
    stolen = "(headers) => fetch('/api/v1/endpoints', {headers}).then((answer) => answer.status)"
    assert await page.evaluate(stolen, named) == 404
    await page.context.close()


async def signed_in(server: Running, browser: Browser, key: str) -> Page:
    page = await fresh(browser)
    await page.goto(server.address)
    await page.get_by_label("This server asks for its API key").fill(key)
    await page.get_by_role("button", name="Open").click()
    await expect(page.locator("h1")).to_have_text("Overview", timeout=scaled_ms(10_000))
    return page


async def test_a_page_whose_session_is_over_asks_for_the_key(guarded: Running, browser: Browser):
    """The board of lanes makes no calls of its own: it lives from the stream, which has ended."""
    page = await signed_in(guarded, browser, KEY)
    await page.goto(f"{guarded.address}/lanes")
    await expect(page.locator(".live .word")).to_have_text("Live", timeout=scaled_ms(10_000))
    await page.evaluate("fetch('api/v1/session', {method: 'DELETE'})")
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # the stream is asked for anew

    await expect(page.get_by_label("This server asks for its API key")).to_be_visible(timeout=scaled_ms(10_000))
    await page.context.close()


async def test_a_viewer_finds_what_changes_something_disabled_and_may_do_what_only_reads(
    guarded: Running, browser: Browser
):
    viewer = (await call(guarded, "POST", "keys", {"name": "eve", "scopes": ["read"]}))["key"]
    endpoint = await call(guarded, "POST", "endpoints", {"url": "http://127.0.0.1:9/viewed", "name": "viewed"})
    page = await signed_in(guarded, browser, viewer)
    buttons = {"endpoints": ["Add an endpoint"], f"endpoints/{endpoint['id']}": ["Test…", "Rotate…", "Pause…"]}
    for path, names in buttons.items():
        await page.goto(f"{guarded.address}/{path}")
        for name in names:
            button = page.get_by_role("button", name=name)
            await expect(button).to_be_disabled(timeout=scaled_ms(10_000))
            await expect(button).to_have_attribute("title", "You are here as viewer, who may only look")
    await page.goto(f"{guarded.address}/audit")
    await page.get_by_role("button", name="Verify").click()
    await expect(page.locator(".chain")).to_contain_text("The record is whole", timeout=scaled_ms(10_000))
    await page.context.close()


async def test_behind_a_portal_link_there_are_no_screens_about_all_tenants(guarded: Running, browser: Browser):
    await call(guarded, "POST", "tenants", {"id": "owl"})
    link = await call(guarded, "POST", "tenants/owl/portal", {})
    page = await fresh(browser)
    await page.goto(link["url"])
    await expect(page.get_by_role("link", name="Endpoints").first).to_be_visible(timeout=scaled_ms(10_000))
    for path in ("audit", "inbox", "inbox/1", "play"):
        await page.goto(f"{guarded.address}/{path}")
        await expect(page.locator("h1")).to_have_text("Nothing here", timeout=scaled_ms(10_000))
    await page.context.close()
