"""A server process: socket, store, relay and application, started in order and stopped in the reverse one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from hooklane.cli import writer_process
from hooklane.cli.maintenance import Maintenance, jobs_for, publish_limits_for
from hooklane.cli.worker_processes import WorkerProcesses
from hooklane.config import Settings
from hooklane.core.fanout import Fanout
from hooklane.errors import UsageError
from hooklane.sender.egress import EgressGuard
from hooklane.sender.feeding import feed_of
from hooklane.sender.operational import OperationalEvents
from hooklane.sender.publisher import Publisher
from hooklane.sender.relay import Relay
from hooklane.sender.tenant_directory import TenantDirectory
from hooklane.sender.transport import Transport
from hooklane.sender.transport.open_files import open_files_now
from hooklane.server.api import ROUTES
from hooklane.server.app import build_app
from hooklane.server.auth import Authenticator
from hooklane.server.call import Route
from hooklane.server.cursor import Cursors
from hooklane.server.ingest import IngestProtocol, protocol_for
from hooklane.server.listener import Listener
from hooklane.server.live_streams import LiveStreams
from hooklane.server.metrics import Meter
from hooklane.server.services import Services
from hooklane.server.totals import Totals
from hooklane.store.open import Outbox, outbox_store
from hooklane.store.outbox import StoreOptions
from hooklane.telemetry.deliveries import Happening

DRAIN_MS = 10_000
OPEN_FILES = 16_384
SWEEP_S = 1.0
JOIN_S_MAX = 2.0


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which the command line has, and with a `Listener` that accepts."""

    listeners: Sequence[Listener] = ()

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does it, but a `Listener` accepts the connections."""
        assert sockets is not None
        await self.lifespan.startup()
        self.listeners = [Listener(sock, self._protocol, open_files_now().clients) for sock in sockets]
        self.servers = cast(Any, self.listeners)  # it closes them
        self.started = True
        self.listening.set()

    def _protocol(self, lost: Callable[[], None]) -> asyncio.Protocol:
        protocol: IngestProtocol = cast(Any, self.config.http_protocol_class)(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        protocol.lost = lost
        return protocol

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(slots=True)
class Running:
    """A server that listens; `stop` makes it finish what it does and end."""

    services: Services
    server: Server
    address: str
    _serving: asyncio.Task[None] | None = None
    _workers: WorkerProcesses | None = None

    def stop(self) -> None:
        self.server.should_exit = True
        self.services.live_stream.close()
        if self._workers is not None:
            self._workers.stop()

    async def ended(self) -> None:
        assert self._serving is not None
        await asyncio.shield(self._serving)


def allow_open_files() -> None:
    """As many as the system lets us have: the usual 1,024 are fewer connections than a busy sender holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(settings: Settings) -> socket.socket:
    """The listening socket, or one clear line about why there is none."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((settings.host, settings.port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise UsageError(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from None
    sock.setblocking(False)
    return sock


def open_services(
    settings: Settings,
    store: Outbox,
    *,
    listener: Callable[[Happening], None] | None = None,
    deliver: bool = True,
    workers: WorkerProcesses | None = None,
) -> Services:
    """Everything that answers calls, on a store that is open. Needs a running loop."""
    guard = EgressGuard(allow=settings.egress_allow)
    transport = Transport(guard)
    meter = Meter()
    totals = Totals(store)
    live_stream = LiveStreams(store, totals)

    def tell(happening: Happening) -> None:
        live_stream.listen(happening)
        meter.listen(happening)
        operational.listen(happening)
        if listener is not None:
            listener(happening)

    relay = Relay(store, transport, listener=tell, name=settings.worker_name, grace_ms=DRAIN_MS) if deliver else None

    feed = feed_of(relay, workers.nudge if workers is not None else None)
    tenants = TenantDirectory(store)
    limits = publish_limits_for(settings, store, tenants)
    operational = OperationalEvents(store.publish, store.endpoints, feed)
    if limits.tenants is not None:
        limits.tenants.reached = operational.quota_reached
    services = Services(
        store=store,
        publisher=Publisher(store, feed, meter.count_published, limits.refusal),
        guard=guard,
        transport=transport,
        live_stream=live_stream,
        meter=meter,
        totals=totals,
        cursors=Cursors(settings.api_key or settings.db),
        relay=relay,
        workers=workers,
        jobs=jobs_for(store, relay),
        publish_limits=limits,
        tenants=tenants,
        operational=operational,
    )
    live_stream.breakers = services.breakers
    live_stream.hears_all = relay is not None
    return services


def open_store(settings: Settings, *, busy: bool = False) -> Outbox:
    """*busy*: for a server, whose SQLite gets a process that writes, where there is a second core to run it."""
    extra = {"writer_process": writer_process.COMMAND} if busy and _cores() > 1 else {}
    return outbox_store(settings.db, StoreOptions(placer=Fanout(), extra=extra))


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.asynccontextmanager
async def running(
    settings: Settings,
    *,
    sock: socket.socket | None = None,
    routes: Sequence[Route] = ROUTES,
    mounts: Callable[[Services], Mapping[str, ASGIApp]] = lambda _: {},
    listener: Callable[[Happening], None] | None = None,
    workers: WorkerProcesses | None = None,
) -> AsyncIterator[Running]:
    """A server that answers, and delivers itself or by its *workers*.

    Leaving the block stops it and waits until nothing is under way.
    """
    allow_open_files()
    sock = sock or listen(settings)
    store = open_store(settings, busy=True)
    await store.open()
    try:
        services = open_services(
            settings, store, listener=listener, deliver="deliver" in settings.role, workers=workers
        )
        await services.tenants.look()
        await asyncio.to_thread(lambda: services.cursors.key)  # which takes its time
        async with asyncio.TaskGroup() as group:
            relaying = group.create_task(services.relay.run(), name="relay") if services.relay is not None else None
            manning = (
                group.create_task(workers.run(services.meter.tally.absorb), name="workers")
                if workers is not None
                else None
            )
            watching = group.create_task(services.live_stream.run(), name="live_stream")
            maintenance = Maintenance(
                settings, store, services.jobs, services.publish_limits, services.operational, services.tenants
            )
            keeping = group.create_task(maintenance.run(), name="maintenance")
            server = _server(settings, services, routes, mounts(services))
            serving = group.create_task(server.serve(sockets=[sock]), name="http")
            sweeping = group.create_task(_sweep(server), name="sweep connections")
            host, port = sock.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            one = Running(services, server, f"http://{shown}:{port}", serving, workers)
            try:
                await server.listening.wait()
                await _joined(services.relay)
                yield one
            finally:
                one.stop()
                await serving
                sweeping.cancel()
                maintenance.stop()
                await keeping
                await services.publisher.close()
                if services.relay is not None and relaying is not None:
                    services.relay.stop()
                    await relaying
                if manning is not None:
                    await manning
                await watching
                await services.transport.close(DRAIN_MS)
    finally:
        await store.close()


async def _joined(relay: Relay | None) -> None:
    """A worker that may not deliver, since another process does, is told of before the server is. A slow store is not
    waited for: what is published is kept, and `/readyz` says that nothing is delivered yet."""
    if relay is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JOIN_S_MAX):
                await relay.joined()


def _server(settings: Settings, services: Services, routes: Sequence[Route], mounts: Mapping[str, ASGIApp]) -> Server:
    auth = Authenticator(None if settings.no_auth else settings.api_key, on_loopback=settings.is_loopback)
    app = build_app(services, auth, routes=routes, mounts=mounts, ui=settings.ui)
    config = uvicorn.Config(
        app,
        http=protocol_for(services, auth, asyncio.get_running_loop().time),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    return Server(config)


async def _sweep(server: Server) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(SWEEP_S)
        now = loop.time()
        is_full = any(listener.is_full for listener in server.listeners)
        for connection in list(server.server_state.connections):
            if isinstance(connection, IngestProtocol):
                connection.sweep(now, hurry=is_full)
