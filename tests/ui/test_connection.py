"""The page and a server that goes away, comes back, or is looked away from."""

import asyncio
import re
from collections.abc import Callable

import pytest
from playwright.async_api import Page, expect
from tests.support.eventually import eventually
from tests.support.processes import Child
from tests.ui.conftest import Site, Visit, lane, pill

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_server_that_stops_dims_the_page_and_comes_back_to_it(
    start_hooklane: Callable[..., Child], visit: Visit
):
    child = start_hooklane("dev", "--demo", "--no-open", "--port", "0")
    url = (await asyncio.to_thread(child.wait_for_line, r"Dashboard\s+(http://\S+)"))[1]
    page: Page = await visit(f"{url}/lanes", quiet=False)
    await expect(lane(page, "order:1001").first).to_be_visible()
    # It comes by a call of its own, which a server that stops before would never answer.
    await expect(page.get_by_role("button", name="Break one key")).to_be_enabled()

    await asyncio.to_thread(child.stop)

    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer. Shown:")
    await expect(page.get_by_role("alert")).to_contain_text("Trying again")
    await expect(pill(page)).to_have_text(re.compile("Reconnecting, as of"))
    await expect(page.get_by_role("button", name="Break one key")).to_be_disabled()
    await expect(lane(page, "order:1001").first).to_be_visible()

    start_hooklane("dev", "--demo", "--no-open", "--port", url.rpartition(":")[2])

    await expect(pill(page)).to_have_text("Live", timeout=60_000)
    await expect(page.get_by_role("alert")).to_have_count(0)
    await expect(page.get_by_role("button", name="Break one key")).to_be_enabled()


async def test_a_hidden_tab_lets_go_of_its_stream(site: Site, visit: Visit):
    shop = await site.shop()
    page: Page = await visit(f"{site.url}/lanes?endpoint={shop.id}")
    await expect(pill(page)).to_have_text("Live")
    await page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )

    async def unwatched() -> bool:
        return not site.server.services.live_stream.client_count

    await eventually(unwatched)
    await shop.publish("hidden:1")
    await page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")

    await expect(lane(page, "hidden:1")).to_have_attribute("data-state", "idle")


SILENT = """window.streams = 0; const usual = window.fetch; window.fetch = (what, options) => {
  if (!String(what.url ?? what).endsWith("/api/v1/stream")) return usual(what, options);
  streams += 1;
  const begun = new TextEncoder().encode("event: reset\\nid: a-0\\ndata: {}\\n\\n");
  return Promise.resolve(new Response(new ReadableStream({ start: (to) => to.enqueue(begun) })));
};"""


async def test_a_stream_that_died_without_a_word_is_joined_anew(site: Site, visit: Visit):
    """A connection that a proxy or a sleeping machine has dropped says nothing any more: not even its heartbeat."""
    page: Page = await visit(f"{site.url}/api/docs")
    await page.add_init_script(SILENT)
    await page.clock.install()
    await page.goto(f"{site.url}/lanes")
    await expect(pill(page)).to_have_text("Live")
    await page.clock.fast_forward(44_000)
    assert await page.evaluate("streams") == 1, "three heartbeats are waited for"

    await page.clock.fast_forward(2_000)
    await expect(pill(page)).to_have_text(re.compile("Reconnecting"))
    await page.clock.fast_forward(2_000)

    await expect(pill(page)).to_have_text("Live")
    assert await page.evaluate("streams") == 2
