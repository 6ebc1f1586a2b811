"""What holds on every screen: its address, its focus, what its figures say, and who may press what."""

import asyncio
import json
import re
from itertools import pairwise
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect
from tests.support.eventually import eventually
from tests.support.receiver import Answer
from tests.ui.conftest import Site, Visit, lane

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOLLOW = """(path) => { const link = Object.assign(document.createElement("a"), { href: path });
  document.body.append(link); link.click(); link.remove(); }"""


async def test_the_link_that_skips_to_the_content_goes_there(site: Site, visit: Visit):
    page: Page = await visit(f"{site.url}/events")
    await expect(page.locator("main > *").first).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()

    await page.keyboard.press("Enter")

    await expect(page.locator("main")).to_be_focused()
    await expect(page.locator("h1")).to_have_text("Events")


async def test_nothing_of_one_event_stands_under_the_address_of_another(site: Site, visit: Visit):
    shop = await site.shop()
    [event] = await shop.publish("here:1")
    page: Page = await visit(f"{site.url}/events/{event}", quiet=False)  # the browser logs the 404
    await expect(page.locator("main")).to_contain_text(event)

    await page.evaluate(FOLLOW, "/events/evt_that_is_nowhere")

    await expect(page.locator(".failed")).to_contain_text("This event could not be loaded")
    await expect(page.locator("main")).not_to_contain_text(event)


async def test_an_address_that_is_no_text_leads_nowhere_and_says_so(site: Site, visit: Visit):
    page: Page = await visit(f"{site.url}/events/%zz", quiet=False)  # the browser logs the 404

    await expect(page.locator(".failed")).to_contain_text("This event could not be loaded")


async def test_an_id_with_a_slash_in_it_asks_for_nothing_else(site: Site, visit: Visit):
    page: Page = await visit(f"{site.url}/lanes", quiet=False)
    await expect(page.locator("h1")).to_have_text("Lanes")
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url.partition("/api/v1/")[2]))
    await page.evaluate(FOLLOW, "/events/..%2Fendpoints")

    await expect(page.locator(".failed")).to_contain_text("This event could not be loaded")
    assert "endpoints" not in asked


async def test_who_reads_with_the_keyboard_goes_on_at_the_top_of_the_next_screen(site: Site, visit: Visit):
    shop = await site.shop()
    [event] = await shop.publish("focus:1")
    page: Page = await visit(f"{site.url}/events?endpoint={shop.id}")
    await page.locator(f"a[href$='{event}']").focus()
    await page.keyboard.press("Enter")

    await expect(page.locator("h1")).to_have_text(shop.type)
    await expect(page.locator("h1")).to_be_focused()


async def test_a_screen_that_could_not_be_fetched_says_so_and_is_fetched_again(site: Site, visit: Visit):
    page: Page = await visit(site.url, quiet=False)  # the browser logs what did not come
    await expect(page.locator("main > *").first).to_be_visible()
    await page.route("**/audit.js", lambda route: route.abort())
    await page.get_by_role("link", name="Audit and keys").first.click()
    await expect(page.locator(".failed")).to_contain_text("This screen could not be loaded.")

    await page.unroute_all()
    await page.get_by_role("button", name="Try again").click()

    await expect(page.get_by_role("button", name="Verify")).to_be_visible()


NUMBERS = '{"id": 9007199254740993, "price": 1.50, "small": 7}'


async def test_data_is_shown_and_copied_with_the_numbers_that_were_published(site: Site, visit: Visit):
    """JavaScript reads 9007199254740993 as 9007199254740992, and 1.50 as 1.5."""
    shop = await site.shop()
    [event] = await shop.publish("numbers:1")
    page: Page = await visit(f"{site.url}/api/docs")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])

    async def with_numbers(route: Route) -> None:
        response = await route.fetch()
        whole = await response.json()
        text = json.dumps({**whole, "data": "DATA"}).replace('"DATA"', NUMBERS)
        await route.fulfill(response=response, body=text)

    await page.route(f"**/api/v1/events/{event}", with_numbers)
    await page.goto(f"{site.url}/events/{event}?tab=data")
    await expect(page.locator(".raw pre").first).to_have_text(re.compile(r'"id": 9007199254740993,\s+"price": 1.50,'))
    await page.get_by_role("button", name="Copy as").click()
    await page.get_by_role("button", name="curl").click()
    await expect(page.locator(".said")).to_contain_text("Copied as curl.")

    assert NUMBERS.replace(" ", "") in await page.evaluate("navigator.clipboard.readText()")


