"""What a person sees and does on the page."""

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Page, expect
from tests.support.eventually import eventually
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
    return page.locator("li.lane").filter(has=page.get_by_role("heading", name=key, exact=True))


async def test_an_empty_page_teaches_the_one_command(site: Site, visit: Visit):
    page = await visit(site.url)

    await expect(page.locator("#empty")).to_contain_text("hooklane send order.created")
    await expect(page.locator("#verdict")).to_have_text("Healthy")
    await expect(page.locator("#live")).to_have_text("Live")


async def test_a_lane_appears_and_moves_without_reloading(site: Site, visit: Visit, endpoint: Any):
    page = await visit(site.url)
    await expect(page.locator("#live")).to_have_text("Live")

    await publish(site, "order:1", 3)

    row = lane(page, "order:1")
    await expect(row).to_have_attribute("data-state", "idle")
    await expect(row.locator(".cell[data-state=delivered]")).to_have_count(3)
    await expect(row.locator(".says")).to_have_text("3 delivered, nothing waits")
    await expect(page.locator("#empty")).to_be_hidden()
    await expect(page.locator("[data-total=delivered] dd")).to_have_text("3")
    await expect(page.locator("#log li")).to_have_count(3)


async def test_a_blocked_lane_is_replayed_with_a_button(site: Site, visit: Visit, sink: Sink, endpoint: Any):
    sink.react = lambda request: Answer(status=422 if request.headers["x-key"] == "order:1" else 200)
    page = await visit(site.url)
    await publish(site, "order:1", 3)
    await publish(site, "order:2", 2)

    row = lane(page, "order:1")
    await expect(row).to_have_attribute("data-state", "blocked")
    await expect(row.locator(".cell[data-state=dead] .seq")).to_have_text("1")
    await expect(row.locator(".cell[data-state=waiting]")).to_have_count(2)
    await expect(row.locator(".says")).to_have_text("422 after 2 tries, order.created is dead · 2 waiting")
    await expect(page.locator("#verdict")).to_have_text("1 lane is blocked by a dead letter")
    await expect(lane(page, "order:2")).to_have_attribute("data-state", "idle")
    await expect(page.locator("li.lane").first).to_contain_text("order:1")
    sink.react = lambda _: Answer()

    await row.get_by_role("button", name="Replay #1 of order:1").click()

    await expect(row.locator(".cell[data-state=delivered]")).to_have_count(3)
    await expect(row.get_by_role("button", name="Replay")).to_have_count(0)
    await expect(page.locator("#verdict")).to_have_text("Healthy")


async def test_a_skip_asks_for_a_note_and_shows_what_it_does(site: Site, visit: Visit, sink: Sink, endpoint: Any):
    sink.react = lambda _: Answer(status=422)
    page = await visit(site.url)
    await publish(site, "order:1", 3)
    row = lane(page, "order:1")
    await expect(row.locator(".cell[data-state=waiting]")).to_have_count(2)
    sink.react = lambda _: Answer()

    await row.get_by_role("button", name="Skip #1 of order:1").click()
    dialog = page.get_by_role("dialog", name="Skip #1 of order:1?")
    await expect(dialog).to_contain_text("will never be delivered")
    await expect(dialog).to_contain_text("2 events behind it will be sent at once")
    await dialog.get_by_role("button", name="Skip 1, release 2").click()
    await expect(dialog).to_be_visible()  # the note is required
    await dialog.get_by_label("Note (required)").fill("customer cancelled")
    await dialog.get_by_role("button", name="Skip 1, release 2").click()

    await expect(dialog).to_be_hidden()
    await expect(row.locator(".cell[data-state=skipped] .seq")).to_have_text("1")
    await expect(row.locator(".cell[data-state=delivered]")).to_have_count(2)
    await expect(page.locator("[data-total=skipped] dd")).to_have_text("1")


async def test_a_skip_can_be_thought_better_of(site: Site, visit: Visit, sink: Sink, endpoint: Any):
    sink.react = lambda _: Answer(status=422)
    page = await visit(site.url)
    await publish(site, "order:1")
    row = lane(page, "order:1")

    await row.get_by_role("button", name="Skip #1 of order:1").click()
    await page.get_by_role("button", name="Cancel").click()

    await expect(row).to_have_attribute("data-state", "blocked")
    assert (await call(site, "GET", "overview"))["ledger"]["skipped"] == 0


async def test_why_says_it_in_a_sentence(site: Site, visit: Visit, sink: Sink, endpoint: Any):
    sink.react = lambda _: Answer(status=422, body=b"unknown sku")
    page = await visit(site.url)
    await publish(site, "order:1", 2)
    await expect(lane(page, "order:1")).to_have_attribute("data-state", "blocked")

    await lane(page, "order:1").get_by_role("button", name="Why does order:1 wait?").click()

    await expect(page.get_by_role("dialog")).to_contain_text(
        "#1 of order:1 died after 2 tries (last: 422 'unknown sku')"
    )


