"""A cluster on hosts of its own: PostgreSQL with a synchronous standby, API servers, workers and endpoints."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.faults.crash.serving import Nursery, Server, is_alive
from tests.faults.crash.traffic import Client, Place, Receiver
from tests.support.clock_shim import ClockShim
from tests.support.failover import Pair, synchronous_pair
from tests.support.hosts import Network
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresServer
from tests.support.processes import Child
from tests.support.tree import SOURCE

PORT = 8780
KEY = "hl_key_of_the_hosts_of_a_test_that_is_long_enough"
AUTH = f"authorization: Bearer {KEY}\r\n"
APIS, WORKERS, DATABASES, ENDPOINTS = ("api1", "api2"), ("worker1", "worker2"), ("db1", "db2"), ("shop", "mill")
PRODUCERS, POOLER, ANNEX = "producers", "pooler", "annex"
LEASE_MS = 2_000
DISK_BYTES = 512 * 1024 * 1024
"""Of each database: small enough to be filled in a moment."""
COMMIT_WAIT_S = 2.0
"""Shorter than in use, so that commits are given up while a standby or a link is away."""


class Cluster:
    """Processes on hosts, to be killed, frozen, cut off and started again."""

    def __init__(
        self, network: Network, pair: Pair, nursery: Nursery, folder: Path, clocks: dict[str, ClockShim]
    ) -> None:
        self.network = network
        self.pair = pair
        self.clocks = clocks
        self.servers: dict[str, Server] = {}
        self.receivers: dict[str, Receiver] = {}
        self.pooler: PgBouncer | None = None
        self._nursery = nursery
        self._folder = folder
        self._starts = 0

    @property
    def places(self) -> list[Place]:
        return [self.place(name) for name in APIS]

    def place(self, name: str) -> Place:
        return (self.network[name].address, PORT, AUTH)

    @property
    def db(self) -> str:
        """What API servers and workers use: both databases in one URL, or the pooler before them."""
        return self.pair.url() if self.pooler is None else self.pooler.url

    async def serve(self, name: str) -> None:
        """Start the server of that host, and wait until it answers there."""
        host = self.network[name]
        self._starts += 1
        log = self._folder / f"{self._starts}-{name}.log"
        options = {"db": self.db, "host": host.address, "port": str(PORT), "no_ui": True}
        options |= {"role": "api" if name in APIS else "deliver", "egress_allow": "10.77.0.0/16"}
        env = {"HOOKLANE_API_KEY": KEY, "CLOCK_SHIM": self.clocks[name].env["CLOCK_SHIM"]}
        pid = await self._nursery.start(
            options, log=log, env=env, host=host, lease_ms=LEASE_MS, commit_wait_s=COMMIT_WAIT_S
        )
        self.servers[name] = Server(pid, PORT, log, host.address)

    async def restart(self, name: str) -> None:
        await self.servers[name].kill()
        await self.serve(name)

    async def keep_alive(self) -> None:
        """What a supervisor does: a server that has ended is started again."""
        for name, server in self.servers.items():
            if not is_alive(server.pid):
                await self.serve(name)

    async def stop(self) -> None:
        for server in self.servers.values():
            if is_alive(server.pid):
                server.thaw()
                await server.kill()

    async def call(self, method: str, path: str, body: object = None) -> Any:
        client = Client(self.place(APIS[0]))
        try:
            status, answer = await client.call(method, f"/api/v1/{path}", body)
        finally:
            client.close()
        assert status < 300, answer
        return answer

    async def command(self, *words: str) -> bool:
        """Whether `hooklane` with those words, run at the first API server's host, succeeds."""
        host = self.network[APIS[0]]
        command = [*host.enter, sys.executable, "-m", "hooklane", *words, "--db", self.db]
        self._starts += 1
        with Child(command, log=self._folder / f"{self._starts}-command.log", env={"PYTHONPATH": SOURCE}) as child:
            return await asyncio.to_thread(child.wait, within_s=60) == 0

    # --- faults of whole hosts ---

    @contextmanager
    def full_disk(self, server: PostgresServer) -> Iterator[None]:
        """No byte is free on the disk of that database for a while; what ended meanwhile is started again."""
        filler = server.data.parent / "filler"
        try:
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(DISK_BYTES // 512)):
                    pass
            yield
        finally:
            filler.unlink()
            server.revive()

    async def fail_over(self, *, rewound: bool) -> None:
        """The primary's host is gone, the standby is promoted, and the host comes back as the standby of that one."""
        gone = DATABASES[0] if self.pair.primary.address.host == self.network[DATABASES[0]].address else DATABASES[1]
        self.network.isolate(gone)
        await asyncio.to_thread(self.pair.fail_over)
        if self.pooler is not None:
            self.pooler.point_at(self.pair.primary.address)
        self.network.join(gone)
        await asyncio.to_thread(self.pair.come_back, rewound=rewound)


@contextmanager
def small_disk(at: Path) -> Iterator[Path]:
    """A disk that can be filled in a moment, seen by this process and what it starts."""
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


@asynccontextmanager
async def cluster(folder: Path, *, major: int | None = None, pooled: bool = False) -> AsyncIterator[Cluster]:
    """A cluster that serves; its endpoints take what comes."""
    clocks = {}
    for name in (*APIS, *WORKERS, *DATABASES):
        (folder / name).mkdir()
        clocks[name] = ClockShim(folder / name)
    places = (*APIS, *WORKERS, *DATABASES, *((POOLER,) if pooled else ()))
    with Network(folder, here=(PRODUCERS, *ENDPOINTS, ANNEX), there=places) as network:
        one, two = (network[name] for name in DATABASES)
        envs = clocks[DATABASES[0]].env, clocks[DATABASES[1]].env
        with (
            small_disk(folder / "disk1") as here,
            small_disk(folder / "disk2") as there,
            synchronous_pair(major, hosts=(one, two), envs=envs, folders=(here, there)) as pair,
        ):
            preload = {"LD_PRELOAD": clocks[APIS[0]].env["LD_PRELOAD"]}
            nursery = await Nursery.open(preload)
            made = Cluster(network, pair, nursery, folder, clocks)
            try:
                if pooled:
                    made.pooler = PgBouncer(network[POOLER], folder)
                    made.pooler.point_at(pair.primary.address)
                for name in (*APIS, *WORKERS):
                    await made.serve(name)
                for name in (*APIS, *WORKERS):
                    await made.servers[name].ready()
                yield made
            finally:
                await made.stop()
                if made.pooler is not None:
                    made.pooler.close()
                await nursery.close()
