"""`hooklane dev`: sender, receiver and page on this machine, in one process, with nothing to set up."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hooklane import __version__
from hooklane.cli.options import Json
from hooklane.cli.output import counted, json_line, plain, say
from hooklane.cli.serve import Stoppable, routes_for, run_until_signalled
from hooklane.config import Origin, Settings, load
from hooklane.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hooklane.cli.process import Running
    from hooklane.server.services import Services
    from hooklane.telemetry.deliveries import Happening

DB = "sqlite:///.hooklane/dev.db"
LOOPBACK = ("127.0.0.0/8", "::1/128")
_MARKS = {"delivered": "✓", "retry": "↻", "dead": "✕"}


def add_to(app: typer.Typer) -> None:
    app.command()(dev)


def dev(
    forward_to: Annotated[str | None, typer.Option("--forward-to", metavar="URL", help="Deliver here.")] = None,
    port: Annotated[str | None, typer.Option("--port", help="The port to listen on; 8787 by default.")] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in a browser.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the data of earlier runs.")] = False,
    demo: Annotated[bool, typer.Option("--demo", help="With a producer and receivers to break and mend.")] = False,
    db: Annotated[str | None, typer.Option("--db", metavar="URL", help=f"{DB} by default.")] = None,
    as_json: Json = False,
) -> None:
    """Run everything on this machine, for development."""
    flags = {"db": db, "port": port, "host": "127.0.0.1", "no_auth": True, "role": "api,deliver", "playground": True}
    settings, origins = load(flags, os.environ)
    if _is_default(origins, "db"):
        settings, origins = load({**flags, "db": DB}, os.environ)
    allow = tuple(dict.fromkeys((*LOOPBACK, *settings.egress_allow)))
    settings, _ = load({**flags, "db": settings.db, "egress_allow": ",".join(allow)}, os.environ)
    run_until_signalled(
        lambda ready: _dev(settings, ready, forward_to, demo=demo, fresh=fresh, opens=not no_open, as_json=as_json),
        settings,
    )


async def _dev(
    settings: Settings,
    ready: Callable[[Stoppable], None],
    forward_to: str | None,
    *,
    demo: bool,
    fresh: bool,
    opens: bool,
    as_json: bool,
) -> None:
    from hooklane.cli.process import listen, running
    from hooklane.server.demo import Demo

    sock = listen(settings)  # first of all: a busy port must not cost the data of earlier runs
    if fresh:
        _forget(settings.db)
    setup = _DevSetup(Demo() if demo else None, settings)
    routes = (*routes_for(settings), *(setup.demo.routes() if setup.demo else ()))
    printer = _printer(as_json)
    async with running(settings, sock=sock, routes=routes, mounts=setup.mounts, listener=printer) as server:
        ready(server)
        await setup.set(server, forward_to)
        _banner(server, settings, setup)
        if opens and _has_screen():
            webbrowser.open(server.address)
        try:
            await server.ended()
        finally:
            await setup.clear()


class _DevSetup:
    """What `dev` puts round the server: receivers to deliver to, and a producer."""

    def __init__(self, demo: Any, settings: Settings) -> None:
        self.demo = demo
        self.forward: tuple[str, str] | None = None
        self._settings = settings
        self._apps: dict[str, ASGIApp] = {}
        self._inbox: Any = None
        self._producer: asyncio.Task[None] | None = None

    def mounts(self, services: Services) -> Mapping[str, ASGIApp]:
        async def route(scope: Any, receive: Any, send: Any) -> None:
            from starlette.responses import PlainTextResponse

            name = scope["path"].rpartition("/")[2]
            app = self._apps.get(name) or PlainTextResponse("not found", 404)
            await app(scope, receive, send)

        return {"/in": route}

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
            self._inbox = receiver(_beside(self._settings.db), secret)
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


def _banner(server: Running, settings: Settings, setup: _DevSetup) -> None:
    lines = [
        f"hooklane {__version__}  ·  data {settings.db.removeprefix('sqlite:///')} (kept between runs)",
        f"Dashboard    {server.address}",
    ]
    if setup.forward is not None:
        url, secret = setup.forward
        lines += [
            f"Send to      {server.address}/in/dev",
            f"Forward to   {url}",
            f"Secret       {secret}  (same after restart)",
            "Local only: no public URL. Put your own tunnel in front if a provider must reach it.",
        ]
    if setup.demo is None and setup.forward is None:
        lines.append("Send         hooklane send order.created '{\"id\": 1}' --key order:1")
    encoding = sys.stderr.encoding or "ascii"
    for line in lines:
        sys.stderr.write("  " + plain(line).encode(encoding, "replace").decode(encoding) + "\n")
    sys.stderr.flush()


def _printer(as_json: bool) -> Callable[[Happening], None]:
    from hooklane.server.attempt_views import settled_attempt
    from hooklane.telemetry.deliveries import Recorded

    def tell(happening: Happening) -> None:
        if isinstance(happening, Recorded):
            for settlement in happening.settlements:
                line = settled_attempt(settlement)
                if as_json:
                    sys.stdout.write(json_line({"v": 1, **line}))
                    sys.stdout.flush()
                else:
                    say(_line(line))

    return tell


def _line(one: Mapping[str, Any]) -> str:
    place = f"{plain(one['key'])} #{one['seq']}" if one["seq"] is not None else "no order"
    result = one["status"] or one["failure"] or "no answer"
    after = {
        "delivered": one["said"] or "",
        "retry": f"try {one['attempt']}/{one['attempts_max']}, {_next(one)}",
        "dead": f"dead after {counted(one['attempt'], 'try', 'tries')}",
    }[one["outcome"]]
    took = "?" if one["took_ms"] is None else one["took_ms"]
    mark = _MARKS[one["outcome"]] if (sys.stdout.encoding or "").lower().startswith("utf") else one["outcome"]
    return f"{one['started_at'][11:19]}  {mark} {one['type']:<18} {place:<16} {result!s:<8} {took:>6} ms   {after}"


def _next(one: Mapping[str, Any]) -> str:
    """When it is tried again; after a 410 only when the endpoint is resumed."""
    return f"next {one['next_at'][11:23]}" if one["next_at"] else "held: the endpoint is disabled"


def _has_screen() -> bool:
    """Whether a browser would open beside the terminal, and not in it."""
    if not sys.stdout.isatty():
        return False
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _is_default(origins: list[Origin], name: str) -> bool:
    return any(one.name == name and one.origin == "default" for one in origins)


def _beside(db: str) -> str:
    """Where the demo's receiver keeps its inbox: a file of its own, as another company would."""
    return f"{db.removesuffix('.db')}-inbox.db" if db.startswith("sqlite:///") else "memory://"


def _forget(db: str) -> None:
    if not db.startswith("sqlite:///"):
        raise UsageError("--fresh only works with SQLite: empty another database yourself")
    for url in (db, _beside(db)):
        path = Path(url.removeprefix("sqlite:///"))
        for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise UsageError(f"cannot remove {file}: {error.strerror}") from None