async def test_in_flight_and_retrying_are_shown(site: Site, visit: Visit, sink: Sink):
    await call(site, "POST", "endpoints", {"url": sink.url(), "backoff_ms": 30_000, "attempts_max": 5})
    may_answer = threading.Event()
    sink.react = lambda _: Answer(status=503, once=may_answer)
    page = await visit(site.url)
    await expect(page.locator("#live")).to_have_text("Live")

    await publish(site, "order:1", 2)

    row = lane(page, "order:1")
    await expect(row.locator(".cell[data-state=in_flight] .seq")).to_have_text("1")
    may_answer.set()
    await expect(row).to_have_attribute("data-state", "retrying")
    await expect(row.locator(".cell[data-state=retrying] .seq")).to_have_text("1")
    await expect(row.locator(".cell[data-state=waiting] .seq")).to_have_text("2")
    await expect(row.locator(".says")).to_have_text(re.compile(r"503 · try 1/5, next in \d+ s · 1 waiting"))


async def test_a_paused_page_stands_still_and_counts_what_is_new(site: Site, visit: Visit, endpoint: Any):
    page = await visit(site.url)
    await publish(site, "order:1")
    await expect(lane(page, "order:1")).to_have_attribute("data-state", "idle")

    await page.locator("body").press("Space")
    await expect(page.locator("#live")).to_have_text("Paused")
    await publish(site, "order:2")
    await expect(page.locator("#live")).to_have_text(re.compile(r"Paused \(\d+ new\)"))
    await expect(lane(page, "order:2")).to_have_count(0)

    await page.locator("#live").click()
    await expect(lane(page, "order:2")).to_have_attribute("data-state", "idle")
    await expect(page.locator("#live")).to_have_text("Live")


async def test_the_page_comes_back_by_itself_after_the_stream_was_cut(site: Site, visit: Visit, endpoint: Any):
    page = await visit(site.url, quiet=False)
    await expect(page.locator("#live")).to_have_text("Live")

    await page.context.set_offline(True)
    for connection in list(site.server.server.server_state.connections):
        connection.transport.abort()  # type: ignore[union-attr]
    await expect(page.locator("#live")).to_have_text(re.compile("Reconnecting, as of"))
    await publish(site, "order:1")
    await page.context.set_offline(False)

    await expect(page.locator("#live")).to_have_text("Live")
    await expect(lane(page, "order:1")).to_have_attribute("data-state", "idle")


async def test_keys_are_searched(site: Site, visit: Visit, endpoint: Any):
    for key in ("order:1", "order:2", "user:1"):
        await publish(site, key)
    page = await visit(site.url)
    await expect(page.locator("li.lane")).to_have_count(3)

    await page.locator("body").press("/")
    await page.keyboard.type("USER")

    await expect(page.locator("li.lane")).to_have_count(1)
    await expect(lane(page, "user:1")).to_be_visible()


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(1)</script>",
    "\"'><svg onload=alert(1)>",
    "javascript:alert(1)",
]


async def test_text_of_others_is_only_text(site: Site, visit: Visit, sink: Sink):
    sink.react = lambda _: Answer(status=422, body=b"<script>alert(1)</script>")
    body = {"url": sink.url(), "name": HOSTILE[0], "attempts_max": 1}
    await call(site, "POST", "endpoints", body)
    for key in HOSTILE:
        await publish(site, key)
    page = await visit(site.url)
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))

    for key in HOSTILE:
        await expect(lane(page, key)).to_have_attribute("data-state", "blocked")
        await expect(lane(page, key).locator(".endpoint")).to_have_text(HOSTILE[0])
    await lane(page, HOSTILE[1]).get_by_role("button", name="Why").click()
    await expect(page.get_by_role("dialog")).to_contain_text("<script>alert(1)</script>")
    assert await page.locator("main img, main script, dialog script").count() == 0


async def test_a_server_with_a_key_asks_for_it_once(guarded_site: Site, visit: Visit):
    page = await visit(guarded_site.url, quiet=False)
    await expect(page.get_by_label("This server asks for its API key")).to_be_visible()

    await page.get_by_label("This server asks for its API key").fill("key-for-the-page")
    await page.get_by_role("button", name="Open").click()

    await expect(page.locator("#live")).to_have_text("Live")
    await expect(page.locator("#verdict")).to_have_text("Healthy")
    await expect(page.locator("#key-form")).to_be_hidden()


async def test_a_hidden_tab_lets_go_of_its_stream(site: Site, visit: Visit, endpoint: Any):
    page = await visit(site.url)
    await expect(page.locator("#live")).to_have_text("Live")
    await page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )

    async def unwatched() -> bool:
        return not site.server.services.live_stream.client_count

    await eventually(unwatched)
    await publish(site, "order:1")
    await page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")

    await expect(lane(page, "order:1")).to_have_attribute("data-state", "idle")


async def test_the_api_is_described_without_any_third_party(site: Site, visit: Visit):
    page = await visit(f"{site.url}/api/docs")

    await expect(page.get_by_role("heading", name="POST /api/v1/events", exact=True)).to_be_visible()
    await expect(page.locator("tr#idempotency_conflict")).to_be_visible()
