"""Long lists, searches and choices: nothing is left out, mixed up, or kept from what was shown before."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect
from tests.ui.conftest import Site, Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")

DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


async def test_a_list_of_several_pages_has_no_hole_after_its_beginning_has_moved_on(site: Site, visit: Visit):
    shop = await site.shop()
    await shop.publish("long:1", 70)
    page: Page = await visit(f"{site.url}/events?endpoint={shop.id}")
    rows = page.locator("table.events tbody tr")
    await expect(rows).to_have_count(50)
    await page.get_by_role("button", name="Show 50 more").click()
    await expect(rows).to_have_count(70)

    await shop.publish("long:1", 30)
    await page.get_by_role("button", name=re.compile(r"^\d+ new$")).click()

    await expect(page.locator("table.events")).to_contain_text("#100")
    shown = await rows.locator("td.key span.faint").all_inner_texts()
    assert [one.strip() for one in shown] == [f"#{seq}" for seq in range(100, 0, -1)]


async def test_more_of_a_list_that_comes_late_is_not_added_to_another_list(site: Site, visit: Visit):
    much, little = await site.shop(), await site.shop()
    await much.publish("much:1", 60)
    await little.publish("little:1")
    page: Page = await visit(f"{site.url}/events?endpoint={much.id}")
    rows = page.locator("table.events tbody tr")
    await expect(rows).to_have_count(50)
    released = asyncio.Event()

    async def hold(route: Route) -> None:
        await released.wait()
        await route.continue_()

    await page.route("**/api/v1/events?*cursor=*", hold)
    await page.get_by_role("button", name="Show 50 more").click()
    await page.get_by_label("Endpoint").select_option(little.id)
    await expect(rows).to_have_count(1)
    async with page.expect_response("**/api/v1/events?*cursor=*") as late:
        released.set()
    await (await late.value).finished()
    await page.evaluate(DRAWN)

    assert await rows.count() == 1


async def test_what_the_server_refuses_to_list_is_not_shown_as_the_list_before(site: Site, visit: Visit):
    shop = await site.shop()
    await shop.publish("asked:1")
    page: Page = await visit(f"{site.url}/events?endpoint={shop.id}", quiet=False)  # the browser logs the refusal
    rows = page.locator("table.events tbody tr")
    await expect(rows).to_have_count(1)

    await page.get_by_role("searchbox").fill("after:nonsense")

    await expect(page.locator(".failed")).to_contain_text("must be a time with its zone")
    await expect(rows).to_have_count(0)


async def test_what_was_typed_on_one_screen_is_not_searched_for_on_the_next(site: Site, visit: Visit):
    page: Page = await visit(f"{site.url}/api/docs")
    await page.clock.install()
    await page.goto(f"{site.url}/lanes")
    box = page.get_by_role("searchbox")
    await expect(box).to_be_visible()
    await box.evaluate(
        """(one) => { one.value = "typed"; one.dispatchEvent(new Event("input", { bubbles: true }));
          document.querySelector(".rail a[href$='/events']").click(); }"""
    )
    await expect(page.locator("h1")).to_have_text("Events")
    await page.clock.run_for(1_000)

    assert page.url == f"{site.url}/events"


async def test_going_back_changes_the_words_of_a_search_box_that_has_the_focus(site: Site, visit: Visit):
    page: Page = await visit(f"{site.url}/events?q=first:1")
    box = page.get_by_role("searchbox")
    await expect(box).to_have_value("first:1")
    follow = "document.body.append(Object.assign(document.createElement('a'), {id: 'to', href: 'events?q=second:1'}))"
    await page.evaluate(f"{follow}; document.getElementById('to').click()")
    await expect(box).to_have_value("second:1")
    await box.focus()
    await page.go_back()

    await expect(box).to_have_value("first:1")


async def test_letters_that_were_chosen_and_are_gone_are_not_chosen_any_more(site: Site, visit: Visit):
    shop = await site.shop()
    for key in ("one:1", "two:1", "three:1"):
        shop.statuses[key] = 422
        await shop.publish(key)
    page: Page = await visit(f"{site.url}/dead?endpoint={shop.id}")
    every = page.locator(".bar .btn.primary")
    await expect(every).to_have_text("Replay all 3…")
    await page.get_by_label("Select one:1").check()
    await expect(every).to_have_text("Replay 1 selected…")
    await page.get_by_role("button", name="Add a note on one:1").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect(every).to_have_text("Replay 1 selected…")

    shop.statuses.clear()
    await page.get_by_role("button", name="Replay one:1").click()
    await expect(every).to_have_text("Replay both…")

    await page.get_by_label("Select two:1").check()
    await page.get_by_role("searchbox").fill("three:1")
    await expect(every).to_have_text("Replay it…")


async def test_the_export_of_dead_letters_has_those_that_were_searched_for(site: Site, visit: Visit, tmp_path: Path):
    shop = await site.shop()
    shop.statuses.update({"found:1": 422, "other:1": 400})
    await shop.publish("found:1")
    await shop.publish("other:1")
    page: Page = await visit(f"{site.url}/dead?endpoint={shop.id}&q=http%3A422")
    await expect(page.locator("table.letters tbody tr")).to_have_count(1)
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Export NDJSON").click()
    file = tmp_path / "letters.ndjson"
    await (await download.value).save_as(file)

    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == ["found:1"]


async def test_a_word_that_dead_letters_cannot_be_searched_by_finds_none(site: Site, visit: Visit):
    shop = await site.shop()
    shop.statuses["words:1"] = 422
    await shop.publish("words:1")
    page: Page = await visit(f"{site.url}/dead?endpoint={shop.id}")
    await expect(page.locator("table.letters tbody tr")).to_have_count(1)

    await page.get_by_role("searchbox").fill("seq:7")

    await expect(page.locator(".empty")).to_contain_text("No dead letter fits")


async def test_a_lane_that_is_not_blocked_any_more_leaves_the_list_of_blocked_ones(site: Site, visit: Visit):
    shop = await site.shop()
    shop.statuses["leaves:1"] = 422
    await shop.publish("leaves:1")
    page: Page = await visit(f"{site.url}/lanes?state=blocked&endpoint={shop.id}")
    await expect(page.locator("li.lane")).to_have_attribute("data-state", "blocked")
    shop.statuses.clear()
    [letter] = (await site.call("GET", f"dead-letters?endpoint={shop.id}"))["items"]
    await site.call("POST", f"dead-letters/{letter['id']}/replay")

    await expect(page.locator(".empty")).to_contain_text("No lane is blocked")


async def test_the_panel_of_a_lane_that_never_rests_follows_it(site: Site, visit: Visit):
    """News of it come faster than it can be asked for: it is asked for now and then, and not when they end."""
    shop = await site.shop()
    await shop.publish("busy:1")
    await shop.sink.arrived(1, where=lambda one: one.path == f"/{shop.name}")
    page: Page = await visit(f"{site.url}/lanes?endpoint={shop.id}&lane={shop.id}/busy:1")
    newest = page.locator("aside .seqs .cell").first
    await expect(newest).to_have_attribute("data-seq", "1")
    (shape,) = (await site.call("GET", f"lanes?endpoint={shop.id}"))["items"]
    told = f"event: lanes\ndata: {json.dumps({'items': [shape]})}\n\n"
    headers = {"content-type": "text/event-stream", "hooklane-poll-ms": "20"}
    await page.route("**/api/v1/stream", lambda route: route.fulfill(body=told, headers=headers))
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # asks for the stream anew
    await shop.publish("busy:1")
    await shop.sink.arrived(2, where=lambda one: one.path == f"/{shop.name}")

    await expect(newest).to_have_attribute("data-seq", "2")
    await page.unroute_all(behavior="ignoreErrors")
