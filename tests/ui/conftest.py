"""The dashboard in a real Chromium, one for all tests, against a real server of each module in this process.

Tests share the server, so each brings an endpoint of its own, for types of its own.
"""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, async_playwright, expect
from tests.support.browser import ARGUMENTS, chromium
from tests.support.http_client import Connection
from tests.support.pace import scaled_ms
from tests.support.receiver import Answer, Request, Sink

from hooklane.cli import process
from hooklane.cli.process import Running, running
from hooklane.config import Settings

Visit = Callable[..., Any]
_numbers = itertools.count(1)


class Shop:
    """An endpoint of one test, its receiver, and the events that go to it. `statuses` says how keys are answered."""

    def __init__(self, site: "Site", sink: Sink, name: str) -> None:
        self.site = site
        self.sink = sink
        self.name = name
        self.type = f"{name}.changed"
        self.id = ""
        self.statuses: dict[str, int] = {}

    def react(self, request: Request) -> Answer:
        return Answer(status=self.statuses.get(request.headers["x-key"], 200), body=b"unknown sku")

    async def publish(self, key: str, many: int = 1) -> list[str]:
        events = [{"type": self.type, "key": key, "data": {"n": number}} for number in range(many)]
        return [one["id"] for one in (await self.site.call("POST", "events/batch", {"events": events}))["events"]]

    def arrived(self, key: str) -> list[int]:
        """The seqs that were delivered, in the order of their arrival."""
        return [
            int(one.headers["x-seq"])
            for one in self.sink.requests
            if one.path == f"/{self.name}" and one.headers["x-key"] == key and self.statuses.get(key, 200) == 200
        ]


class Site:
    """A running server and its page."""

    def __init__(self, server: Running, sink: Sink) -> None:
        self.server = server
        self.url = server.address
        self.sink = sink
        self.shops: dict[str, Shop] = {}

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        async with Connection(int(self.url.rpartition(":")[2])) as connection:
            answer = await connection.call(method, f"/api/v1/{path}", body)
            assert answer.status < 300, answer
            return answer.json

    async def shop(self, **settings: Any) -> Shop:
        shop = Shop(self, self.sink, f"shop{next(_numbers)}")
        usual = {"attempts_max": 1, "backoff_ms": 50, "types": [f"{shop.name}.*"]}
        body = {"url": self.sink.url(f"/{shop.name}"), "name": shop.name, **usual, **settings}
        shop.id = (await self.call("POST", "endpoints", body))["id"]
        self.shops[f"/{shop.name}"] = shop
        return shop

    def react(self, request: Request) -> Any:
        return self.shops[request.path].react(request)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest.fixture(scope="module")
def one_core() -> Iterator[None]:
    """As on a machine with one core: to start the process that writes takes long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_cores", lambda: 1)
        yield


def settings_in(folder: Path, **changes: Any) -> Settings:
    usual = {"db": f"sqlite:///{folder}/ui.db", "port": 0, "no_auth": True, "egress_allow": ("127.0.0.0/8",)}
    return Settings(**{**usual, **changes})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory, one_core: None) -> AsyncIterator[Site]:
    with Sink() as sink:
        async with running(settings_in(tmp_path_factory.mktemp("ui"))) as server:
            site = Site(server, sink)
            sink.react = site.react
            yield site


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser) -> AsyncIterator[Visit]:
    """Opens a page; what the browser complains about fails, and so does a request to another host."""
    complaints: list[str] = []
    expect.set_options(timeout=scaled_ms(10_000))
    async with AsyncExitStack() as stack:

        async def open_page(url: str, *, quiet: bool = True, **options: Any) -> Page:
            context: BrowserContext = await browser.new_context(**options)
            stack.push_async_callback(context.close)
            page = await context.new_page()
            page.set_default_timeout(scaled_ms(10_000))
            host = url.split("/")[2]
            page.on("request", lambda one: host in one.url or complaints.append(f"left the host: {one.url}"))
            if quiet:
                page.on("console", lambda message: _note(complaints, message))
                page.on("pageerror", lambda error: complaints.append(str(error)))
            await page.goto(url)
            return page

        yield open_page
    assert complaints == []


def _note(complaints: list[str], message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        complaints.append(f"{message.text} {message.location['url']}")


def lane(page: Page, key: str) -> Locator:
    return page.locator("li.lane").filter(has=page.locator("a.who b").get_by_text(key, exact=True))


def pill(page: Page) -> Locator:
    return page.locator(".live .word")
