"""What a person sees and does on the page."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.support.http_client import Connection
from tests.support.receiver import Answer, Sink
from tests.ui.conftest import Site

Visit = Callable[..., Any]


async def call(site: Site, method: str, path: str, body: Any = None) -> Any:
    async with Connection(int(site.url.rpartition(":")[2])) as connection:
        answer = await connection.call(method, f"/api/v1/{path}", body)
        assert answer.status < 300, answer
        return answer.json


async def publish(site: Site, key: str, many: int = 1, type_: str = "order.created") -> None:
    for number in range(many):
        await call(site, "POST", "events", {"type": type_, "key": key, "data": {"n": number}})


@pytest.fixture
async def endpoint(site: Site, sink: Sink) -> Any:
    body = {"url": sink.url(), "name": "shop", "attempts_max": 2, "backoff_ms": 50}
    return await call(site, "POST", "endpoints", body)


def lane(page: Page, key: str) -> Any:
    return page.locator("li.lane").filter(has=page.get_by_text(key, exact=True))


async def test_an_empty_board_teaches_the_one_command(site: Site, visit: Visit):
    page = await visit(f"{site.url}/lanes")

    await expect(page.locator(".empty")).to_contain_text("hooklane send order.created")
    await expect(page.locator(".live .word")).to_have_text("Live")


async def test_a_lane_appears_and_moves_without_reloading(site: Site, visit: Visit, endpoint: Any):
    page = await visit(f"{site.url}/lanes")
    await expect(page.locator(".live .word")).to_have_text("Live")

    await publish(site, "order:1", 3)

    row = lane(page, "order:1")
    await expect(row).to_have_attribute("data-state", "idle")
    await expect(row.locator(".done .cell[data-state=delivered]")).to_have_count(3)


async def test_a_blocked_lane_is_replayed_from_its_panel(site: Site, visit: Visit, sink: Sink, endpoint: Any):
    sink.react = lambda request: Answer(status=422 if request.headers["x-key"] == "order:1" else 200)
    page = await visit(f"{site.url}/lanes")
    await publish(site, "order:1", 3)

    row = lane(page, "order:1")
    await expect(row).to_have_attribute("data-state", "blocked")
    await row.get_by_role("link", name="Resolve order:1").click()
    panel = page.get_by_role("complementary", name="Lane order:1")
    await expect(panel).to_contain_text("#1 of order:1 died after 2 tries")
    sink.react = lambda _: Answer()
    await panel.get_by_role("button", name="Replay #1").click()

    await expect(row.locator(".done .cell[data-state=delivered]")).to_have_count(3)
