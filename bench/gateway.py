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
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from bench import tree
from bench.machine import Cost, cost_of, free_port, peak_rss_mb
from hooklane.core.fanout import places
from hooklane.errors import SearchTooLong
from hooklane.store.open import Outbox, outbox_store
from hooklane.store.outbox import StoreOptions

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
COUNTS_MAX = 5
_OWED = ("queued", "in_flight", "retrying")


@dataclass(frozen=True, slots=True)
class Gateway:
    port: int
    pid: int
    count: Callable[[], Mapping[str, int]] | None = None
    """The ledger as the store counts it at this moment; that of the API may be seconds old."""
    ready_s: float = 0.0
    """From the start of its process until it said that it is ready."""

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

    def drain(self, owed_max: int = 0, *, pause_s: float = 0.02) -> dict[str, int]:
        """The ledger, once no more than *owed_max* deliveries are owed; asked every *pause_s* at the most."""
        return self.drain_counted(owed_max, pause_s=pause_s)[0]

    def drain_counted(
        self, owed_max: int = 0, within_s: float = 120.0, *, pause_s: float = 0.02
    ) -> tuple[dict[str, int], int]:
        """The same, and how often the ledger was asked for until then.

        Counting goes through every lane of the store: with many of them, no more than half of the time goes into it.
        """
        deadline, asked = time.monotonic() + within_s, 0
        while True:
            began = time.monotonic()
            ledger, asked = self.ledger(), asked + 1
            took_s = time.monotonic() - began
            owed = sum(ledger[state] for state in _OWED)
            if owed <= owed_max:
                return ledger, asked
            if time.monotonic() > deadline:
                raise SystemExit(f"{owed} deliveries are still owed after {within_s:g} s")
            # What stays owed is not waited for.
            time.sleep(min(1.0, max(took_s, pause_s + (owed - owed_max) / 100_000)))

    @property
    def cost(self) -> Cost:
        return cost_of(self.pid)

    @property
    def peak_rss_mb(self) -> float:
        return peak_rss_mb(self.pid)


class Calls:
    """One connection to the server for what is set up."""

    def __init__(self, port: int, tenant: str = "default") -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"hooklane-tenant": tenant, "content-type": "application/json"}

    def post(self, path: str, body: Any = None) -> Any:
        self._connection.request("POST", path, None if body is None else json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if not 200 <= answer.status < 300:
            raise SystemExit(f"POST {path} was answered {answer.status}: {text.decode(errors='replace')}")
        return json.loads(text)


@contextmanager
def gateway(
    db: str, folder: Path, *, role: str | None = None, host: str | None = None, open_files: int | None = None
) -> Iterator[Gateway]:
    """A server on *db* that is ready; as if on another *host*, and with at most so many *open_files*."""
    port = free_port()
    command = [sys.executable, "-m", "hooklane", "serve", "--db", db, "--port", str(port), "--no-auth"]
    if host is not None:
        # Both commands become what they start, so the pid stays.
        command = [*_named_host(), "sh", "-c", 'hostname "$0" && exec "$@"', host, *command]
    if open_files is not None:
        command = ["prlimit", f"--nofile={open_files}", *command]
    if role is not None:
        command += ["--role", role]
    env = {**os.environ, "HOOKLANE_EGRESS_ALLOW": "127.0.0.0/8"}
    with (folder / f"gateway-{port}.log").open("wb") as log:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            wait_for(Gateway(port, process.pid), process, Path(log.name))
            ready_s = time.perf_counter() - began
            tree.check(process.pid)
            with ledger_of(db) as count:
                yield Gateway(port, process.pid, count, ready_s)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _named_host() -> list[str]:
    """A namespace of its own in which the machine may have another name."""
    return ["unshare", "--uts"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--uts"]


async def _ledger(store: Outbox) -> Mapping[str, int]:
    """On a busy machine counting may take longer than a person would wait: then once more."""
    for left in reversed(range(COUNTS_MAX)):
        try:
            return await store.ledger(None)
        except SearchTooLong:
            if not left:
                raise
    raise AssertionError("unreachable")


@contextmanager
def ledger_of(db: str) -> Iterator[Callable[[], Mapping[str, int]]]:
    """A function that counts the ledger of *db* anew each time."""
    store = outbox_store(db, StoreOptions(placer=places))
    with asyncio.Runner() as runner:
        runner.run(store.open())
        try:
            yield lambda: runner.run(_ledger(store))
        finally:
            runner.run(store.close())


def wait_for(one: Gateway, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(6_000):
        try:
            _OPENER.open(f"http://127.0.0.1:{one.port}/readyz", timeout=5).close()
        except urllib.error.HTTPError as error:
            error.close()  # it answers, and is not ready yet
        except OSError:
            if process.poll() is not None:
                raise SystemExit(f"hooklane did not start:\n{log.read_text()}") from None
        else:
            return
        time.sleep(0.01)
    raise SystemExit("hooklane was not ready within 60 s")
