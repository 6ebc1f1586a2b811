"""The Lanes board in motion, light and dark, for the README: `python -m tools.moving_picture`.

A real demo is filmed in three takes: keys flow; one key is stuck and the others flow on; it is replayed and flows
again. Needs a Chromium, and writes docs/images/lanes-moving-{light,dark}.webp.
"""

from __future__ import annotations

import asyncio
import base64
import time
from typing import Any

from playwright.async_api import Browser, Page, async_playwright
from tests.support.browser import ARGUMENTS, chromium
from tools.animated_webp import Frame, animated
from tools.screenshots import BREAKS_S_MAX, IMAGES, ask, demo

SIZE = {"width": 1120, "height": 630}
THEMES = ("light", "dark")
TAKE_S = 4.0
EVERY_S = 0.35
BYTES_MAX = 1_000_000
QUALITIES = (0.8, 0.65, 0.5, 0.35)

# What differs from the picture before it, as WebP in the given quality; nothing where nothing differs.
CHANGED = """async ([name, png, quality]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const { width, height } = image;
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const now = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
  window.before ??= {};
  const before = window.before[name];
  window.before[name] = now;
  let [left, top, right, bottom] = [0, 0, width, height];
  if (before) {
    [left, top, right, bottom] = [width, height, 0, 0];
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        if (now[y * width + x] !== before[y * width + x]) {
          left = Math.min(left, x); right = Math.max(right, x + 1);
          top = Math.min(top, y); bottom = Math.max(bottom, y + 1);
        }
    if (left >= right) return null;
    left -= left % 2; top -= top % 2;
  }
  const cut = Object.assign(document.createElement("canvas"), { width: right - left, height: bottom - top });
  cut.getContext("2d").drawImage(image, -left, -top);
  const webp = cut.toDataURL("image/webp", quality).split(",")[1];
  return { x: left, y: top, width: cut.width, height: cut.height, webp };
}"""

Shot = tuple[float, str]
"""When it was taken, and the PNG as base64."""


async def take(pages: dict[str, Page], seconds: float, shots: dict[str, list[Shot]]) -> None:
    began = time.monotonic()
    while (at := time.monotonic()) < began + seconds:
        for theme, page in pages.items():
            shots[theme].append((at, base64.b64encode(await page.screenshot()).decode()))
        await asyncio.sleep(max(0.0, EVERY_S - (time.monotonic() - at)))


async def story(pages: dict[str, Page], url: str) -> dict[str, list[Shot]]:
    """Three takes. What is waited for in between is not filmed."""
    shots: dict[str, list[Shot]] = {theme: [] for theme in THEMES}
    await take(pages, TAKE_S, shots)
    await asyncio.to_thread(ask, url, "demo", {"receiver": "ok", "broken": ["order:1001"]})
    letters: list[Any] = []
    until = time.monotonic() + BREAKS_S_MAX
    while not letters or letters[0]["waiting"] < 2:
        if time.monotonic() > until:
            raise SystemExit("tools.moving_picture: no key got stuck")
        await asyncio.sleep(0.3)
        letters = (await asyncio.to_thread(ask, url, "dead-letters"))["items"]
    await take(pages, TAKE_S, shots)
    await asyncio.to_thread(ask, url, "demo", {"receiver": "ok", "broken": []})
    await asyncio.to_thread(ask, url, f"dead-letters/{letters[0]['id']}/replay", {})
    await take(pages, TAKE_S, shots)
    return shots


async def develop(developer: Page, name: str, shots: list[Shot], quality: float) -> bytes:
    """The moving picture of *shots*; the wait between two takes is cut to one frame's time."""
    frames: list[Frame] = []
    for (at, png), (after, _) in zip(shots, [*shots[1:], (shots[-1][0] + 2.0, "")], strict=True):
        stays_ms = int(min(after - at, 2.0) * 1000)
        cut = await developer.evaluate(CHANGED, [f"{name} {quality}", png, quality])
        if cut is None:
            last = frames.pop()
            frames.append(Frame(last.x, last.y, last.width, last.height, last.duration_ms + stays_ms, last.webp))
            continue
        place = (cut["x"], cut["y"], cut["width"], cut["height"])
        frames.append(Frame(*place, stays_ms, base64.b64decode(cut["webp"])))
    return animated(frames)


async def film(browser: Browser, url: str) -> None:
    pages = {}
    for theme in THEMES:
        page = await browser.new_page(viewport=SIZE, color_scheme=theme)  # type: ignore[arg-type]
        await page.goto(f"{url}/lanes")
        await page.locator("li.lane").first.wait_for()
        pages[theme] = page
    await asyncio.sleep(8)  # rows find their groups
    shots = await story(pages, url)
    developer = await browser.new_page()
    for theme in THEMES:
        for quality in QUALITIES:
            picture = await develop(developer, theme, shots[theme], quality)
            if len(picture) < BYTES_MAX:
                break
        (IMAGES / f"lanes-moving-{theme}.webp").write_bytes(picture)
        print(f"lanes-moving-{theme}.webp  {len(shots[theme])} frames, quality {quality}, {len(picture) // 1024} KiB")


async def main() -> None:
    with demo() as url:
        await asyncio.sleep(15)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
            await film(browser, url)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