async def test_large_numbers_are_told_as_they_were_published(site: Site):
    body = {"type": "large.number", "data": {"id": 9007199254740993}}
    event = (await site.call("POST", "events", body))["id"]

    assert (await site.call("GET", f"events/{event}"))["data"] == {"id": 9007199254740993}


async def test_of_some_days_the_axis_of_time_says_the_days(site: Site, visit: Visit):
    page: Page = await visit(f"{site.url}/lanes", timezone_id="UTC")
    said: list[Any] = await page.evaluate(
        """async () => { const module = new URL(`${document.body.dataset.static}/chart.js`, location.href);
          const { timeTexts } = await import(module);
          const from = Date.UTC(2026, 10, 18) / 1000;
          return [timeTexts(null, [0, 1, 2].map((day) => from + day * 86400)),
            timeTexts(null, [-6, 0, 6].map((hour) => from + hour * 3600))]; }"""
    )

    assert said == [["11-18", "11-19", "11-20"], ["18:00", "11-18", "06:00"]]


async def test_a_figure_between_two_that_are_not_known_is_drawn(site: Site, visit: Visit):
    """An endpoint with a delivery now and then: no line goes from one to the next."""
    shop = await site.shop()
    await shop.publish("rare:1")
    page: Page = await visit(f"{site.url}/api/docs", quiet=False)  # Chromium warns of what the test reads
    waits = {"p50": 100, "p95": 200, "p99": 300}

    async def rare(route: Route) -> None:
        lines = [{"m": "delivery_ms", "by": by, "values": [None] * 4 + [ms] + [None] * 5} for by, ms in waits.items()]
        lines += [{"m": "attempts", "by": by, "values": [0] * 10} for by in ("delivered", "retry", "dead")]
        await route.fulfill(json={"from": "2026-01-01T00:00:00.000Z", "step_s": 60, "series": lines, "marks": []})

    await page.route("**/api/v1/series*", rare)
    await page.goto(f"{site.url}/endpoints/{shop.id}")
    picture = page.locator(".chart-card canvas").last
    await expect(picture).to_be_visible()
    painted = """(canvas) => { const pen = canvas.getContext("2d");
      const dot = document.createElement("canvas").getContext("2d");
      dot.fillStyle = getComputedStyle(document.querySelector(".legend .i-flight")).backgroundColor;
      dot.fillRect(0, 0, 1, 1);
      const [r, g, b] = dot.getImageData(0, 0, 1, 1).data;
      const all = pen.getImageData(0, 0, canvas.width, canvas.height).data;
      for (let at = 0; at < all.length; at += 4) {
        if (all[at] === r && all[at + 1] === g && all[at + 2] === b && all[at + 3] === 255) return true;
      }
      return false; }"""

    async def is_drawn() -> bool:
        return bool(await picture.evaluate(painted))

    await eventually(is_drawn)


async def test_how_many_wait_is_said_whole_also_where_the_board_is_narrow(site: Site, visit: Visit):
    shop = await site.shop()
    shop.statuses["narrow:1"] = 422
    await shop.publish("narrow:1", 150)
    for width in (1440, 390):
        page: Page = await visit(
            f"{site.url}/lanes?endpoint={shop.id}" + (f"&lane={shop.id}/narrow:1" if width > 720 else ""),
            viewport={"width": width, "height": 844},
        )
        queue = lane(page, "narrow:1").locator(".queue")
        await expect(queue.locator(".cell:visible")).to_have_count(3)
        await expect(queue.locator(".more:visible")).to_have_text("+147")
        assert await queue.evaluate("(one) => one.scrollWidth <= one.clientWidth"), width


