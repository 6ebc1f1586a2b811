"""A crowd of hostile endpoints beside a healthy one: does all end in time, at what memory, and who feels it?"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench.hostile import BEHAVIOURS
from hooklane.model.exchange import Answer, Result, Target
from hooklane.sender.egress import EgressGuard
from hooklane.sender.transport import Transport


@dataclass(frozen=True, slots=True)
class Crowd:
    """What a run with *endpoints* hostile endpoints showed."""

    endpoints: int
    ended: Counter[str]
    last_after_deadline_ms: float
    """How long after its deadline the last request ended."""
    memory_each_kib: float
    quiet_ms: tuple[float, float]
    """Median and p99 of the healthy endpoint without the crowd."""
    crowded_ms: tuple[float, float]

    def __str__(self) -> str:
        ends = ", ".join(f"{name} {count}" for name, count in sorted(self.ended.items()))
        return (
            f"{self.endpoints} hostile endpoints at once: the last ended {self.last_after_deadline_ms:+.0f} ms after "
            f"the deadline; {self.memory_each_kib:.1f} KiB each; {ends}\n"
            f"healthy endpoint: quiet p50 {self.quiet_ms[0]:.2f} ms p99 {self.quiet_ms[1]:.2f} ms; crowded p50 "
            f"{self.crowded_ms[0]:.2f} ms p99 {self.crowded_ms[1]:.2f} ms; p99 ratio "
            f"{self.crowded_ms[1] / self.quiet_ms[1]:.2f} (goal 1.50)"
        )


async def run_crowd(hostile_port: int, healthy_port: int, *, endpoints: int, timeout_ms: int, every_ms: float) -> Crowd:
    """*endpoints* requests that no one ends but the transport, and one healthy request each *every_ms*."""
    transport = Transport(EgressGuard(allow=["127.0.0.0/8"]), connections_max=endpoints + 100)
    healthy = Target("ep_healthy", f"http://127.0.0.1:{healthy_port}/ok", timeout_ms=timeout_ms)
    await _healthy(transport, healthy, 0.5, every_ms)  # warm
    quiet = await _healthy(transport, healthy, timeout_ms / 1000, every_ms)
    gc.collect()
    before_kib = peak_kib = _rss_kib()

    loop = asyncio.get_running_loop()
    all_ended = loop.create_future()
    results: list[Result] = []

    def done(result: Result) -> None:
        results.append(result)
        if len(results) == endpoints:
            all_ended.set_result(None)

    paths = list(BEHAVIOURS)
    started = time.monotonic()
    for number in range(endpoints):
        path = paths[number % len(paths)]
        target = Target(f"ep_{number}", f"http://127.0.0.1:{hostile_port}{path}", timeout_ms=timeout_ms)
        transport.send(target, b"", b"{}", done)
        if number % 10 == 9:
            await asyncio.sleep(0.001)  # as a queue hands them out: no single turn of the loop takes them all
    last_deadline = time.monotonic() + timeout_ms / 1000
    crowded_task = asyncio.create_task(_healthy(transport, healthy, timeout_ms / 1000, every_ms))
    while not all_ended.done():
        peak_kib = max(peak_kib, _rss_kib())
        await asyncio.wait([all_ended], timeout=0.05)
    ended_at = time.monotonic()
    crowded = await crowded_task
    await transport.close(0)
    assert ended_at > started
    ended = Counter(str(one.status) if isinstance(one, Answer) else one.failure.value for one in results)
    return Crowd(
        endpoints, ended, (ended_at - last_deadline) * 1000, (peak_kib - before_kib) / endpoints, quiet, crowded
    )


async def _healthy(transport: Transport, target: Target, seconds: float, every_ms: float) -> tuple[float, float]:
    took_ms: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        transport.send(target, b"", b"{}", lambda result: took_ms.append(result.timings.total_ms))
        await asyncio.sleep(every_ms / 1000)
    took_ms.sort()
    return took_ms[len(took_ms) // 2], took_ms[int(len(took_ms) * 0.99)]


def _rss_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4
