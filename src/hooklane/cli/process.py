"""A server process: socket, store, relay and application, started in order and stopped in the reverse one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from hooklane.cli import writer_process
from hooklane.cli.http_server import Server, allow_open_files, listen, sweep
from hooklane.cli.maintenance import Maintenance, jobs_for, publish_limits_for
from hooklane.cli.worker_processes import WorkerProcesses
from hooklane.config import Settings, seal_key_bytes
from hooklane.core.fanout import Fanout
from hooklane.errors import StoreBusy
from hooklane.model.clock import boot_now
from hooklane.sender.courier import Courier
from hooklane.sender.egress import EgressGuard
from hooklane.sender.feeding import feed_of
from hooklane.sender.lost import PublishedPlaces
from hooklane.sender.operational import OperationalEvents
from hooklane.sender.publisher import Publisher
from hooklane.sender.relay import BEGIN_WAIT_MS, Relay
from hooklane.sender.tenant_directory import TenantDirectory
from hooklane.sender.transport import Transport
from hooklane.server.api import ROUTES
from hooklane.server.app import build_app
from hooklane.server.auth import Authenticator
from hooklane.server.call import Route
from hooklane.server.cursor import Cursors
from hooklane.server.endpoint_facts import FactsOfEndpoints
from hooklane.server.event_types import TypeRules
from hooklane.server.inbox_sources import sources_of
from hooklane.server.inbox_tally import InboxTally
from hooklane.server.ingest import protocol_for
from hooklane.server.kept import Kept
from hooklane.server.key_ring import KeyRing
from hooklane.server.live_streams import LiveStreams
from hooklane.server.metrics import Meter
from hooklane.server.recent_attempts import RecentAttempts
from hooklane.server.series import Series
from hooklane.server.services import Services
from hooklane.server.sessions import Sessions
from hooklane.server.topics import topics_of
from hooklane.server.totals import Totals
from hooklane.store.open import Outbox, outbox_store
from hooklane.store.outbox import StoreOptions
from hooklane.store.sealed_outbox import SealedOutbox
from hooklane.store.sealing import SealKeys
from hooklane.telemetry import tracing
from hooklane.telemetry.deliveries import Happening
from hooklane.telemetry.json_log import AttemptLog

log = logging.getLogger("hooklane.server")

DRAIN_MS = 10_000
JOIN_S_MAX = 2.0


@dataclass(slots=True)
class Running:
    """A server that listens; `stop` makes it finish what it does and end."""

    services: Services
    server: Server
    address: str
    _serving: asyncio.Task[None] | None = None
    _workers: WorkerProcesses | None = None

    def stop(self) -> None:
        self.server.exit()
        self.services.live_stream.close()
        if self._workers is not None:
            self._workers.stop()

    @property
    def app(self) -> ASGIApp:
        return cast(ASGIApp, self.server.config.app)

    async def ended(self) -> None:
        assert self._serving is not None
        await asyncio.shield(self._serving)


def open_services(
    settings: Settings,
    store: Outbox,
    *,
    listener: Callable[[Happening], None] | None = None,
    deliver: bool = True,
    workers: WorkerProcesses | None = None,
    courier: Callable[[Courier], Courier] = lambda transport: transport,
) -> Services:
    """Everything that answers calls, on a store that is open. Needs a running loop.

    *courier*: what stands between the relay and the transport.
    """
    guard = EgressGuard(allow=settings.egress_allow)
    transport = Transport(guard)
    meter = Meter()
    totals = Totals(store)
    live_stream = LiveStreams(store, totals)

    recent = RecentAttempts(live_stream.attempted)
    attempt_log = AttemptLog() if settings.log_format == "json" else None

    def tell(happening: Happening) -> None:
        live_stream.listen(happening)
        recent.listen(happening)
        meter.listen(happening)
        operational.listen(happening)
        if tracing.active is not None:
            tracing.active.listen(happening)
        if attempt_log is not None:
            attempt_log(happening)
        if listener is not None:
            listener(happening)

    relay = (
        Relay(store, courier(transport), listener=tell, name=settings.worker_name, grace_ms=DRAIN_MS)
        if deliver
        else None
    )

    series = Series(store, meter, totals)
    tally = InboxTally()
    feed = feed_of(relay, workers.nudge if workers is not None else None)
    published = PublishedPlaces(store, tell, feed) if relay is None else None
    feed = published.feed if published is not None else feed
    tenants = TenantDirectory(store)
    limits = publish_limits_for(settings, store, tenants)
    operational = OperationalEvents(store.publish, store.endpoints, feed)
    if limits.tenants is not None:
        limits.tenants.reached = operational.quota_reached
    services = Services(
        settings=settings,
        store=store,
        publisher=Publisher(store, feed, meter.count_published, limits.refusal),
        guard=guard,
        transport=transport,
        live_stream=live_stream,
        meter=meter,
        totals=totals,
        series=series,
        facts=FactsOfEndpoints(store, series, totals, transport.certificates),
        recent=recent,
        causes=Kept(store.causes, "causes of death"),
        inbox_sources=Kept(lambda _: sources_of(store, tally), "sources of the inbox"),
        inbox_tally=tally,
        cursors=Cursors(settings.api_key or settings.db),
        relay=relay,
        workers=workers,
        jobs=jobs_for(store, relay),
        publish_limits=limits,
        tenants=tenants,
        operational=operational,
        published=published,
        keys=KeyRing(store),
        sessions=Sessions(store, os.urandom),
        types=TypeRules(store),
        features=("playground",) if settings.playground else (),
    )
    live_stream.breakers = services.breakers
    live_stream.ask_for = lambda tenant: topics_of(services, tenant)
    live_stream.hears_all = relay is not None
    return services


def open_store(settings: Settings, *, busy: bool = False) -> Outbox:
    """*busy*: for a server, whose SQLite gets a process that writes, where there is a second core to run it."""
    extra = {"writer_process": writer_process.COMMAND} if busy and _cores() > 1 else {}
    store = outbox_store(settings.db, StoreOptions(placer=Fanout(), extra=extra))
    return cast(Outbox, SealedOutbox(store, SealKeys([seal_key_bytes(key) for key in settings.seal_key])))


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.asynccontextmanager
async def running(
    settings: Settings,
    *,
    sock: socket.socket | None = None,
    routes: Sequence[Route] = ROUTES,
    mounts: Mapping[str, ASGIApp] | None = None,
    listener: Callable[[Happening], None] | None = None,
    workers: WorkerProcesses | None = None,
    courier: Callable[[Courier], Courier] = lambda transport: transport,
    listens: bool = True,
) -> AsyncIterator[Running]:
    """A server that answers, and delivers itself or by its *workers*.

    Leaving the block stops it and waits until nothing is under way. Where it does not *listen*, another application
    in this process hands its `app` the requests.
    """
    if listens:
        allow_open_files()
        sock = sock or listen(settings)
    store = open_store(settings, busy=listens)
    await _opened(store)
    try:
        services = open_services(
            settings,
            store,
            listener=listener,
            deliver="deliver" in settings.role,
            workers=workers,
            courier=courier,
        )
        await services.tenants.look()
        await services.types.look()
        async with asyncio.TaskGroup() as group:
            # It takes its time, beside what else begins. A list that is asked for sooner derives it for itself.
            group.create_task(asyncio.to_thread(lambda: services.cursors.key), name="key of cursors")
            relaying = group.create_task(services.relay.run(), name="relay") if services.relay is not None else None
            manning = group.create_task(workers.run(services.absorb), name="workers") if workers is not None else None
            watching = group.create_task(services.live_stream.run(), name="live_stream")
            recording = group.create_task(services.series.run(), name="figures over time")
            maintenance = Maintenance(settings, services, tenants=True)
            keeping = group.create_task(maintenance.run(), name="maintenance")
            ringing = group.create_task(services.keys.run(), name="keys")
            ruling = group.create_task(services.types.run(), name="event types")
            server = _server(settings, services, routes, mounts)
            http = server.wait() if sock is None else server.serve(sockets=[sock])
            serving = group.create_task(http, name="http")
            sweeping = group.create_task(sweep(server), name="sweep connections")
            one = Running(services, server, _address(sock), serving, workers)
            try:
                await server.listening.wait()
                await _joined(services.relay)
                yield one
            finally:
                one.stop()
                await serving
                sweeping.cancel()
                services.keys.stop()
                services.types.stop()
                await ringing
                await ruling
                maintenance.stop()
                await keeping
                await services.publisher.close()
                if services.relay is not None and relaying is not None:
                    services.relay.stop()
                    await relaying
                if manning is not None:
                    await manning
                await watching
                services.series.stop()
                await recording
                await services.transport.close(DRAIN_MS)
    finally:
        await store.close()


def _address(sock: socket.socket | None) -> str:
    if sock is None:
        return ""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _opened(store: Outbox) -> None:
    """A transaction elsewhere may hold a SQLite file that has to be made or migrated: it is waited for, for a while."""
    until, told = boot_now() + BEGIN_WAIT_MS, False
    while True:
        try:
            return await store.open()
        except StoreBusy as error:
            if boot_now() > until:
                raise
            if not told:
                log.warning(
                    "the server does not begin yet, tried again for up to %d s: %s", BEGIN_WAIT_MS // 1000, error
                )
            told = True


async def _joined(relay: Relay | None) -> None:
    """A worker that may not deliver, since another process does, is told of before the server is. A slow store is not
    waited for: what is published is kept, and `/readyz` says that nothing is delivered yet."""
    if relay is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(JOIN_S_MAX):
                await relay.joined()


def _server(
    settings: Settings, services: Services, routes: Sequence[Route], mounts: Mapping[str, ASGIApp] | None
) -> Server:
    auth = Authenticator(
        None if settings.no_auth else settings.api_key,
        on_loopback=settings.is_loopback,
        ring=services.keys,
        sessions=services.sessions,
        public_url=settings.public_url,
    )
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
