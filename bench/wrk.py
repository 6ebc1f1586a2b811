"""The load generator: wrk with one event per request."""

from __future__ import annotations

import re
import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.machine import tool

SINGLY = Path(__file__).with_name("publish.lua")
BATCHES = Path(__file__).with_name("batch.lua")
CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk saw: answers, how many of them were no 2xx, and its own CPU time."""

    answers: int
    seconds: float
    refused: int
    p50_ms: float
    p99_ms: float
    cpu_s: float

    @property
    def rate(self) -> float:
        return self.answers / self.seconds


def run(
    port: int,
    seconds: float,
    *,
    keys: int = 1_000,
    names: str = "-",
    fresh: str = "-",
    per_key: int = 1,
    connections: int = CONNECTIONS,
    script: Path = SINGLY,
) -> Load:
    """wrk against the server on *port*; with *names*, each request has an idempotency key that begins so.

    With *fresh* the keys begin so instead of being the same *keys* each time, and each gets *per_key* events.
    """
    return send(port, seconds, script, [str(keys), names, fresh, str(per_key)], connections=connections)


def send(port: int, seconds: float, script: Path, arguments: Sequence[str], *, connections: int = CONNECTIONS) -> Load:
    """wrk with *script*, which is given *arguments*."""
    command = [tool("wrk"), "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--latency", "-s", str(script)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(
        [*command, f"http://127.0.0.1:{port}/", "--", *arguments], capture_output=True, text=True, check=True
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = re.search(r"(\d+) requests in ([\d.]+)s", said)
    assert done, said
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", said)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Load(
        *(int(done[1]), float(done[2]), int(refused[1]) if refused else 0), _ms(said, "50%"), _ms(said, "99%"), cpu_s
    )


def _ms(said: str, which: str) -> float:
    found = re.search(rf"{which}\s+([\d.]+)(us|ms|s)\b", said)
    if found is None:
        return 0.0
    return float(found[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[found[2]]
