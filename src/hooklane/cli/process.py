"""How is a server run? Socket, store, relay and application, started in order and stopped in the reverse one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from hooklane.cli import scribe
from hooklane.cli.crew import Crew
from hooklane.cli.upkeep import Upkeep, jobs_for, room_for
from hooklane.config import Settings
from hooklane.core.fanout import Fanout
from hooklane.errors import UsageError
from hooklane.sender.egress import EgressGuard
from hooklane.sender.publisher import Publisher
from hooklane.sender.relay import Relay
from hooklane.sender.transport import Transport
from hooklane.server.api import ROUTES
from hooklane.server.app import build_app
from hooklane.server.auth import Door
from hooklane.server.call import Route
from hooklane.server.cursor import Cursors
from hooklane.server.gateway import Gateway
from hooklane.server.hub import Hub
from hooklane.server.ingest import IngestProtocol, protocol_for
from hooklane.server.metrics import Meter
from hooklane.store.open import Outbox, outbox_store
from hooklane.store.outbox import PublishReport, StoreOptions
from hooklane.telemetry.deliveries import Happening

DRAIN_MS = 10_000
OPEN_FILES = 16_384
SWEEP_S = 1.0


class Server(uvicorn.Server):
    """uvicorn, but for the signals: those belong to the command line."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@dataclass(slots=True)
class Running:
    """A server that listens; `stop` makes it finish what it does and end."""

    gateway: Gateway
    server: Server
    address: str
    _serving: asyncio.Task[None] | None = None
    _crew: Crew | None = None

    def stop(self) -> None:
        self.server.should_exit = True
        self.gateway.hub.close()
        if self._crew is not None:
            self._crew.stop()

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


def open_gateway(
    settings: Settings,
    store: Outbox,
    *,
    listener: Callable[[Happening], None] | None = None,
    deliver: bool = True,
    crew: Crew | None = None,
) -> Gateway:
    """Everything that answers calls, on a store that is open. Needs a running loop."""
    guard = EgressGuard(allow=settings.egress_allow)
    transport = Transport(guard)
    meter = Meter()
    hub = Hub(store, store.endpoints)

    def tell(happening: Happening) -> None:
        hub.listen(happening)
        meter.listen(happening)
        if listener is not None:
            listener(happening)

    relay = Relay(store, transport, listener=tell, grace_ms=DRAIN_MS) if deliver else None

    def feed(published: PublishReport) -> None:
        if relay is not None:
            relay.feed(published)
        elif crew is not None:
            crew.nudge()

    room = room_for(settings, store)
    gateway = Gateway(
        store=store,
        publisher=Publisher(store, feed, meter.count_published, room.refusal),
        guard=guard,
        transport=transport,
        hub=hub,
        meter=meter,
        cursors=Cursors(settings.api_key or settings.db),
        relay=relay,
        crew=crew,
        jobs=jobs_for(store, relay),
        room=room,
    )
    hub.circuits = gateway.circuits
    return gateway


def open_store(settings: Settings, *, busy: bool = False) -> Outbox:
    """*busy*: for a server, whose SQLite gets a process that writes, where there is a second core to run it."""
    extra = {"scribe": scribe.COMMAND} if busy and _cores() > 1 else {}
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
    mounts: Callable[[Gateway], Mapping[str, ASGIApp]] = lambda _: {},
    listener: Callable[[Happening], None] | None = None,
    crew: Crew | None = None,
) -> AsyncIterator[Running]:
    """A server that answers, and delivers itself or by its *crew*.

    Leaving the block stops it and waits until nothing is under way.
    """
    allow_open_files()
    sock = sock or listen(settings)
    store = open_store(settings, busy=True)
    await store.open()
    try:
        gateway = open_gateway(settings, store, listener=listener, deliver="deliver" in settings.role, crew=crew)
        async with asyncio.TaskGroup() as group:
            relaying = group.create_task(gateway.relay.run(), name="relay") if gateway.relay is not None else None
            manning = group.create_task(crew.run(gateway.meter.tally.absorb), name="crew") if crew is not None else None
            watching = group.create_task(gateway.hub.run(), name="hub")
            upkeep = Upkeep(settings, store, gateway.jobs, gateway.room)
            keeping = group.create_task(upkeep.run(), name="upkeep")
            server = _server(settings, gateway, routes, mounts(gateway))
            serving = group.create_task(server.serve(sockets=[sock]), name="http")
            sweeping = group.create_task(_sweep(server), name="sweep connections")
            host, port = sock.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            one = Running(gateway, server, f"http://{shown}:{port}", serving, crew)
            try:
                await server.listening.wait()
                yield one
            finally:
                one.stop()
                await serving
                sweeping.cancel()
                upkeep.stop()
                await keeping
                await gateway.publisher.close()
                if gateway.relay is not None and relaying is not None:
                    gateway.relay.stop()
                    await relaying
                if manning is not None:
                    await manning
                await watching
                await gateway.transport.close(DRAIN_MS)
    finally:
        await store.close()


def _server(settings: Settings, gateway: Gateway, routes: Sequence[Route], mounts: Mapping[str, ASGIApp]) -> Server:
    door = Door(None if settings.no_auth else settings.api_key, on_loopback=settings.is_loopback)
    app = build_app(gateway, door, routes=routes, mounts=mounts, ui=settings.ui)
    config = uvicorn.Config(
        app,
        http=protocol_for(gateway, door, asyncio.get_running_loop().time),
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
        for connection in list(server.server_state.connections):
            if isinstance(connection, IngestProtocol):
                connection.sweep(now)
