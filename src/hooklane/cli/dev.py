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
from hooklane.cli.output import json_line, plain, say
from hooklane.cli.serve import Stoppable, run_until_told
from hooklane.config import Origin, Settings, load
from hooklane.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hooklane.cli.process import Running
    from hooklane.server.gateway import Gateway
    from hooklane.telemetry.deliveries import Happening

DB = "sqlite:///.hooklane/dev.db"
LOOPBACK = ("127.0.0.0/8", "::1/128")
_MARKS = {"delivered": "✓", "retry": "↻", "dead": "✕", "skipped": "⤼", "gone": "✕"}


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
    flags = {"db": db, "port": port, "host": "127.0.0.1", "no_auth": True, "role": "api,deliver"}
    settings, origins = load(flags, os.environ)
    if _is_default(origins, "db"):
        settings, origins = load({**flags, "db": DB}, os.environ)
    allow = tuple(dict.fromkeys((*LOOPBACK, *settings.egress_allow)))
    settings, _ = load({**flags, "db": settings.db, "egress_allow": ",".join(allow)}, os.environ)
    run_until_told(
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
    from hooklane.server.api import ROUTES
    from hooklane.server.demo import Demo

    sock = listen(settings)  # first of all: a busy port must not cost anybody their data
    if fresh:
        _forget(settings.db)
    stage = _Stage(Demo() if demo else None, settings)
    routes = (*ROUTES, *(stage.demo.routes() if stage.demo else ()))
    printer = _printer(as_json)
    async with running(settings, sock=sock, routes=routes, mounts=stage.mounts, listener=printer) as server:
        ready(server)
        await stage.set(server, forward_to)
        _banner(server, settings, stage)
        if opens and _has_screen():
            webbrowser.open(server.address)
        try:
            await server.ended()
        finally:
            await stage.clear()


class _Stage:
    """What `dev` puts round the server: receivers to deliver to, and a producer."""

    def __init__(self, demo: Any, settings: Settings) -> None:
        self.demo = demo
        self.forward: tuple[str, str] | None = None
        self._settings = settings
        self._apps: dict[str, ASGIApp] = {}
        self._inbox: Any = None
        self._producer: asyncio.Task[None] | None = None

    def mounts(self, gateway: Gateway) -> Mapping[str, ASGIApp]:
        async def route(scope: Any, receive: Any, send: Any) -> None:
            from starlette.responses import PlainTextResponse

            name = scope["path"].rpartition("/")[2]
            app = self._apps.get(name) or PlainTextResponse("not found", 404)
            await app(scope, receive, send)

        return {"/in": route}

    async def set(self, server: Running, forward_to: str | None) -> None:
        from hooklane.server.auth import Door

        gateway = server.gateway
        if forward_to is not None:
            from hooklane.cli.forward import ensure_forward
            from hooklane.server.intake import intake

            endpoint = await ensure_forward(gateway, forward_to)
            self.forward = (endpoint.url, endpoint.keys[0].secret)
            self._apps["dev"] = intake(gateway, Door(None, on_loopback=True), endpoint.id)
        if self.demo is not None:
            from hooklane.asgi import app
            from hooklane.server.demo import BILLING, SHOP, ensure_endpoints, kept_secret, receiver

            secret = await kept_secret(gateway)
            self._inbox = receiver(_beside(self._settings.db), secret)
            for name in (SHOP, BILLING):
                self._apps[name] = self.demo.gate(name, app(self._inbox))
            await ensure_endpoints(gateway, server.address, secret)
            gateway.features = ("demo",)
            self._producer = asyncio.create_task(self.demo.produce(gateway), name="demo producer")

    async def clear(self) -> None:
        if self._producer is not None:
            self._producer.cancel()
            with suppress(asyncio.CancelledError):
                await self._producer
        if self._inbox is not None:
            await asyncio.to_thread(self._inbox.close)


def _banner(server: Running, settings: Settings, stage: _Stage) -> None:
    lines = [
        f"hooklane {__version__}  ·  data {settings.db.removeprefix('sqlite:///')} (kept between runs)",
        f"Dashboard    {server.address}",
    ]
    if stage.forward is not None:
        url, secret = stage.forward
        lines += [
            f"Send to      {server.address}/in/dev",
            f"Forward to   {url}",
            f"Secret       {secret}  (same after restart)",
            "Local only: no public URL. Put your own tunnel in front if a provider must reach it.",
        ]
    if stage.demo is None and stage.forward is None:
        lines.append("Send         hooklane send order.created '{\"id\": 1}' --key order:1")
    encoding = sys.stderr.encoding or "ascii"
    for line in lines:
        sys.stderr.write("  " + plain(line).encode(encoding, "replace").decode(encoding) + "\n")
    sys.stderr.flush()


def _printer(as_json: bool) -> Callable[[Happening], None]:
    from hooklane.server.picture import attempt_of
    from hooklane.telemetry.deliveries import Recorded

    def tell(happening: Happening) -> None:
        if isinstance(happening, Recorded):
            for settlement in happening.settlements:
                line = attempt_of(settlement)
                if as_json:
                    sys.stdout.write(json_line(line))
                    sys.stdout.flush()
                else:
                    say(_line(line))

    return tell


def _line(one: Mapping[str, Any]) -> str:
    place = f"{plain(one['key'])} #{one['seq']}" if one["seq"] is not None else "no order"
    result = one["status"] or one["failure"] or "no answer"
    after = {
        "delivered": one["receiver"] or "",
        "retry": f"try {one['try']}/{one['tries_max']}, next {str(one['next'])[11:23]}",
        "dead": f"dead after {one['try']} tries",
    }.get(one["outcome"], one["outcome"])
    mark = _MARKS[one["outcome"]] if (sys.stdout.encoding or "").lower().startswith("utf") else one["outcome"]
    return f"{one['ts'][11:19]}  {mark} {one['type']:<18} {place:<16} {result!s:<8} {one['ms']:>6} ms   {after}"


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
        raise UsageError("--fresh only forgets SQLite files")
    for url in (db, _beside(db)):
        path = Path(url.removeprefix("sqlite:///"))
        for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise UsageError(f"cannot remove {file}: {error.strerror}") from None
