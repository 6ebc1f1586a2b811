"""The page fits small screens, keeps still for those who want it, and is readable by machine and eye."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.support.receiver import Answer, Sink
from tests.ui.conftest import Site
from tests.ui.test_lanes_page import call, lane, publish

Visit = Callable[..., Any]

SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture
async def busy(site: Site, sink: Sink) -> Site:
    """A lane of each kind: blocked with much behind it, retrying, and flowing."""
    sink.react = lambda request: Answer(status={"a": 422, "b": 503}.get(request.headers["x-key"][0], 200))
    body = {"url": sink.url(), "name": "a shop with a rather long name", "attempts_max": 2, "backoff_ms": 60_000}
    await call(site, "POST", "endpoints", {**body, "attempts_max": 1, "types": ["a.*"]})
    await call(site, "POST", "endpoints", {**body, "types": ["b.*", "c.*"]})
    await publish(site, "a:" + "very-long-key-" * 15, 30, type_="a.b")
    await publish(site, "b:1", 3, type_="b.c")
    await publish(site, "c:1", 12, type_="c.d")
    return site


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
async def test_nothing_sticks_out_and_every_text_can_be_read(busy: Site, visit: Visit, size: str, scheme: str):
    page = await visit(busy.url, viewport=SIZES[size], color_scheme=scheme)
    await expect(lane(page, "b:1")).to_have_attribute("data-state", "retrying")
    await expect(lane(page, "c:1")).to_have_attribute("data-state", "idle")

    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert await faint_texts(page) == []
    await lane(page, "b:1").get_by_role("button").first.click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


async def faint_texts(page: Page) -> list[str]:
    """Texts whose contrast with what is behind them is less than 4.5 to 1."""
    return await page.evaluate(
        """() => {
          const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
          const rgba = (colour) => {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
          };
          const light = ([r, g, b]) => {
            const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
            return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
          };
          const behind = (element) => {
            for (let at = element; at; at = at.parentElement) {
              const colour = rgba(getComputedStyle(at).backgroundColor);
              if (colour[3] > 200) return colour;
            }
            return rgba("Canvas");
          };
          const faint = [];
          for (const element of document.querySelectorAll("body *")) {
            const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
            if (!text || !element.checkVisibility() || element.closest(".visually-hidden, .skip-link")) continue;
            const [a, b] = [light(rgba(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
            if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(`${text} ${element.className}`);
          }
          return faint;
        }"""
    )


async def test_everything_has_a_role_and_a_name(busy: Site, visit: Visit):
    page = await visit(busy.url)
    await expect(lane(page, "b:1")).to_have_attribute("data-state", "retrying")

    nameless = await page.evaluate(
        """() => [...document.querySelectorAll("button, input, a")]
          .filter((e) => e.checkVisibility() && !(e.innerText || e.ariaLabel || e.labels?.[0]?.innerText || "").trim())
          .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    assert await page.locator("h1").count() == 1
    assert await page.get_attribute("html", "lang") == "en"
    cell = lane(page, "b:1").locator(".cell").first
    assert await cell.inner_text() in ("1\n retrying", "1 retrying", "1retrying", "1\nretrying")


async def test_who_wants_no_motion_gets_none(busy: Site, visit: Visit):
    page = await visit(busy.url, reduced_motion="reduce")
    await expect(lane(page, "b:1")).to_have_attribute("data-state", "retrying")

    assert await page.evaluate("document.getAnimations().length") == 0


async def test_the_buttons_are_large_enough_for_a_thumb(busy: Site, visit: Visit):
    page = await visit(busy.url, viewport=SIZES["phone"])
    await expect(page.locator("li.lane[data-state=blocked]")).to_have_count(1)

    for button in await page.locator("li.lane button:visible, .pill").all():
        box = await button.bounding_box()
        assert box is not None
        assert box["height"] >= 40
