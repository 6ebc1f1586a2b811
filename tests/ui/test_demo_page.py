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
from tests.ui.conftest import Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEY = "order:1001"


class Play:
    """The page of a running demo."""

    def __init__(self, url: str, page: Page) -> None:
        self.url = url
        self.page = page
        self.strip = page.get_by_role("region", name="Demo")

    def button(self, name: str) -> Locator:
        return self.strip.get_by_role("button", name=name)

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


async def test_the_demo_breaks_one_key_then_all_and_one_click_resolves_what_is_blocked(
    start_hooklane: Callable[..., Child], visit: Visit
):
    child = start_hooklane("dev", "--demo", "--no-open", "--port", "0")
    url = (await asyncio.to_thread(child.wait_for_line, r"Dashboard\s+(http://\S+)"))[1]
    play = Play(url, await visit(f"{url}/lanes"))
    await expect(play.strip).to_contain_text("Break one key and watch")
    await play.delivers_more(12)
    assert (await play.ask("overview"))["ledger"]["dead"] == 0, "nothing dies by itself"

    await play.button("Break one key").click()
    row = play.page.locator("li.lane[data-state=blocked]").filter(has_text=KEY)
    await expect(row).to_contain_text("422 “unknown sku”")
    await expect(play.strip).to_contain_text(f"{KEY} stops, the others flow on")
    await play.delivers_more(12)
    assert await play.blocked() == {("demo shop", KEY)}
    await play.button("Mend").click()
    await play.button("Resolve 1 blocked lane").click()
    await expect(play.page.locator(".said")).to_contain_text("1 event delivered.")

    await play.button("Receiver down").click()

    async def some() -> bool:
        return bool(await play.blocked())  # how many, the breaker decides: it holds the others

    await eventually(some, within_s=60)
    assert {endpoint for endpoint, _ in await play.blocked()} == {"demo shop"}, "billing has nothing to do with it"
    await play.button("Mend").click()
    await expect(play.strip).to_contain_text("What failed stays until you resolve it")
    await play.button("Resolve").click()

    async def none() -> bool:
        return not await play.blocked()

    await eventually(none, within_s=60)
    await play.delivers_more(3)
