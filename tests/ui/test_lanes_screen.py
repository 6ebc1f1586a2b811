"""What a person sees and does on the board of lanes."""

import asyncio
import json
import re
import threading
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect
from tests.support.eventually import eventually
from tests.support.receiver import Answer, Request
from tests.ui.conftest import Shop, Site, Visit, lane, pill

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_empty_board_teaches_the_one_command(site: Site, visit: Visit):
    page = await visit(f"{site.url}/lanes?q=nobody-has-this-key")
    await expect(page.locator(".empty")).to_contain_text("No lane holds “nobody-has-this-key”")

    await page.get_by_role("button", name="Clear the search").click()

    if not (await site.call("GET", "lanes"))["items"]:
        await expect(page.locator(".empty")).to_contain_text("hooklane send order.created")
    await expect(page).to_have_url(f"{site.url}/lanes")


async def test_a_lane_shows_each_state_as_it_moves(site: Site, visit: Visit):
    shop = await site.shop(attempts_max=3, backoff_ms=60_000)
    may_answer = threading.Event()

    def slowly(_: Request) -> Any:
        return Answer(status=503, body=b"later", once=may_answer)

    shop.react = slowly  # type: ignore[method-assign]
    page = await visit(f"{site.url}/lanes?endpoint={shop.id}")
    await expect(pill(page)).to_have_text("Live")

    await shop.publish("moves:1", 2)

    row = lane(page, "moves:1")
    await expect(row.locator(".wire .cell[data-state=in_flight]")).to_have_attribute("data-seq", "1")
    await expect(row.locator(".queue .cell[data-state=queued]")).to_have_attribute("data-seq", "2")
    may_answer.set()
    await expect(row).to_have_attribute("data-state", "retrying")
    await expect(row.locator(".queue .cell[data-state=waiting]")).to_have_attribute("data-seq", "2")
    await expect(row.locator(".wire .next")).to_have_text(re.compile("next in"))
    await expect(row.locator(".says")).to_contain_text("Try 1 of 3")
    await row.locator("a.who").click()
    panel = page.get_by_role("complementary", name="Lane moves:1")
    await expect(panel).to_contain_text("What comes next")
    shop.react = lambda _: Answer()  # type: ignore[method-assign]
    await site.call("POST", f"endpoints/{shop.id}/pause")
    await expect(row).to_have_attribute("data-state", "paused")
    await expect(row.locator(".says")).to_contain_text("nothing is lost")


async def test_the_skip_dialog_names_exactly_what_is_released_and_that_arrives_in_order(site: Site, visit: Visit):
    shop = await site.shop()
    key = "skip/me:1"
    shop.statuses[key] = 422
    await shop.publish(key, 14)
    page = await visit(f"{site.url}/lanes?state=blocked&endpoint={shop.id}")
    await lane(page, key).get_by_role("link", name=f"Resolve {key}").click()
    panel = page.get_by_role("complementary", name=f"Lane {key}")
    await expect(panel.locator(".why")).to_contain_text("died after 1 try (last: 422 'unknown sku')")
    await panel.get_by_role("button", name="Skip #1…").click()
    dialog = page.get_by_role("dialog", name=f"Skip {key} #1 and release the key?")
    await expect(dialog.locator(".never .ev")).to_have_attribute("data-seq", "1")
    fonts = "(one) => [one, document.querySelector('h1')].map((each) => getComputedStyle(each).fontFamily)"
    [said, usual] = await dialog.get_by_role("heading").first.evaluate(fonts)
    assert said == usual, "the panel's own style ends where a dialog begins"
    released = dialog.get_by_role("listitem")
    await expect(released).to_have_count(13)
    assert [int(await one.get_attribute("data-seq") or 0) for one in await released.all()] == list(range(2, 15))
    await expect(dialog.locator(".sees")).to_contain_text("seq 0 to 2")
    skip = dialog.get_by_role("button", name="Skip 1, release 13")
    await expect(skip).to_be_disabled()
    await dialog.get_by_label("Note, goes on record").fill("customer cancelled, OPS-412")
    await expect(skip).to_be_disabled()
    await dialog.get_by_label("Type the key to confirm").fill(key)
    shop.statuses.clear()

    await skip.click()
    await dialog.get_by_role("button", name="Stop it").click()  # within the grace nothing has happened
    await expect(page.locator(".said")).to_contain_text("Stopped, nothing was done")
    assert (await site.call("GET", f"lanes/{shop.id}/skip%2Fme%3A1"))["state"] == "blocked"
    await panel.get_by_role("button", name="Skip #1…").click()
    await dialog.get_by_label("Note, goes on record").fill("customer cancelled, OPS-412")
    await dialog.get_by_label("Type the key to confirm").fill(key)
    await skip.click()

    await expect(page.locator(".said")).to_contain_text("Skipped #1 of skip/me:1, released 13.", timeout=30_000)
    await eventually(lambda: _arrived(shop, key, 13))
    assert shop.arrived(key)[-13:] == list(range(2, 15))
    await expect(dialog).to_be_hidden()
    line = (await site.call("GET", f"lanes/{shop.id}/skip%2Fme%3A1"))["deliveries"]
    assert [one["state"] for one in line] == ["skipped", *["delivered"] * 13]
    await page.goto(f"{site.url}/audit")
    await expect(page.locator("tbody")).to_contain_text("customer cancelled, OPS-412")


