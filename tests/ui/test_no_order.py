"""What the overview says where events have no order: nothing is blocked, and still something waits for a person."""

import pytest
from playwright.async_api import Page, expect
from tests.support.receiver import Answer
from tests.ui.conftest import Site, Visit

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_dead_letter_without_a_key_is_told_by_the_overview(site: Site, visit: Visit):
    shop = await site.shop()
    shop.react = lambda _: Answer(status=422, body=b"no")  # type: ignore[method-assign]
    page: Page = await visit(site.url)
    verdict = page.get_by_label("Verdict")
    await expect(verdict).to_contain_text("Ready")
    await site.call("POST", "events", {"type": shop.type, "data": {}})

    await expect(verdict).to_contain_text("1 dead letter waits for you")
    await expect(verdict.get_by_role("link", name="Review 1 dead letter")).to_be_visible()

    shop.react = lambda _: Answer()  # type: ignore[method-assign]
    [letter] = (await site.call("GET", "dead-letters"))["items"]
    await site.call("POST", f"dead-letters/{letter['id']}/replay")
    await expect(verdict).to_contain_text("Nothing is blocked, nothing waits for you.")
