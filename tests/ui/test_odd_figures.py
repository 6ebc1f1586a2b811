"""Screens with nothing, one and a million of everything; a slow network; a server that answers with errors."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect
from tests.support.eventually import eventually
from tests.ui.conftest import Site, Visit, lane

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCREENS = ("/", "/lanes", "/events", "/dead", "/endpoints", "/inbox")
FIGURES = re.compile(r"/api/v1/(overview|endpoints|inbox/stats|inbox/sources|dead-letters/causes|lanes)(\?|$)")
KEPT = ("head", "tail", "seq", "attempts", "attempts_max", "settled", "version")
"""Numbers that say which one, and not how many."""
WRONG_PLURAL = re.compile(r"\b1 (events|keys|lanes|letters|duplicates|copies|tries|handlers|receipts|endpoints)\b")
COUNTERS = ".tile .dd, .tile .dt, .badge, .chip, .health dd, .tbl .r, .group .num"
CLIPPED = """(counters) => [...document.querySelectorAll(counters)]
  .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.outerHTML.slice(0, 160))"""


def with_figures(value: Any, many: int, name: str = "") -> Any:
    """*value* with each count in it *many*."""
    if isinstance(value, dict):
        return {key: with_figures(one, many, key) for key, one in value.items()}
    if isinstance(value, list) and name not in KEPT:
        return [with_figures(one, many, name) for one in value]
    is_count = isinstance(value, int) and not isinstance(value, bool) and name not in KEPT
    return many if is_count else value


def changed(change: Callable[[Any], Any]) -> Callable[[Route], Any]:
    async def answer(route: Route) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, body=json.dumps(change(await response.json())))

    return answer


@pytest.mark.parametrize("many", [*(pytest.param(many, marks=pytest.mark.soak) for many in (0, 1)), 10**6])
async def test_nothing_one_and_a_million_fit_in_every_counter(site: Site, visit: Visit, many: int) -> None:
    shop = await site.shop()
    shop.statuses["odd:1"] = 422
    await shop.publish("odd:1", 2)
    page: Page = await visit(f"{site.url}/api/docs")
    await page.route(FIGURES, changed(lambda value: with_figures(value, many)))

    async def fits() -> bool:
        """Asked from here: the page's policy lets no text be run in it, so it cannot be waited for in the page."""
        return bool(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"))

    for path in SCREENS:
        await page.goto(site.url + path)
        await expect(page.locator("main > *").first).to_be_visible()
        await expect(page.locator(".skeleton")).to_have_count(0)
        for width in (1280, 390):
            await page.set_viewport_size({"width": width, "height": 844})
            where = f"{path} at {width} px with {many}"
            # What is drawn to measure is drawn anew a moment after the page has another width.
            await eventually(fits)
            assert await page.evaluate(CLIPPED, COUNTERS) == [], where
        assert WRONG_PLURAL.findall(await page.locator("main").inner_text()) == [], path
    await page.unroute_all(behavior="ignoreErrors")


async def test_on_a_slow_network_rows_of_the_final_height_stand_in_until_the_answer_comes(
    site: Site, visit: Visit
) -> None:
    shop = await site.shop()
    await shop.publish("slow:1")
    page: Page = await visit(f"{site.url}/api/docs")
    may_answer = asyncio.Event()

    async def later(route: Route) -> None:
        await may_answer.wait()
        await route.continue_()

    await page.route("**/api/v1/lanes*", later)
    await page.goto(f"{site.url}/lanes?endpoint={shop.id}")
    await expect(page.locator(".skeleton i").first).to_have_css("height", "48px")
    await expect(page.locator("h1")).to_have_text("Lanes")
    await expect(page.locator(".empty")).to_have_count(0)  # nothing is known yet, so nothing is said

    may_answer.set()
    await expect(lane(page, "slow:1")).to_have_css("height", "48px")
    await expect(page.locator(".skeleton")).to_have_count(0)


@pytest.mark.parametrize("path", SCREENS)
async def test_a_screen_whose_call_fails_says_what_holds_and_loads_again(site: Site, visit: Visit, path: str) -> None:
    page: Page = await visit(f"{site.url}/api/docs", quiet=False)  # the browser logs each refusal
    problem = {"code": "internal", "title": "Something broke", "detail": "The disk is full"}

    tried = False

    async def refuse(route: Route) -> None:
        nonlocal tried
        tried = tried or "tried" in route.request.url
        if tried:
            await route.continue_()
        else:
            await route.fulfill(status=500, content_type="application/problem+json", body=json.dumps(problem))

    calls = re.compile(r"/api/v1/(overview|lanes|events|dead-letters|endpoints|inbox)")
    await page.route(calls, refuse)
    await page.goto(site.url + path)
    failed = page.locator(".failed").first
    await expect(failed).to_contain_text(
        "The disk is full. Nothing was changed; deliveries do not depend on this page."
    )

    # Refused until the click: a page also asks again by itself, and then there would be nothing to click.
    await page.evaluate("addEventListener('click', () => void fetch('/api/v1/overview?tried'), true)")
    await failed.get_by_role("button", name="Try again").click()
    await expect(page.locator(".failed")).to_have_count(0)


async def test_a_search_goes_on_until_every_lane_was_looked_at(site: Site, visit: Visit) -> None:
    """The server looks at a part of the lanes in each call: a page may find nothing and not be the last."""
    shop = await site.shop()
    await shop.publish("needle:1")
    page: Page = await visit(f"{site.url}/api/docs")
    empty = 0

    async def first_nothing(route: Route) -> None:
        nonlocal empty
        if "q=needle" not in route.request.url or empty >= 30:
            await route.continue_(url=re.sub("cursor=again&?", "", route.request.url))
            return
        empty += 1
        counts = {"idle": 1, "active": 0, "retrying": 0, "blocked": 0, "paused": 0}
        body = {"items": [], "next": "again", "counts": counts, "quiet": 1, "as_of": "2026-01-01T00:00:00.000Z"}
        await route.fulfill(json=body)

    await page.route("**/api/v1/lanes*", first_nothing)
    await page.clock.set_fixed_time(time.time())  # a search ends after four seconds, which a busy machine needs
    await page.goto(f"{site.url}/lanes?q=needle")

    await expect(lane(page, "needle:1")).to_be_visible()
    assert empty == 30
