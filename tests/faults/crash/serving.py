"""`hooklane serve` in processes to be killed, stalled and started again, for tests in an event loop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.hosts import Host
from tests.support.pace import scaled_s
from tests.support.processes import free_port
from tests.support.tree import ROOT

WITHIN_S = 60.0


class Nursery:
    """Makes servers quickly; see nursery.py."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._is_own = env is not None
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.crash.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
        )

    @classmethod
    async def open(cls, env: Mapping[str, str] | None = None) -> Nursery:
        """The one of this process, or with an *env* of its own another one."""
        return _lasting(os.getpid()) if env is None else cls(env)

    async def start(
        self,
        options: dict[str, Any],
        *,
        log: Path,
        env: dict[str, str],
        host: Host | None = None,
        **limits: float | None,
    ) -> int:
        """The pid of a new process that serves with those *options* of the command line, and *limits* of its code."""
        wanted: dict[str, Any] = {"options": options, "env": env, "log": str(log)}
        wanted |= {"host": [host.name, host.namespace]} if host is not None else {}
        wanted |= {name: limit for name, limit in limits.items() if limit is not None}
        async with asyncio.timeout(scaled_s(WITHIN_S)):
            return await asyncio.to_thread(self._ask, json.dumps(wanted).encode() + b"\n")

    def _ask(self, line: bytes) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._one_at_a_time:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            return int(self._process.stdout.readline())

    async def close(self) -> None:
        if self._is_own:
            await asyncio.to_thread(self._process.communicate)


@cache
def _lasting(_owner: int) -> Nursery:
    """For all tests of this process, with which it ends."""
    return Nursery()


class Server:
    """One process that serves; it answers on *port* once `ready`."""

    def __init__(self, pid: int, port: int, log: Path, address: str = "127.0.0.1") -> None:
        self.pid = pid
        self.address = address
        self.port = port
        self.log = log

    async def ready(self) -> None:
        """Until it answers: then its start is over, and it owns its partitions, or soon will.

        The port is open before the store is. A start that meets a crash of the database ends with a line about it.
        """
        async with asyncio.timeout(scaled_s(WITHIN_S)):
            while not await self._answers():
                assert is_alive(self.pid), f"it ended before it answered:\n{self.log.read_text()}"
                await asyncio.sleep(0.003)

    async def _answers(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection(self.address, self.port)
        except OSError:
            return False
        try:
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            return await reader.read(1) != b""
        except OSError:
            return False
        finally:
            writer.close()

    async def kill(self) -> None:
        """kill -9, and until it is gone with all its sockets and locks; one that found no database has ended before."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        await self.ended()

    async def stop(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        await self.ended()

    async def ended(self) -> None:
        async with asyncio.timeout(scaled_s(WITHIN_S)):
            while is_alive(self.pid):  # noqa: ASYNC110 - it is no child of ours: nobody tells us
                await asyncio.sleep(0.002)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class Site:
    """A place to serve from: a database, a port that stays, and the servers that were started on it."""

    def __init__(self, nursery: Nursery, db: str, folder: Path) -> None:
        self._nursery = nursery
        self.db = db
        self._folder = folder
        self._servers: list[Server] = []
        self.port = free_port()

    async def serve(
        self,
        *,
        failpoints: str = "",
        role: str | None = None,
        port: int | None = None,
        lease_ms: int | None = None,
        commit_wait_s: float | None = None,
    ) -> Server:
        port = self.port if port is None else port
        log = self._folder / f"serve-{len(self._servers)}.log"
        options = {"db": self.db, "port": str(port), "role": role, "no_auth": True, "no_ui": True}
        options["egress_allow"] = "127.0.0.0/8"
        env = {"HOOKLANE_FAILPOINTS": failpoints}
        pid = await self._nursery.start(options, log=log, env=env, lease_ms=lease_ms, commit_wait_s=commit_wait_s)
        server = Server(pid, port, log)
        self._servers.append(server)
        return server

    async def close(self) -> None:
        for server in self._servers:
            if is_alive(server.pid):
                server.thaw()
                await server.kill()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
