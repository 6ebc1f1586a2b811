"""The demo as a person plays with it: `hooklane dev --demo`, a real process, in a real Chromium."""

import asyncio
import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect
from tests.support.eventually import eventually
from tests.support.pace import scaled_s
from tests.support.processes import Child

Visit = Callable[..., Any]
KEY = "order:1001"


class Play:
    """The page of a running demo."""

    def __init__(self, url: str, page: Page) -> None:
        self.url = url
        self.page = page
        self.controls = page.get_by_role("region", name="Demo controls")

    def button(self, name: str) -> Locator:
        return self.controls.get_by_role("button", name=name)

    def lane(self, endpoint: str, key: str) -> Locator:
        heading = self.page.get_by_role("heading", name=key, exact=True)
        return self.page.locator("li.lane").filter(has=heading).filter(has_text=endpoint)

    async def ask(self, path: str) -> Any:
        def get() -> Any:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=scaled_s(10)) as answer:
                return json.load(answer)

        return await asyncio.to_thread(get)

    async def blocked(self) -> set[tuple[str, str]]:
        items = (await self.ask("lanes?state=blocked&limit=100"))["items"]
        return {(one["endpoint_name"], one["key"]) for one in items}

    async def delivers_more(self, many: int) -> None:
        so_far = (await self.ask("overview"))["ledger"]["delivered"]

        async def more() -> bool:
            return bool((await self.ask("overview"))["ledger"]["delivered"] >= so_far + many)

        await eventually(more, within_s=30)


@pytest.fixture
async def play(start_hooklane: Callable[..., Child], visit: Visit) -> Play:
    child = start_hooklane("dev", "--demo", "--no-open", "--port", "0")
    url = (await asyncio.to_thread(child.wait_for_line, r"Dashboard\s+(http://\S+)"))[1]
    return Play(url, await visit(url))


async def test_one_broken_key_stops_while_all_others_flow_and_one_click_replays_it(play: Play):
    await expect(play.controls).to_contain_text("Break one key and watch: it stops, the others flow on.")
    await expect(play.button("Mend it")).to_have_attribute("aria-pressed", "true")
    await expect(play.button("Replay blocked")).to_be_disabled()

    await play.button("Break one key").click()
    await expect(play.controls).to_contain_text(f"{KEY} is broken")
    await expect(play.lane("demo shop", KEY)).to_have_attribute("data-state", "blocked")
    await play.delivers_more(12)
    assert await play.blocked() == {("demo shop", KEY)}

    await play.button("Mend it").click()
    await play.button("Replay 1 blocked").click()
    await expect(play.page.locator("#verdict")).to_have_text("Healthy")
    await expect(play.button("Replay blocked")).to_be_disabled()
    await play.delivers_more(3)
    assert await play.blocked() == set()


async def test_a_receiver_that_is_down_stops_its_keys_and_one_click_replays_them_all(play: Play):
    await play.delivers_more(5)
    await play.button("Receiver down").click()
    await expect(play.controls).to_contain_text("answers 503 to every key")

    async def several() -> bool:
        return len(await play.blocked()) >= 3

    await eventually(several, within_s=60)
    assert {endpoint for endpoint, _ in await play.blocked()} == {"demo shop"}, "billing has nothing to do with it"
    await play.button("Mend it").click()
    await expect(play.controls).to_contain_text("one click for all")
    await play.button("Replay").click()
    await expect(play.page.locator("#verdict")).to_have_text("Healthy", timeout=60_000)
    assert await play.blocked() == set()
