"""Dialogs: about what they were opened for, closed by whom they belong to, and readable when something fails."""

import asyncio
import json

import pytest
from playwright.async_api import Page, Route, expect
from tests.support.pace import scaled_ms
from tests.ui.conftest import Site, Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_who_leaves_a_skip_while_it_can_be_stopped_has_stopped_it(site: Site, visit: Visit):
    shop = await site.shop()
    shop.statuses["grace:1"] = 422
    await shop.publish("grace:1", 2)
    page: Page = await visit(f"{site.url}/lanes?endpoint={shop.id}&lane={shop.id}/grace:1")
    await page.get_by_role("button", name="Skip #1…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Note, goes on record").fill("by mistake")
    await dialog.get_by_label("Type the key to confirm").fill("grace:1")
    await dialog.get_by_role("button", name="Skip 1, release 1").click()
    await expect(dialog.get_by_role("button", name="Stop it")).to_be_visible()

    await page.keyboard.press("Escape")

    await expect(page.locator(".said")).to_contain_text("Stopped, nothing was done")
    await expect(dialog).to_have_count(0)
    assert (await site.call("GET", f"lanes/{shop.id}/grace%3A1"))["state"] == "blocked"


async def test_a_skip_that_was_left_before_the_server_had_answered_is_stopped(site: Site, visit: Visit):
    shop = await site.shop()
    shop.statuses["left:1"] = 422
    await shop.publish("left:1", 2)
    page: Page = await visit(f"{site.url}/lanes?endpoint={shop.id}&lane={shop.id}/left:1")
    released = asyncio.Event()

    async def hold(route: Route) -> None:
        await released.wait()
        await route.continue_()

    await page.route("**/api/v1/plans/*/run", hold)
    await page.get_by_role("button", name="Skip #1…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Note, goes on record").fill("by mistake")
    await dialog.get_by_label("Type the key to confirm").fill("left:1")
    async with page.expect_request("**/api/v1/plans/*/run"):
        await dialog.get_by_role("button", name="Skip 1, release 1").click()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    released.set()

    await expect(page.locator(".said")).to_contain_text("Stopped, nothing was done")
    assert (await site.call("GET", f"lanes/{shop.id}/left%3A1"))["state"] == "blocked"


async def test_a_skip_dialog_stays_with_its_event_when_the_lane_goes_on(site: Site, visit: Visit):
    shop = await site.shop()
    shop.statuses["stays:1"] = 422
    await shop.publish("stays:1")
    page: Page = await visit(f"{site.url}/lanes?endpoint={shop.id}&lane={shop.id}/stays:1")
    await page.get_by_role("button", name="Skip #1…").click()
    await expect(page.get_by_role("dialog", name="Skip stays:1 #1 and release the key?")).to_be_visible()
    [letter] = (await site.call("GET", f"dead-letters?endpoint={shop.id}"))["items"]
    shop.statuses.clear()
    await site.call("POST", f"dead-letters/{letter['id']}/replay")
    await expect(page.locator("aside .why")).to_contain_text("everything up to #1 is settled")
    shop.statuses["stays:1"] = 422
    await shop.publish("stays:1")
    await expect(page.locator("aside .why")).to_contain_text("#2 of stays:1 died")

    assert await page.locator("dialog h2").all_inner_texts() == ["Skip stays:1 #1 and release the key?"]


async def test_a_replay_that_ends_late_closes_no_other_dialog(site: Site, visit: Visit):
    shop = await site.shop()
    keys = [f"late:{number}" for number in range(4)]
    for key in keys:
        shop.statuses[key] = 422
        await shop.publish(key)
    page: Page = await visit(f"{site.url}/dead?endpoint={shop.id}")
    await page.get_by_role("button", name="Replay all 4…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Events a second").fill("1.5")
    shop.statuses.clear()
    await dialog.get_by_role("button", name="Replay 4").click()
    await dialog.get_by_role("button", name="Close").click()
    await page.get_by_role("button", name="Add a note on late:3").click()
    await expect(dialog).to_contain_text("Note on late:3")

    await expect(page.locator(".said")).to_contain_text("4 events delivered.", timeout=scaled_ms(20_000))
    await expect(dialog).to_contain_text("Note on late:3")