async def _arrived(shop: Shop, key: str, many: int) -> bool:
    return len([seq for seq in shop.arrived(key) if seq > 1]) >= many


async def test_a_bulk_replay_refuses_when_the_set_has_changed(site: Site, visit: Visit):
    shop = await site.shop()
    keys = [f"bulk:{number}" for number in range(3)]
    for key in keys:
        shop.statuses[key] = 422
        await shop.publish(key)
    page = await visit(f"{site.url}/lanes?endpoint={shop.id}", quiet=False)  # the browser logs the 409
    for key in keys:
        await expect(lane(page, key)).to_have_attribute("data-state", "blocked")
    await page.get_by_role("button", name="Resolve all").click()
    dialog = page.get_by_role("dialog", name="Replay 3 dead letters on 3 keys?")
    await expect(dialog).to_contain_text("bulk:0")
    [letter, *_] = (await site.call("GET", f"dead-letters?endpoint={shop.id}"))["items"]
    shop.statuses.clear()
    await site.call("POST", f"dead-letters/{letter['id']}/replay")

    await dialog.get_by_role("button", name="Replay 3").click()

    await expect(dialog.get_by_role("alert")).to_contain_text("The set has changed; nothing was done.")
    assert len((await site.call("GET", f"dead-letters?endpoint={shop.id}"))["items"]) == 2
    await dialog.get_by_role("button", name="Make a new plan").click()
    await page.get_by_role("dialog").get_by_role("button", name="Replay 2").click()
    await expect(page.locator(".said")).to_contain_text("2 events delivered.")
    assert (await site.call("GET", f"dead-letters?endpoint={shop.id}"))["items"] == []


async def test_every_change_of_400_moving_lanes_arrives_on_the_page(site: Site, visit: Visit):
    shop = await site.shop()
    page = await visit(f"{site.url}/lanes?endpoint={shop.id}")
    await expect(pill(page)).to_have_text("Live")
    keys = [f"m-{number:03}" for number in range(400)]

    for _ in range(3):
        events = [{"type": shop.type, "key": key, "data": {}} for key in keys]
        await site.call("POST", "events/batch", {"events": events})

    await eventually(lambda: _idle(site, shop, 400), within_s=60)
    assert await page.locator("li.lane").count() <= 200
    for first in "0123":
        await page.get_by_label("Key, part of a key").fill(f"m-{first}")
        await expect(page.locator("li.lane")).to_have_count(100)
        done = page.locator("li.lane .done .cell:first-child[data-seq='3'][data-state=delivered]")
        await expect(done).to_have_count(100)


async def _idle(site: Site, shop: Shop, many: int) -> bool:
    board = await site.call("GET", f"lanes?endpoint={shop.id}&limit=1")
    return bool(board["counts"]["idle"] == many)


async def test_a_paused_page_keeps_nothing_and_going_on_shows_the_truth(site: Site, visit: Visit):
    shop = await site.shop()
    page = await visit(f"{site.url}/lanes?endpoint={shop.id}")
    await shop.publish("pause:1")
    await expect(lane(page, "pause:1")).to_have_attribute("data-state", "idle")

    await page.locator("body").press("Space")
    await expect(pill(page)).to_have_text(re.compile("^Paused"))
    await shop.publish("pause:2")
    await expect(pill(page)).to_have_text(re.compile(r"Paused \(\d+ new\)"))
    await expect(lane(page, "pause:2")).to_have_count(0)

    await page.get_by_role("button", name="Go on").click()
    await expect(lane(page, "pause:2")).to_have_attribute("data-state", "idle")
    await expect(pill(page)).to_have_text("Live")


UPDATES_PER_S = 180
HEAP_GROWS_MAX = 1_000_000
"""Bytes: far less than what comes in meanwhile, 2 MB in half a minute and 40 MB in ten."""


