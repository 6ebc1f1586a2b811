"""What a person does to an endpoint, and what the story of an event tells."""

import asyncio
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from tests.support.pace import scaled_ms
from tests.support.tree import SOURCE
from tests.ui.conftest import Site, Visit

INBOX = """
import pytest
from hooklane import Inbox


@pytest.fixture
def inbox():
    inbox = Inbox("memory://", mode="inline")
    source = inbox.source("hooklane", secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
    source.on("*")(lambda event, tx: None)
    yield inbox
    inbox.close()


"""
pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_endpoint_is_tested_rotated_paused_and_resumed_from_its_screen(site: Site, visit: Visit):
    shop = await site.shop()
    page: Page = await visit(f"{site.url}/endpoints/{shop.id}")
    shop.statuses = {}
    await page.get_by_role("button", name="Test…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Send").click()
    await expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("200")
    await page.get_by_role("dialog").get_by_role("button", name="Close").click()

    await page.get_by_role("button", name="Rotate…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Rotate", exact=True).click()
    await expect(page.get_by_role("dialog").locator("code")).to_contain_text("whsec_")
    await page.get_by_role("button", name="I have kept it").click()
    await expect(page.locator(".said")).to_contain_text("Secret rotated.")
    await expect(page.get_by_text("2 secrets sign each delivery")).to_be_visible()
    await expect(page.locator("main")).not_to_contain_text("whsec_")

    await page.get_by_role("button", name="Pause…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    await expect(page.get_by_label("Health")).to_contain_text("paused")
    await shop.publish("waits:1", 2)
    await page.get_by_role("button", name="Resume…").click()
    await page.get_by_label("Events a second").fill("50")
    await page.get_by_role("dialog").get_by_role("button", name="Resume", exact=True).click()
    await expect(page.get_by_label("Health")).to_contain_text("active")

    await shop.sink.arrived(2, where=lambda one: one.headers["x-key"] == "waits:1")
    assert shop.arrived("waits:1") == [1, 2]
    assert (await site.call("GET", f"endpoints/{shop.id}"))["rate_limit"] == 50


async def test_a_story_tells_what_an_event_waited_for_and_is_copied_as_a_test_that_runs(
    site: Site, visit: Visit, tmp_path: Path
):
    shop = await site.shop(attempts_max=2)
    shop.statuses["story:1"] = 503
    first, second = await shop.publish("story:1", 2)
    page: Page = await visit(f"{site.url}/events/{first}")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    timeline = page.locator(".timeline")
    await expect(timeline.locator("li")).to_have_count(4)  # published, two tries, dead
    await timeline.get_by_role("button", name="try 1").click()
    await expect(page.locator(".raw").first).to_contain_text("HTTP/1.1 503")
    await page.goto(f"{site.url}/events/{second}")
    await expect(timeline).to_contain_text("behind #1")
    await expect(page.locator(".story-head .chip")).to_have_text("waiting for #1")
    await timeline.get_by_role("link", name="open #1").click()
    await expect(page.locator("table.events tbody tr")).to_have_count(1)
    await expect(page.locator("table.events")).to_contain_text("story:1 #1")
    await page.go_back()

    await page.get_by_role("button", name="Copy as").click()
    await page.get_by_role("button", name="pytest").click()
    await expect(page.locator(".said")).to_contain_text("Copied as pytest.")
    copied = await page.evaluate("navigator.clipboard.readText()")
    (tmp_path / "test_copied.py").write_text(INBOX + copied)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_copied.py"]
    run = partial(subprocess.run, cwd=tmp_path, env={"PYTHONPATH": SOURCE}, capture_output=True, text=True, check=False)
    done = await asyncio.to_thread(run, command)
    assert done.returncode == 0, done.stdout + done.stderr


async def test_the_last_hour_stands_as_a_strip_on_the_overview_in_the_list_and_on_the_endpoints_own_screen(
    site: Site, visit: Visit
):
    shop = await site.shop(attempts_max=1_000, backoff_ms=20, backoff_cap_ms=20)
    await shop.publish("well:1", 3)
    await shop.sink.arrived(3, where=lambda one: one.path == f"/{shop.name}")
    page: Page = await visit(f"{site.url}/endpoints")
    strip = page.get_by_role("row", name=shop.name).get_by_role("img")
    await expect(strip).to_have_attribute("aria-label", "Last hour: 100 % of 3 tries delivered")
    await expect(strip.locator("rect.f-good")).to_have_count(1)
    await expect(strip.locator("rect.f-bad")).to_have_count(0)

    shop.statuses = {f"ill:{number}": 503 for number in range(30)}
    for key in shop.statuses:
        await shop.publish(key)
    held = re.compile(r"of \d+ tries delivered; the breaker was open in (2|4) min of it")
    await expect(strip).to_have_attribute("aria-label", held, timeout=scaled_ms(40_000))
    assert await strip.locator("rect.f-bad").count() >= 2  # what failed, and the breaker below it

    await page.goto(f"{site.url}/endpoints/{shop.id}")
    await expect(page.locator("svg.hour.large")).to_have_attribute("aria-label", held)
    await expect(page.locator(".changes").first).to_contain_text("open")
    await expect(page.locator("svg.hour.large title").last).to_have_text(
        re.compile(r"delivered|failed|nothing was sent")
    )
    await site.call("POST", f"endpoints/{shop.id}/pause")


async def test_the_last_hour_is_asked_for_what_is_on_the_screen_twenty_endpoints_at_a_time(site: Site, visit: Visit):
    many = [await site.shop() for _ in range(45)]
    asked: list[list[str]] = []
    page: Page = await visit(f"{site.url}/audit")
    page.on("request", lambda one: "last-hour" in one.url and asked.append(re.findall(r"ep_\w+", one.url)))
    await page.goto(f"{site.url}/endpoints")
    strips = page.locator("tbody tr svg.hour")
    await expect(strips.first).not_to_have_attribute("aria-label", re.compile("not known"))
    await expect(strips.last).to_have_attribute("aria-label", "Last hour: not known yet")
    before = {id for ids in asked for id in ids}
    await strips.last.scroll_into_view_if_needed()
    await expect(strips.last).to_have_attribute("aria-label", "Last hour: nothing was sent")

    assert max(map(len, asked)) <= 20
    assert many[-1].id not in before