@pytest.mark.parametrize("number", [123, 1_234, 12_345])
async def test_long_numbers_stay_in_their_columns(site: Site, visit: Visit, number: int):
    shop = await site.shop()
    await shop.publish("numbers:1")
    page: Page = await visit(f"{site.url}/api/docs")

    (shape,) = (await site.call("GET", f"lanes?endpoint={shop.id}"))["items"]
    blocked = {"state": "blocked", "head": number, "tail": number + 5_000, "waiting": 5_000, "settled": []}

    async def far_along(route: Route) -> None:
        response = await route.fetch()
        items = [{**shape, **blocked}] if "order=attention" in route.request.url else []
        await route.fulfill(response=response, body=json.dumps({**await response.json(), "items": items}))

    await page.route("**/api/v1/lanes?*", far_along)
    sticks_out = """() => [...document.querySelectorAll(".lane .queue, .lane .done")].filter((one) =>
      [...one.children].filter((each) => each.checkVisibility()).some((each) => {
        const [box, at] = [one.getBoundingClientRect(), each.getBoundingClientRect()];
        return at.left < box.left - 1 || at.right > box.right + 1 || each.scrollWidth > each.clientWidth + 1;
      })).map((one) => one.innerText)"""
    for width in (1440, 1100, 390):
        await page.set_viewport_size({"width": width, "height": 844})
        await page.goto(f"{site.url}/lanes?endpoint={shop.id}")
        await expect(page.locator("li.lane .queue")).to_contain_text("+")
        assert await page.evaluate(sticks_out) == [], width


async def test_the_picture_of_the_retries_can_be_read_on_a_phone(site: Site, visit: Visit):
    shop = await site.shop(attempts_max=35, backoff_ms=1000)
    page: Page = await visit(f"{site.url}/endpoints/{shop.id}", viewport={"width": 390, "height": 844})
    texts = page.locator("svg.schedule text")
    await expect(texts.last).to_be_visible()
    boxes = sorted([box for one in await texts.all() if (box := await one.bounding_box())], key=lambda box: box["x"])

    assert all(box["height"] >= 10 for box in boxes), boxes
    assert all(left["x"] + left["width"] < right["x"] for left, right in pairwise(boxes)), boxes


async def test_an_event_that_is_not_delivered_yet_does_not_say_what_its_receiver_answered(site: Site, visit: Visit):
    """The list is read before the latest tries are: what was delivered between the two is still queued in it."""
    shop = await site.shop()
    await shop.publish("between:1")
    await shop.sink.arrived(1, where=lambda one: one.path == f"/{shop.name}")
    page: Page = await visit(f"{site.url}/events?q=between:1")
    row = page.get_by_role("row", name="between:1")
    await expect(row).to_contain_text("200")

    async def not_yet(route: Route) -> None:
        response = await route.fetch()
        body = (await response.text()).replace('"state":"delivered"', '"state":"queued"')
        await route.fulfill(response=response, body=body)

    await page.route("**/api/v1/events?*", not_yet)
    await page.reload()
    await expect(row).to_contain_text("queued")
    await expect(row).not_to_contain_text("200")


async def test_a_key_that_is_over_is_expired_and_not_about_to_end(site: Site, visit: Visit):
    page: Page = await visit(f"{site.url}/api/docs")
    key = {"id": "key_1", "name": "old", "scopes": ["read"], "tenant": None, "last_used_at": None}
    items = [{**key, "expires_at": "2020-01-01T00:00:00.000Z", "created_at": "2019-01-01T00:00:00.000Z"}]
    await page.route("**/api/v1/keys", lambda route: route.fulfill(json={"items": items, "next": None}))
    await page.goto(f"{site.url}/audit")

    await expect(page.get_by_role("row", name="old")).to_contain_text("expired")


async def test_a_board_of_one_blocked_lane_does_not_speak_of_no_others(site: Site, visit: Visit):
    shop = await site.shop()
    shop.react = lambda _: Answer(status=422, body=b"no")  # type: ignore[method-assign]
    page: Page = await visit(f"{site.url}/api/docs")
    await shop.publish("alone:1")
    one = {"active": 0, "idle": 0, "retrying": 0, "paused": 0, "blocked": 1}

    async def alone(route: Route) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, body=json.dumps({**await response.json(), "lanes": one}))

    await page.route("**/api/v1/stream", lambda route: asyncio.Event().wait())
    await page.route("**/api/v1/overview*", alone)
    await page.goto(site.url)
    verdict = page.get_by_label("Verdict")
    await expect(verdict).to_contain_text("1 key is blocked")
    await expect(verdict).not_to_contain_text("0 lanes")
    await page.unroute_all(behavior="ignoreErrors")
