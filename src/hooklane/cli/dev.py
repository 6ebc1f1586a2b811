"""`hooklane dev`: sender, receiver and page on this machine, in one process, with nothing to set up."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hooklane.cli.hot_keys import HotKeys
from hooklane.cli.output import end_with
from hooklane.cli.serve import Stoppable, routes_for, run_until_signalled
from hooklane.config import Origin, Settings, load
from hooklane.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hooklane.cli.process import Running
    from hooklane.sender.courier import Courier

DB = "sqlite:///.hooklane/dev.db"
LOOPBACK = ("127.0.0.0/8", "::1/128")


def dev(
    forward_to: Annotated[str | None, typer.Option("--forward-to", metavar="URL", help="Deliver here.")] = None,
    port: Annotated[str | None, typer.Option("--port", help="The port to listen on; 8787 by default.")] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the data of earlier runs.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="With a producer and receivers to break and mend.")] = False,
    db: Annotated[str | None, typer.Option("--db", metavar="URL", help=f"{DB} by default.")] = None,
) -> None:
    """Run everything on this machine, for development."""
    flags = {"db": db, "port": port, "host": "127.0.0.1", "no_auth": True, "role": "api,deliver", "playground": True}
    settings, origins = load(flags, os.environ)
    if _is_default(origins, "db"):
        settings, origins = load({**flags, "db": DB}, os.environ)
    allow = tuple(dict.fromkeys((*LOOPBACK, *settings.egress_allow)))
    settings, _ = load({**flags, "db": settings.db, "egress_allow": ",".join(allow)}, os.environ)
    unprinted: list[OSError] = []
    run_until_signalled(
        lambda ready: _dev(settings, ready, forward_to, unprinted, demo=demo, fresh=fresh, opens=not no_open),
        settings,
    )
    if unprinted:
        end_with(unprinted[0])


async def _dev(
    settings: Settings,
    ready: Callable[[Stoppable], None],
    forward_to: str | None,
    unprinted: list[OSError],
    *,
    demo: bool,
    fresh: bool,
    opens: bool,
) -> None:
    """*unprinted* takes why nothing more can be printed, which ends it."""
    from hooklane.cli.dev_keys import DevKeys
    from hooklane.cli.dev_screen import Printer, banner, print_banner
    from hooklane.cli.faults import FaultyCourier
    from hooklane.cli.http_server import listen
    from hooklane.cli.process import running
    from hooklane.server.demo import Demo

    sock = listen(settings)  # first of all: a busy port must not cost the data of earlier runs
    if fresh:
        _forget(settings.db)
    setup = _DevSetup(Demo() if demo else None, settings)
    routes = (*routes_for(settings), *(setup.demo.routes() if setup.demo else ()))
    printer = Printer(unprinted)
    couriers: list[FaultyCourier] = []

    def faulty(transport: Courier) -> Courier:
        couriers.append(FaultyCourier(transport))
        return couriers[0]

    async with running(
        settings, sock=sock, routes=routes, mounts={"/in": setup.receive}, listener=printer, courier=faulty
    ) as server:
        stoppable = _WithKeys(server)
        printer.stop = stoppable.stop
        stoppable.keys = HotKeys(
            DevKeys(server.services, server.address, couriers[0], printer, stoppable.stop).actions()
        )
        ready(stoppable)
        if unprinted:
            stoppable.stop()  # it was over before there was anything to stop
        await setup.set(server, forward_to)
        has_keys = HotKeys.can_be_pressed()
        lines = await asyncio.to_thread(banner, server.address, settings.db, setup.forward, is_demo=demo, keys=has_keys)
        print_banner(lines)
        if opens and _has_screen():
            webbrowser.open(f"{server.address}/lanes" if demo else server.address)
        stoppable.keys.start()
        try:
            await server.ended()
        finally:
            stoppable.keys.stop()
            await setup.clear()


class _WithKeys:
    """The server and the keys that are pressed beside it: at the first signal the terminal is put back, whatever
    the rest takes."""

    keys: HotKeys

    def __init__(self, server: Running) -> None:
        self._server = server

    def stop(self) -> None:
        self.keys.stop()
        self._server.stop()


class _DevSetup:
    """What `dev` puts round the server: receivers to deliver to, and a producer."""

    def __init__(self, demo: Any, settings: Settings) -> None:
        self.demo = demo
        self.forward: tuple[str, str] | None = None
        self._settings = settings
        self._apps: dict[str, ASGIApp] = {}
        self._inbox: Any = None
        self._producer: asyncio.Task[None] | None = None

    async def receive(self, scope: Any, receive: Any, send: Any) -> None:
        """What is mounted at `/in`: one receiver a name."""
        from starlette.responses import PlainTextResponse

        name = scope["path"].rpartition("/")[2]
        app = self._apps.get(name) or PlainTextResponse("not found", 404)
        await app(scope, receive, send)

    async def set(self, server: Running, forward_to: str | None) -> None:
        from hooklane.server.auth import Authenticator

        services = server.services
        if forward_to is not None:
            from hooklane.cli.forward import ensure_forward
            from hooklane.server.forwarding import forwarding_app

            endpoint = await ensure_forward(services, forward_to)
            self.forward = (endpoint.url, endpoint.keys[0].secret)
            self._apps["dev"] = forwarding_app(services, Authenticator(None, on_loopback=True), endpoint.id)
        if self.demo is not None:
            from hooklane.asgi import app
            from hooklane.server.demo import BILLING, SHOP, ensure_endpoints, kept_secret, receiver

            secret = await kept_secret(services)
            # In the server's own database, so that the dashboard shows both sides.
            self._inbox = receiver(self._settings.db, secret, services.inbox_tally)
            services.inbox_tally.rules.update(
                {
                    name: (source.rules.retention_ms, source.profile.budget.window_ms)
                    for name, source in self._inbox.sources.items()
                }
            )
            for name in (SHOP, BILLING):
                self._apps[name] = self.demo.gate(name, app(self._inbox))
            await ensure_endpoints(services, server.address, secret)
            services.features += ("demo",)
            self._producer = asyncio.create_task(self.demo.produce(services), name="demo producer")

    async def clear(self) -> None:
        if self._producer is not None:
            self._producer.cancel()
            with suppress(asyncio.CancelledError):
                await self._producer
        if self._inbox is not None:
            await asyncio.to_thread(self._inbox.close)


def _has_screen() -> bool:
    """Whether a browser would open beside the terminal, and not in it."""
    if not sys.stdout.isatty():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _is_default(origins: list[Origin], name: str) -> bool:
    return any(one.name == name and one.origin == "default" for one in origins)


def _forget(db: str) -> None:
    if not db.startswith("sqlite:///"):
        raise UsageError("--fresh only works with SQLite: empty another database yourself")
    from hooklane.store.sqlite.database import path_of
    from hooklane.store.sqlite.outbox.store import lock_delivery

    path = Path(path_of(db))
    if not path.exists():
        return
    if others := _tables_of_others(path):
        named = ", ".join(others[:3])
        raise UsageError(f"--fresh would remove {path} with tables that are not hooklane's ({named}): do that yourself")
    lock = lock_delivery(str(path))  # one that runs has it, whichever port it listens on
    try:
        for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot remove {path}: {error.strerror}") from None
    finally:
        os.close(lock)


def _tables_of_others(path: Path) -> list[str]:
    """The tables in a SQLite file that hooklane has not made. What cannot be read is nobody's to remove."""
    import sqlite3

    from hooklane.store.sql.queries import queries_of

    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            return [name for (name,) in file.execute(queries_of("hooklane.store.sqlite")["tables_of_others"])]
    except sqlite3.Error as error:
        raise UsageError(f"--fresh would remove {path}, which cannot be read ({error}): do that yourself") from None
