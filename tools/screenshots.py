"""Pictures of every screen in both themes, for the README and the docs: `python -m tools.screenshots`.

They show the demo, a real process with real deliveries, after three minutes: answers were lost for a while, and one
key is broken. Needs a Chromium, and writes docs/images/.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, async_playwright
from tests.support.browser import ARGUMENTS, chromium

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
BYTES_MAX = 150 * 1024
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
FLOWS_S = 150.0
LOSES_S = 12.0
BREAKS_S_MAX = 90.0
MOMENT_MS = "1300"
"""Of the scenario with a timeout: key A is held, and key B flows."""


@contextmanager
def demo() -> Iterator[str]:
    """The address of a demo that runs in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="hooklane-pictures-") as folder:
        command = [sys.executable, "-m", "hooklane", "dev", "--demo", "--no-open", "--port", "0"]
        with subprocess.Popen(
            command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as child:
            try:
                assert child.stderr is not None
                found = next(
                    filter(None, (re.search(r"Dashboard\s+(http://\S+)", line) for line in child.stderr)), None
                )
                if found is None:
                    raise SystemExit("tools.screenshots: the demo did not start")
                yield found[1]
            finally:
                child.terminate()


def ask(url: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/api/v1/{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def stage(url: str) -> dict[str, str]:
    """Plays what the pictures show, and says where each of them is."""
    time.sleep(FLOWS_S)
    ask(url, "demo", {"receiver": "lost_ack"})
    time.sleep(LOSES_S)
    ask(url, "demo", {"receiver": "ok", "broken": ["order:1001"]})
    until = time.monotonic() + BREAKS_S_MAX
    while not (letters := ask(url, "dead-letters")["items"]) or letters[0]["waiting"] < 3:
        if time.monotonic() > until:
            raise SystemExit("tools.screenshots: no key got stuck")
        time.sleep(0.5)
    letter = letters[0]
    rows = ask(url, "inbox?key=order%3A1002&limit=100")["items"]
    row = next((one for one in rows if one["copies"] > 1), rows[0])
    return {
        "overview": "/?range=15m",
        "lanes": f"/lanes?lane={letter['endpoint']}/{letter['key']}",
        "events": "/events",
        "story": f"/events/{letter['event']}?tab=response",
        "dead-letters": "/dead",
        "endpoints": "/endpoints",
        "endpoint": f"/endpoints/{letter['endpoint']}",
        "inbox": "/inbox",
        "receipt": f"/inbox/{row['id']}",
        "playground": "/play?s=timeout",
        "audit": "/audit",
    }


async def picture(page: Page, name: str, theme: str, developer: Page) -> None:
    """The page as it stands, as WebP: Chromium itself makes it from the PNG."""
    await page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    await page.wait_for_timeout(400)
    png = base64.b64encode(await page.screenshot()).decode()
    for quality in (0.9, 0.75, 0.6):
        webp = await developer.evaluate(
            """async ([png, quality]) => {
              const image = new Image();
              image.src = `data:image/png;base64,${png}`;
              await image.decode();
              const { width, height } = image;
              const canvas = Object.assign(document.createElement("canvas"), { width, height });
              canvas.getContext("2d").drawImage(image, 0, 0);
              return canvas.toDataURL("image/webp", quality).split(",")[1];
            }""",
            [png, quality],
        )
        content = base64.b64decode(webp)
        if len(content) <= BYTES_MAX:
            break
    (IMAGES / f"{name}-{theme}.webp").write_bytes(content)
    print(f"{name}-{theme}.webp  {len(content) // 1024} KiB")


async def take(browser: Browser, url: str, screens: dict[str, str]) -> None:
    developer = await browser.new_page()
    desk = await browser.new_page(viewport=DESK)  # type: ignore[arg-type]
    phone = await browser.new_page(viewport=PHONE)  # type: ignore[arg-type]
    for name, path in screens.items():
        await desk.goto(url + path)
        await desk.locator(".live .word", has_text="Live").wait_for()
        await desk.wait_for_timeout(7000 if name == "lanes" else 2500)  # rows find their groups
        if name == "playground":
            scrubber = desk.get_by_label("Moment of the scenario")
            await scrubber.fill(MOMENT_MS)
            await scrubber.blur()
        for theme in ("light", "dark"):
            await picture(desk, name, theme, developer)
    await desk.goto(f"{url}/dead")
    await desk.get_by_role("button", name="Skip order:1001").click()
    await desk.locator(".blast").wait_for()
    await phone.goto(f"{url}/lanes")
    await phone.locator("li.lane").first.wait_for()
    for theme in ("light", "dark"):
        await picture(desk, "skip", theme, developer)
        await picture(phone, "lanes-phone", theme, developer)


async def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with demo() as url:
        screens = await asyncio.to_thread(stage, url)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
            await take(browser, url, screens)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
