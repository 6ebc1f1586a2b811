"""`python -m bench.dashboard_page [--lanes 1000] [--rate 180]`: what does the board of lanes cost a browser?

A server, a receiver and a headless Chromium share the machine. Printed and judged: how soon after the page was asked
for lanes move on it; then, while so many lanes are live and so many events are delivered each second, the longest task
of the page, how much of a core its process takes, and whether the page knows at the end how far each lane has come.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bench.gateway import Gateway, gateway
from bench.machine import Neighbours, described, load_average, scratch
from bench.stores import sqlite

READY_MS_MAX = 1_000.0
LONG_TASK_MS_MAX = 100.0
CORE_MAX = 0.40
VISITS = 5
BEATS_PER_S = 10
SIZE = {"width": 1280, "height": 800}

# When did the first lane move? A cell came or went on a lane that was drawn already.
_FIRST_MOVE = """(() => {
  window.firstMove = new Promise((tell) => new MutationObserver((all) => {
    if (all.some((one) => one.target.closest?.(".lane :is(.queue, .wire, .done)"))) tell(performance.now());
  }).observe(document, { subtree: true, childList: true }));
  window.longTasks = [];
  new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask", buffered: true }); })()"""
# What the page was told of each lane; its modules are there once, so this is the one that the board hears.
_HEAR = """async () => { const live = await import(new URL(`${document.body.dataset.static}/live.js`, location.href));
  window.heads = new Map(); window.changes = 0;
  live.hear("lanes", ({ items }) => {
    changes += items.length; for (const one of items) heads.set(one.key, one.head); }); }"""
_DRAWN = """() => [...document.querySelectorAll("li.lane")].map((row) => [row.querySelector(".who b").textContent,
  Number(row.querySelector(".done .cell")?.dataset.seq ?? 0)])"""


@dataclass(frozen=True, slots=True)
class Figures:
    ready_ms: list[float]
    opening_ms: float
    """The longest task of the page while it opens."""
    longest_ms: float
    page: float
    """Cores that the page's process took, script, style, layout and paint together."""
    script: float
    """How long its main thread was in tasks, by the wall clock: a task that waits for a core counts too."""
    updates_per_s: float
    wrong: list[str]
    others: float


def publish(server: Gateway, keys: list[str]) -> None:
    events = [{"type": "order.paid", "key": key, "data": {}} for key in keys]
    server.call("POST", "/api/v1/events/batch", {"events": events})


def publish_each(server: Gateway, keys: list[str]) -> None:
    for start in range(0, len(keys), 500):
        publish(server, keys[start : start + 500])


async def produce(server: Gateway, keys: list[str], rate: int, seconds: float) -> None:
    """Publishes *rate* events a second, each for any of the keys."""
    began, beat, chance = time.monotonic(), 0, random.Random(7)
    while time.monotonic() - began < seconds:
        await asyncio.to_thread(publish, server, chance.choices(keys, k=rate // BEATS_PER_S))
        beat += 1
        await asyncio.sleep(max(0.0, began + beat / BEATS_PER_S - time.monotonic()))


async def open_page(browser: Any, server: Gateway, keys: list[str], rate: int) -> tuple[list[float], float]:
    """How long after the page was asked for did the first event travel? Each time with an empty cache.

    And the longest task until then, of all visits.
    """
    found, longest = [], 0.0
    producing = asyncio.create_task(produce(server, keys, rate, 600.0))
    try:
        for _ in range(VISITS):
            context = await browser.new_context(viewport=SIZE)
            page = await context.new_page()
            await page.add_init_script(_FIRST_MOVE)
            await page.goto(f"http://127.0.0.1:{server.port}/lanes", wait_until="commit")
            found.append(float(await page.evaluate("() => firstMove")))
            longest = max(longest, float(await page.evaluate("() => Math.max(0, ...longTasks)")))
            await context.close()
    finally:
        producing.cancel()
        await asyncio.gather(producing, return_exceptions=True)
    return found, longest


async def cpu_s(session: Any) -> dict[int, float]:
    """Seconds of CPU that each renderer has taken. That of the page is the one that takes most while it is measured."""
    return {one["id"]: one["cpuTime"] for one in await processes(session) if one["type"] == "renderer"}


async def processes(session: Any) -> list[dict[str, Any]]:
    """All processes of the browser."""
    told: list[dict[str, Any]] = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
    return told


async def warm_up(browser: Any) -> None:
    """The browser draws a page that is not ours: what it does once in its life is not measured."""
    page = await browser.new_page(viewport=SIZE)
    await page.goto("data:text/html,<p>warm<svg width=9 height=9><rect width=9 height=9></svg><dialog open>x</dialog>")
    await page.screenshot()
    await page.close()


async def measure(server: Gateway, lanes: int, rate: int, seconds: float) -> Figures:
    from playwright.async_api import async_playwright
    from tests.support.browser import ARGUMENTS, chromium

    keys = [f"order:{number:04}" for number in range(lanes)]
    publish_each(server, keys)
    await asyncio.to_thread(server.drain)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        await warm_up(browser)
        ready, opening_ms = await open_page(browser, server, keys, rate)
        await asyncio.to_thread(server.drain)
        page = await browser.new_page(viewport=SIZE)
        await page.add_init_script(_FIRST_MOVE)
        await page.goto(f"http://127.0.0.1:{server.port}/lanes")
        await page.locator("li.lane").first.wait_for()
        await page.evaluate(_HEAR)
        renderers = await browser.new_browser_cdp_session()
        client = await page.context.new_cdp_session(page)
        await client.send("Performance.enable")
        publish_each(server, keys)  # so that the page has heard of every lane
        await produce(server, keys, rate, 3.0)  # and its code is warm
        await page.evaluate("() => { longTasks.length = 0; changes = 0; }")
        before, busy = await cpu_s(renderers), await _task_s(client)
        watch = Neighbours(server.pid, os.getpid(), *(one["id"] for one in await processes(renderers)))
        began = time.monotonic()
        await produce(server, keys, rate, seconds)
        took = time.monotonic() - began
        after, busy = await cpu_s(renderers), await _task_s(client) - busy
        cost = max(many - before.get(pid, 0.0) for pid, many in after.items())
        longest, changes = await page.evaluate("() => [Math.max(0, ...longTasks), changes]")
        others = watch.cores()
        await asyncio.to_thread(server.drain)
        wrong = await _wrong(page, server, keys)
        await browser.close()
    return Figures(ready, opening_ms, float(longest), cost / took, busy / took, changes / took, wrong, others)


async def _task_s(client: Any) -> float:
    metrics = (await client.send("Performance.getMetrics"))["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


async def _wrong(page: Any, server: Gateway, keys: list[str]) -> list[str]:
    """Lanes of which the page's last word is not the server's: what it was told, and what it draws."""
    tails: dict[str, int] = {}
    cursor: str | None = None
    while cursor is not None or not tails:
        more = "" if cursor is None else f"&cursor={cursor}"
        answer = server.call("GET", f"/api/v1/lanes?state=idle&limit=200{more}")
        tails |= {one["key"]: one["tail"] for one in answer["items"]}
        cursor = answer["next"]
    deadline = time.monotonic() + 5.0
    while True:
        heads = dict(await page.evaluate("() => [...heads]"))
        drawn = dict(await page.evaluate(_DRAWN))
        told = {key: (heads.get(key), tails[key] + 1) for key in keys}
        wrong = [f"{key}: told {head}, is {is_}" for key, (head, is_) in told.items() if head != is_]
        wrong += [f"{key}: drawn {seq}, is {tails[key]}" for key, seq in drawn.items() if seq != tails[key]]
        if not wrong or time.monotonic() > deadline:
            return wrong
        await asyncio.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=1_000)
    parser.add_argument("--rate", type=int, default=180)
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = parser.parse_args()
    from tests.support.receiver import Sink

    with ExitStack() as stack:
        folder = stack.enter_context(scratch())
        sink = stack.enter_context(Sink())
        server = stack.enter_context(gateway(stack.enter_context(sqlite(folder)).fresh(), folder))
        server.add_endpoint(sink.url("/in"), name="shop")
        found = asyncio.run(measure(server, asked.lanes, asked.rate, asked.seconds))
    print(f"{described()}, load {load_average():.1f}, others {found.others:.1f} cores")
    told = f"{found.updates_per_s:.0f} changes of lanes a second told"
    print(f"{asked.lanes:,} live lanes, {asked.rate} events/s, {told}")
    judged = (
        ("first lane moves, ms after the page was asked for (worst)", max(found.ready_ms), READY_MS_MAX),
        ("longest task of the page while it opens, ms", found.opening_ms, LONG_TASK_MS_MAX),
        ("longest task of the page, ms", found.longest_ms, LONG_TASK_MS_MAX),
        ("the page's process, cores", found.page, CORE_MAX),
        ("its main thread in tasks, share of the time", found.script, CORE_MAX),
        ("lanes that are wrong at the end", len(found.wrong), 0),
    )
    for name, value, most in judged:
        print(f"{name:<60} {value:9.2f}   at most {most:g}{'' if value <= most else '  MISSED'}")
    print("visits, ms: " + " ".join(f"{one:.0f}" for one in found.ready_ms))
    for line in found.wrong[:10]:
        print(line)
    return 0 if all(value <= most for _, value, most in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
