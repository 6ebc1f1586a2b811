"""What a person sees and does in the playground, in a real Chromium against a real server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from tests.support.http_client import Connection
from tests.support.inline_shop import Shop
from tests.support.node import DASHBOARD_PACKAGES
from tests.support.pace import scaled_ms
from tests.ui.axe import FAINT_BORDERS
from tests.ui.conftest import settings_in

from hooklane.cli.process import running
from hooklane.cli.serve import routes_for
from hooklane.testing.play import SCENARIOS
from hooklane.testing.play.run import SECRET
from hooklane.testing.play.scenarios import Scenario

pytestmark = pytest.mark.asyncio(loop_scope="session")
Visit = Callable[..., Any]
AXE = (DASHBOARD_PACKAGES / "node_modules" / "axe-core" / "axe.min.js").read_text
METERS = ("sent", "once", "lost", "twice", "out_of_order", "stale")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def room(tmp_path_factory: pytest.TempPathFactory, one_core: None) -> AsyncIterator[str]:
    """The address of a server with a playground."""
    settings = settings_in(tmp_path_factory.mktemp("play"), playground=True)
    async with running(settings, routes=routes_for(settings)) as server:
        yield server.address


async def answer_of(room: str, body: Any) -> Any:
    async with Connection(int(room.rpartition(":")[2])) as connection:
        return (await connection.call("POST", "/api/v1/sim", body)).json


async def meters_of(page: Page) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = await page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("[data-receiver]")].map((card) => [
        card.dataset.receiver, Object.fromEntries([...card.querySelectorAll("[data-meter]")].map((one) =>
        [one.dataset.meter, Number(one.textContent)]))]))"""
    )
    return found


async def violations(page: Page) -> list[str]:
    await page.evaluate(AXE("utf-8"))
    found: list[str] = await page.evaluate(
        "async () => (await axe.run()).violations.flatMap((one) => one.nodes.map((n) => `${one.id}: ${n.html}`))"
    )
    return found + [f"faint border: {one}" for one in await page.evaluate(FAINT_BORDERS)]


async def to_the_end(page: Page) -> None:
    await page.get_by_role("button", name="8×").click()
    await page.locator("[data-act=play]").click()
    await expect(page.locator(".player")).to_have_attribute("data-over", "true", timeout=scaled_ms(20_000))


@pytest.mark.parametrize("presets", [SCENARIOS[::3], pytest.param(SCENARIOS, marks=pytest.mark.soak)], ids=len)
async def test_every_preset_plays_to_its_end_and_shows_the_meters_of_the_answer(
    room: str, visit: Visit, presets: Sequence[Scenario]
) -> None:
    page = await visit(f"{room}/play")
    for scenario in presets:
        answer = await answer_of(room, {"scenario": scenario.name, "seed": 1})
        await page.locator(f"[data-scenario={scenario.name}]").click()
        await expect(page.locator("[data-player]")).to_have_attribute("data-hash", answer["trace_hash"])
        await expect(page.locator(".player")).to_have_attribute("data-over", "false")

        await to_the_end(page)

        assert await meters_of(page) == answer["meters"], scenario.name
        await expect(page.locator("[data-act=play]")).to_have_text("Play")
        assert f"s={scenario.name}" in page.url


async def test_scrubbing_goes_back_and_forth_and_stepping_stops_at_each_step(room: str, visit: Visit) -> None:
    page = await visit(f"{room}/play?s=timeout")
    scrub = page.get_by_label("Moment of the scenario")
    await scrub.fill("1300")
    held = page.locator(".lane-row[data-gate=held]")
    await expect(held).to_have_count(1)
    await expect(held).to_contain_text("again in")
    await expect(page.locator("[data-receiver=ours] [data-meter=lost]")).to_have_text("–")
    caption = await page.locator(".caption").text_content()

    await scrub.fill("0")
    await expect(held).to_have_count(0)
    await expect(page.locator(".clock")).to_contain_text("t = 0.0 s")
    await page.locator("[data-act=step]").click()
    await expect(page.locator(".caption")).to_have_text("A:1 leaves the sender")
    await page.locator("[data-act=back]").click()
    await expect(page.locator(".caption")).to_have_text("A:1 is published")

    await scrub.fill("1300")
    await expect(page.locator(".caption")).to_have_text(caption or "")


async def test_a_guess_is_judged_when_the_scenario_was_seen(room: str, visit: Visit) -> None:
    page = await visit(f"{room}/play")
    quiz = page.locator(".quiz")
    await expect(quiz).to_contain_text("A:2 (same key) is ready to send")
    await quiz.get_by_text("Drop it: A:1 failed").click()
    await expect(quiz).not_to_contain_text("Hold it until A:1 is acknowledged.")
    await to_the_end(page)
    await expect(quiz.get_by_role("status")).to_contain_text("No: Hold it until A:1 is acknowledged.")

    await quiz.get_by_role("button", name=re.compile("next")).click()
    await expect(quiz).to_contain_text("receives order.created twice")
    await quiz.get_by_text("in the same commit as the effect").click()
    await expect(quiz.get_by_role("status")).to_contain_text("Right.")


