"""`hooklane serve` with its shipped defaults, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import tree
from bench.machine import Cost, cost_of, free_port, peak_rss_mb
from hooklane.core.fanout import places
from hooklane.store.open import outbox_store
from hooklane.store.outbox import StoreOptions

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_OWED = ("queued", "in_flight", "retrying")


@dataclass(frozen=True, slots=True)
class Gateway:
    port: int
    pid: int
    count: Callable[[], Mapping[str, int]] | None = None
    """The ledger as the store counts it at this moment; that of the API may be seconds old."""

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"content-type": "application/json"}, method=method
        )
        with _OPENER.open(request, timeout=120) as answer:
            return json.loads(answer.read())

    def add_endpoint(self, url: str, **options: Any) -> str:
        made: str = self.call("POST", "/api/v1/endpoints", {"url": url, **options})["id"]
        return made

    def ledger(self) -> dict[str, int]:
        if self.count is not None:
            return dict(self.count())
        found: dict[str, int] = self.call("GET", "/api/v1/overview")["ledger"]
        return found

    def drain(self, owed_max: int = 0) -> dict[str, int]:
        """The ledger, once no more than *owed_max* deliveries are owed."""
        return self.drain_counted(owed_max)[0]

    def drain_counted(self, owed_max: int = 0, within_s: float = 120.0) -> tuple[dict[str, int], int]:
        """The same, and how often the ledger was asked for until then."""
        deadline, asked = time.monotonic() + within_s, 0
        while True:
            ledger, asked = self.ledger(), asked + 1
            owed = sum(ledger[state] for state in _OWED)
            if owed <= owed_max:
                return ledger, asked
            if time.monotonic() > deadline:
                raise SystemExit(f"{owed} deliveries are still owed after {within_s:g} s")
            time.sleep(min(1.0, 0.02 + (owed - owed_max) / 100_000))  # what stays owed is not waited for

    @property
    def cost(self) -> Cost:
        return cost_of(self.pid)

    @property
    def peak_rss_mb(self) -> float:
        return peak_rss_mb(self.pid)


@contextmanager
def gateway(db: str, folder: Path, *, role: str | None = None) -> Iterator[Gateway]:
    """A server on *db* that is ready."""
    port = free_port()
    command = [sys.executable, "-m", "hooklane", "serve", "--db", db, "--port", str(port), "--no-auth"]
    if role is not None:
        command += ["--role", role]
    env = {**os.environ, "HOOKLANE_EGRESS_ALLOW": "127.0.0.0/8"}
    with (folder / f"gateway-{port}.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            wait_for(Gateway(port, process.pid), process, Path(log.name))
            tree.check(process.pid)
            with ledger_of(db) as count:
                yield Gateway(port, process.pid, count)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def ledger_of(db: str) -> Iterator[Callable[[], Mapping[str, int]]]:
    """A function that counts the ledger of *db* anew each time."""
    store = outbox_store(db, StoreOptions(placer=places))
    with asyncio.Runner() as runner:
        runner.run(store.open())
        try:
            yield lambda: runner.run(store.ledger(None))
        finally:
            runner.run(store.close())


def wait_for(one: Gateway, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(1_200):
        try:
            _OPENER.open(f"http://127.0.0.1:{one.port}/readyz", timeout=5).close()
        except urllib.error.HTTPError as error:
            error.close()  # it answers, and is not ready yet
        except OSError:
            if process.poll() is not None:
                raise SystemExit(f"hooklane did not start:\n{log.read_text()}") from None
        else:
            return
        time.sleep(0.05)
    raise SystemExit("hooklane was not ready within 60 s")
