"""A page that opens: what it shows first is asked for before its modules are there, and is not old when it is drawn."""

import asyncio

import pytest
from playwright.async_api import Page, Route, expect
from tests.support.eventually import eventually
from tests.support.pace import scaled_s
from tests.ui.conftest import Site, Visit, lane, pill

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_board_shows_what_moved_after_its_lanes_were_asked_for_and_before_its_modules_came(
    site: Site, visit: Visit
):
    shop = await site.shop()
    await shop.publish("early:1")
    await shop.sink.arrived(1, where=lambda one: one.path == f"/{shop.name}")
    page: Page = await visit(f"{site.url}/api/docs")
    calls: list[str] = []
    released = asyncio.Event()
    page.on("request", lambda one: "/api/v1/" in one.url and calls.append(one.url.partition("/api/v1/")[2]))

    async def hold(route: Route) -> None:
        await released.wait()
        await route.continue_()

    await page.route("**/main.js", hold)
    async with page.expect_response("**/api/v1/lanes?state=idle*", timeout=scaled_s(30.0) * 1000):
        await page.goto(f"{site.url}/lanes", wait_until="commit")
    await shop.publish("early:1")
    await shop.sink.arrived(2, where=lambda one: one.path == f"/{shop.name}")
    released.set()

    await expect(lane(page, "early:1").locator(".done [data-seq='2']")).to_be_visible()
    await expect(pill(page)).to_have_text("Live")
    assert sorted(calls) == sorted(set(calls)), "what was asked for early is not asked for again"
    assert await page.evaluate("[Object.keys(early.answers), early.stream ?? null]") == [[], None]


async def test_of_events_that_were_there_when_the_page_was_opened_none_is_new(site: Site, visit: Visit):
    shop = await site.shop()
    await shop.publish("new:1", 3)

    async def is_counted() -> bool | None:
        """The totals are some seconds old; each event of this file has one delivery."""
        listed = (await site.call("GET", "events?limit=100"))["items"]
        totals = await site.call("GET", "overview")
        return totals["ledger"]["accepted"] == len(listed) or None

    await eventually(is_counted)
    page: Page = await visit(f"{site.url}/events")
    await expect(page.locator(".head .sub")).to_contain_text("accepted")
    await expect(page.get_by_role("button", name="new")).to_have_count(0)

    await shop.publish("new:1")
    await expect(page.get_by_role("button", name="1 new", exact=True)).to_be_visible()


async def test_an_event_that_was_just_delivered_says_what_the_receiver_answered(site: Site, visit: Visit):
    shop = await site.shop()
    await shop.publish("said:1")
    await shop.sink.arrived(1, where=lambda one: one.path == f"/{shop.name}")
    page: Page = await visit(f"{site.url}/events?q=said:1")

    row = page.get_by_role("row", name="said:1")
    await expect(row).to_contain_text("delivered")
    await expect(row).to_contain_text("200")


SERIES = {
    "from": "2026-01-01T00:00:00.000Z",
    "step_s": 10,
    "series": [
        {"m": "published", "by": "", "values": [0] * 80 + [5] * 19 + [1]},
        {"m": "blocked", "by": "", "values": [0] * 99 + [2]},
    ],
}


async def test_a_chart_begins_with_the_first_event_and_leaves_out_the_step_that_still_runs(site: Site, visit: Visit):
    page: Page = await visit(f"{site.url}/lanes")
    measured = await page.evaluate(
        """async (series) => (await import(new URL(`${document.body.dataset.static}/figures.js`, location.href)))
          .whatWasMeasured(series)""",
        SERIES,
    )

    assert measured["series"][0]["values"] == [0, *[5] * 19]
    assert measured["series"][1]["values"] == [*[0] * 20, 2], "how many are blocked now is known"
    assert measured["from"] == "2026-01-01T00:13:10.000Z"
