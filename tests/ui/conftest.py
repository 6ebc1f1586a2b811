"""The page in a real Chromium, against a real server in this process."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect
from tests.support.browser import ARGUMENTS, chromium
from tests.support.pace import scaled_ms

from hooklane.cli import process
from hooklane.cli.process import Running, running
from hooklane.config import Secret, Settings


class Site:
    """A running server and its page."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.url = server.address


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """A server without a key, as `hooklane dev` runs it on one core: to start the process that writes takes long."""
    monkeypatch.setattr(process, "_cores", lambda: 1)
    async with running(_settings(tmp_path)) as server:
        yield Site(server)


@pytest.fixture
async def guarded_site(tmp_path: Path) -> AsyncIterator[Site]:
    async with running(_settings(tmp_path, no_auth=False, api_key=Secret("key-for-the-page"))) as server:
        yield Site(server)


def _settings(folder: Path, **changes: Any) -> Settings:
    usual = {"db": f"sqlite:///{folder}/ui.db", "port": 0, "no_auth": True, "egress_allow": ("127.0.0.0/8",)}
    return Settings(**{**usual, **changes})


@pytest.fixture
async def visit(browser: Browser) -> AsyncIterator[Callable[..., Any]]:
    """Opens the page; whatever the browser complains about fails the test."""
    complaints: list[str] = []
    expect.set_options(timeout=scaled_ms(10_000))
    async with AsyncExitStack() as stack:

        async def open_page(url: str, *, quiet: bool = True, **options: Any) -> Page:
            context = await browser.new_context(**options)
            stack.push_async_callback(context.close)
            page = await context.new_page()
            page.set_default_timeout(scaled_ms(10_000))
            if quiet:
                page.on("console", lambda message: _note(complaints, message))
                page.on("pageerror", lambda error: complaints.append(str(error)))
            await page.goto(url)
            return page

        yield open_page
    assert complaints == []


def _note(complaints: list[str], message: ConsoleMessage) -> None:
    if message.type in ("error", "warning"):
        complaints.append(message.text)
