"""Recorded scenarios play on a page that has no server behind it, and are those of the engine."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.async_api import expect
from tools.record_traces import SEED, record

from hooklane.testing.play import SCENARIOS, Play, Trace, play

pytestmark = pytest.mark.asyncio(loop_scope="session")
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Docs</title><link rel="icon" href="data:,"><body>
<h1>Docs</h1><div data-trace="traces/late-retry.json"></div><div data-trace="traces/none.json"></div>
<script type="module" src="traces/player.js"></script></body></html>"""


@pytest.fixture
def docs(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A folder of files behind a web server that knows nothing of hooklane."""
    (tmp_path / "index.html").write_text(PAGE)
    record(tmp_path / "traces")

    class Files(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", tmp_path / "traces"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_recorded_scenario_plays_without_a_server(docs: tuple[str, Path], visit: Callable[..., Any]) -> None:
    url, folder = docs
    for scenario in SCENARIOS:
        kept = msgspec.json.decode((folder / f"{scenario.name}.json").read_bytes(), type=Trace)
        assert kept == play(Play(scenario=scenario.name, seed=SEED))

    page = await visit(url, quiet=False)
    await page.get_by_role("button", name="8×").click()
    await page.locator("[data-act=play]").click()
    await expect(page.locator(".player")).to_have_attribute("data-over", "true")
    await expect(page.locator("[data-receiver=delivered_at] [data-meter=stale]")).to_have_text("1")
    await expect(page.locator("[data-receiver=ours] [data-meter=stale]")).to_have_text("0")
    await expect(page.locator("[data-trace='traces/none.json']")).to_contain_text("could not be loaded")