@pytest.mark.parametrize("paused_s", [30, pytest.param(600, marks=pytest.mark.soak)])
async def test_a_long_pause_keeps_memory_bounded_and_resuming_shows_the_truth(site: Site, visit: Visit, paused_s: int):
    """So many changes of 1,000 lanes as come in that time, told one after the other, as under WSGI: in pieces."""
    shop = await site.shop()
    page: Page = await visit(f"{site.url}/lanes?endpoint={shop.id}")
    await shop.publish("long:1")
    await expect(lane(page, "long:1")).to_have_attribute("data-state", "idle")
    (shape,) = (await site.call("GET", f"lanes?endpoint={shop.id}"))["items"]
    pieces = _pieces(shape, paused_s * UPDATES_PER_S)
    are_told = asyncio.Event()

    async def tell(route: Route) -> None:
        if not pieces:
            are_told.set()
        body = pieces.pop(0) if pieces else ": nothing\n\n"
        headers = {"content-type": "text/event-stream", "hooklane-poll-ms": "1"}
        await route.fulfill(body=body, headers=headers)

    await page.locator("body").press("Space")
    await expect(pill(page)).to_have_text(re.compile("^Paused"))
    before = await _heap(page)
    await page.route("**/api/v1/stream", tell)
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # asks for the stream anew
    await are_told.wait()
    await shop.publish("long:1", 2)
    await shop.publish("long:2")

    assert await _heap(page) - before < HEAP_GROWS_MAX
    await expect(pill(page)).to_have_text(re.compile(r"Paused \([\d.]+K? new\)"))
    await expect(page.locator("li.lane")).to_have_count(1)
    await page.unroute_all(behavior="wait")
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    await page.get_by_role("button", name="Go on").click()
    await expect(lane(page, "long:1").locator(".done .cell").first).to_have_attribute("data-seq", "3")
    await expect(lane(page, "long:2")).to_have_attribute("data-state", "idle")
    await expect(page.locator("li.lane")).to_have_count(2)  # what was told of other lanes was no truth, and is not kept


def _pieces(shape: Any, updates: int) -> list[str]:
    """What a stream tells of so many changes, ten in each message, five hundred messages in each piece."""
    told = []
    for at in range(0, updates, 10):
        items = [{**shape, "key": f"told:{(at + one) % 1000}", "head": at, "tail": at} for one in range(10)]
        told.append(f"id: {at}\nevent: lanes\ndata: {json.dumps({'items': items})}\n\n")
    return ["".join(told[start : start + 500]) for start in range(0, len(told), 500)]


async def _heap(page: Page) -> int:
    """Bytes that the page's script holds, once what nobody holds is collected."""
    client = await page.context.new_cdp_session(page)
    await client.send("HeapProfiler.collectGarbage")
    await client.send("Performance.enable")
    metrics = (await client.send("Performance.getMetrics"))["metrics"]
    return int(next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize"))


async def test_an_event_travels_once_for_each_send_and_not_for_those_who_want_no_motion(site: Site, visit: Visit):
    shop = await site.shop()
    count = """() => { window.travels = 0; const animate = Element.prototype.animate;
      Element.prototype.animate = function (...all) {
        if (this.classList.contains("fly")) window.travels += 1;
        return animate.apply(this, all); }; }"""
    page = await visit(f"{site.url}/lanes?endpoint={shop.id}")
    still = await visit(f"{site.url}/lanes?endpoint={shop.id}", reduced_motion="reduce")
    await shop.publish("travels:1")
    for one in (page, still):
        await expect(lane(one, "travels:1")).to_have_attribute("data-state", "idle")
        await one.evaluate(count)
    for seq in (2, 3):
        may_answer = threading.Event()
        shop.react = lambda _, held=may_answer: Answer(once=held)  # type: ignore[method-assign, misc]
        await shop.publish("travels:1")
        for one in (page, still):
            await expect(lane(one, "travels:1").locator(".fly")).to_have_attribute("data-seq", str(seq))
        may_answer.set()
        for one in (page, still):
            await expect(lane(one, "travels:1").locator(".done .cell").first).to_have_attribute("data-seq", str(seq))

    assert await page.evaluate("window.travels") == 2
    assert await still.evaluate("window.travels + document.getAnimations().length") == 0


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "\"'><svg onload=alert(1)>",
    "javascript:alert(1)",
]
ODD = ["‮right-to-left", "🦊🚀", "k" * 255, "a/b?c#d%20"]


async def test_text_of_others_is_only_text_and_odd_keys_have_their_panel(site: Site, visit: Visit):
    shop = await site.shop(name=HOSTILE[0])
    shop.react = lambda _: Answer(status=422, body=b"<script>alert(1)</script>")  # type: ignore[method-assign]
    for key in (*HOSTILE, *ODD):
        await shop.publish(key)
    page = await visit(f"{site.url}/lanes?endpoint={shop.id}")
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    for key in (*HOSTILE, *ODD):
        row = lane(page, key)
        await expect(row).to_have_attribute("data-state", "blocked")
        await row.locator("a.who").click()
        panel = page.get_by_role("complementary", name=f"Lane {key}")
        await expect(panel.locator(".why")).to_contain_text("<script>alert(1)</script>")
        await expect(panel.locator("h2")).to_have_text(key)
        await expect(panel.locator(".why")).to_contain_text(key if len(key) < 60 else f"{key[:24]}…{key[-8:]}")
    await page.go_back()
    await expect(page.get_by_role("complementary", name=f"Lane {ODD[-2]}")).to_be_visible()

    assert await page.locator("main img, main script, aside script").count() == 0
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