async def test_what_is_shown_once_is_not_closed_by_a_press_beside_it(site: Site, visit: Visit):
    page: Page = await visit(f"{site.url}/audit")
    await page.get_by_role("button", name="New key").click()
    await page.get_by_label("Name, for people and the audit log").fill("ops")
    await page.get_by_role("button", name="Make it").click()
    key = page.get_by_role("dialog").locator("code")
    await expect(key).to_contain_text("hl_")

    await page.mouse.click(5, 5)
    await expect(key).to_be_visible()

    await page.get_by_role("button", name="I have kept it").click()
    await expect(key).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
async def test_an_act_that_fails_in_a_dialog_says_so_where_it_can_be_read(site: Site, visit: Visit, width: int):
    shop = await site.shop()
    page: Page = await visit(f"{site.url}/endpoints/{shop.id}", quiet=False, viewport={"width": width, "height": 844})
    problem = {"code": "changed", "title": "Changed", "detail": "Somebody else changed it"}
    body = json.dumps(problem)
    await page.route("**/pause", lambda route: route.fulfill(status=409, content_type="application/json", body=body))
    await page.get_by_role("button", name="Pause…").click()

    await page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()

    line = page.get_by_text("Somebody else changed it")
    await expect(line).to_be_visible()
    assert await line.evaluate(
        """(one) => { const { x, y, width, height } = one.getBoundingClientRect();
          return document.elementFromPoint(x + width / 2, y + height / 2) === one; }"""
    )
    await page.get_by_role("button", name="Dismiss").click()
    await expect(line).to_have_count(0)


NO_CLIPBOARD = "Object.defineProperty(Navigator.prototype, 'clipboard', {get: () => undefined});"


async def test_a_page_of_another_machine_over_plain_http_copies_what_is_shown_once(site: Site, visit: Visit):
    """Browsers give such a page no clipboard."""
    page: Page = await visit(f"{site.url}/api/docs")
    await page.add_init_script(NO_CLIPBOARD)
    await page.goto(f"{site.url}/audit")
    await page.get_by_role("button", name="New key").click()
    await page.get_by_label("Name, for people and the audit log").fill("ops")
    await page.get_by_role("button", name="Make it").click()
    dialog = page.get_by_role("dialog")
    key = await dialog.locator("code").inner_text()
    await dialog.get_by_role("button", name="Copy").click()
    await expect(dialog.get_by_role("button", name="Copied")).to_be_focused()
    await page.get_by_role("button", name="I have kept it").click()
    box = page.get_by_role("searchbox")
    await box.focus()
    await page.keyboard.press("Control+v")

    await expect(box).to_have_value(key)


async def test_what_could_not_be_copied_is_not_said_to_be_copied(site: Site, visit: Visit):
    shop = await site.shop()
    [event] = await shop.publish("copy:1")
    page: Page = await visit(f"{site.url}/api/docs")
    await page.add_init_script(f"{NO_CLIPBOARD} document.execCommand = () => false;")
    await page.goto(f"{site.url}/events/{event}")
    await page.get_by_role("button", name="Copy id").click()
    await expect(page.get_by_role("button", name="Not copied")).to_be_visible()

    await page.get_by_role("button", name="Copy as").click()
    await page.get_by_role("button", name="curl").click()

    await expect(page.locator(".said")).to_contain_text("mark the text and copy it")


async def test_escape_closes_a_menu_and_not_the_panel_round_it_and_the_focus_stays_near(site: Site, visit: Visit):
    shop = await site.shop()
    shop.statuses["menu:1"] = 422
    await shop.publish("menu:1")
    page: Page = await visit(f"{site.url}/lanes?endpoint={shop.id}&lane={shop.id}/menu:1")
    panel = page.get_by_role("complementary", name="Lane menu:1")
    opener = panel.get_by_role("button", name="Copy as")
    await opener.click()
    await panel.get_by_role("button", name="curl").focus()

    await page.keyboard.press("Escape")
    await expect(panel.get_by_role("button", name="curl")).to_have_count(0)
    await expect(opener).to_be_focused()

    await page.keyboard.press("Escape")
    await expect(panel).to_have_count(0)
    await expect(page.locator("a.who")).to_be_focused()