async def test_a_link_restores_everything_and_a_mangled_one_still_plays(room: str, visit: Visit) -> None:
    page = await visit(f"{room}/play?s=two-workers")
    await page.get_by_label("Events").fill("20")
    await page.get_by_label("Rate").fill("50")
    await page.get_by_label("Answer lost").fill("30")
    await expect(page.get_by_label("crashes, where")).to_have_count(0)
    await page.get_by_label("Sender’s worker crashes").fill("20")
    await page.get_by_label("Sender’s worker crashes, where").select_option("after the 2xx, before the commit")
    await page.locator("input[name=seed]").fill("9")
    await page.locator("input[name=seed]").press("Enter")
    asked = {"scenario": "two-workers", "seed": 9, "events": 20, "keys": 4, "rate": 50}
    crashes = {"worker_crash": 0.2, "worker_crash_at": "before_commit"}
    answer = await answer_of(room, {**asked, "faults": {"duplicate": 0.25, "drop_ack": 0.3, **crashes}})
    await expect(page.locator("[data-player]")).to_have_attribute("data-hash", answer["trace_hash"])

    again = await visit(page.url)
    await expect(again.locator("[data-player]")).to_have_attribute("data-hash", answer["trace_hash"])
    await expect(again.get_by_label("Answer lost")).to_have_value("30")
    await expect(again.get_by_label("Rate")).to_have_value("50")
    await expect(again.get_by_label("Sender’s worker crashes, where")).to_have_value("before_commit")
    await again.get_by_role("button", name="Export as pytest").click()
    options = "--seed 9 --events 20 --keys 4 --rate 50 --fault drop-ack=0.3 --fault duplicate=0.25"
    points = "--fault worker-crash=0.2 --fault worker-crash-at=before-commit"
    await expect(again.locator(".code")).to_contain_text(f"hooklane simulate two-workers {options} {points}")

    odd = await visit(f"{room}/play?s=<b>&seed=-4&events=9999&drop_ack=x&keys=1e9&rate=-1&worker_crash_at=constructor")
    await expect(odd.locator("[data-player]")).to_have_attribute("data-hash", (await answer_of(room, {}))["trace_hash"])


async def test_it_can_be_played_with_the_keyboard_alone(room: str, visit: Visit) -> None:
    page = await visit(f"{room}/play")
    await expect(page.locator(".player")).to_be_visible()

    async def reach(selector: str) -> None:
        for _ in range(80):
            await page.keyboard.press("Tab")
            if await page.evaluate(f"() => document.activeElement?.matches({selector!r})"):
                return
        raise AssertionError(f"Tab never comes to {selector}")

    await reach("[data-scenario=poison]")
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-scenario=poison]")).to_have_attribute("aria-pressed", "true")
    poison = await answer_of(room, {"scenario": "poison", "seed": 1})
    await expect(page.locator("[data-player]")).to_have_attribute("data-hash", poison["trace_hash"])  # it is there
    await reach(".quiz .opts button")
    await page.keyboard.press("Space")
    await reach(".scrub")
    await page.keyboard.press("End")
    await expect(page.locator(".player")).to_have_attribute("data-over", "true")
    await expect(page.locator(".kept")).to_contain_text("1 dead, 1 waiting")
    await page.keyboard.press("Home")
    await reach("[data-speed='8']")
    await page.keyboard.press("Enter")
    await page.locator("[data-act=play]").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".player")).to_have_attribute("data-over", "true", timeout=scaled_ms(20_000))


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 390),
        pytest.param("dark", 1280, marks=pytest.mark.soak),
        pytest.param("light", 1280, marks=pytest.mark.soak),
        pytest.param("dark", 390, marks=pytest.mark.soak),
    ],
)
async def test_everyone_can_use_it(room: str, visit: Visit, scheme: str, width: int) -> None:
    page = await visit(
        f"{room}/play?s=poison", color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    await page.get_by_label("Moment of the scenario").fill("2000")
    assert await violations(page) == []
    await page.get_by_label("Moment of the scenario").press("End")
    await page.get_by_role("button", name="Export as pytest").click()
    await expect(page.locator(".code")).to_contain_text("def test_poison")
    assert await violations(page) == []
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Aim at my URL").click()
    assert await violations(page) == []
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    seen = """() => { const part = document.querySelector(".stage .consumer").getBoundingClientRect();
      return part.left >= 0 && part.right <= innerWidth; }"""
    assert await page.evaluate(seen), "the consumer is beyond the edge of the screen"


async def test_with_reduced_motion_nothing_travels_and_it_still_plays(room: str, visit: Visit) -> None:
    page = await visit(f"{room}/play", reduced_motion="reduce")
    await expect(page.locator(".player")).to_be_visible()
    await page.evaluate(
        """() => { window.places = new Set(); new MutationObserver(() => { for (const one of
        document.querySelectorAll(".flight")) places.add(one.getAttribute("transform").split(" ")[0]); }).observe(
        document.querySelector(".stage"), {subtree: true, attributes: true, childList: true}); }"""
    )
    await to_the_end(page)

    assert await page.evaluate("() => places.size") == 1


async def test_copies_are_sent_to_a_receiver_of_mine(room: str, visit: Visit, tmp_path: Path) -> None:
    shop = Shop(tmp_path, SECRET)
    try:
        page = await visit(f"{room}/play?s=flapping")
        await page.get_by_role("button", name="Aim at my URL").click()
        await page.get_by_label("Your receiver’s URL").fill(shop.url)
        await page.get_by_label("Its signing secret").fill(SECRET)
        await page.get_by_role("button", name="Send the copies").click()
        await expect(page.get_by_role("dialog")).to_contain_text("of 4 events: 4 accepted, 0 applied twice")
        assert SECRET not in page.url
    finally:
        shop.close()


async def test_a_server_without_a_playground_says_how_to_have_one(visit: Visit, tmp_path: Path, one_core: None) -> None:
    async with running(settings_in(tmp_path)) as server:
        page = await visit(f"{server.address}/play", quiet=False)
        await expect(page.locator(".empty")).to_contain_text("hooklane serve --playground")
