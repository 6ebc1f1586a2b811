"""`hooklane serve`: the server as a process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any, Protocol

import typer

from hooklane.cli.options import EgressAllow
from hooklane.cli.output import talk
from hooklane.config import ROLES, Settings, load
from hooklane.errors import ConfigError, MissingExtra, UsageError

SWITCH_S = 0.001


def add_to(app: typer.Typer) -> None:
    app.command()(serve)


def serve(
    db: Annotated[str | None, typer.Option("--db", metavar="URL", help="sqlite:///path or postgresql://…")] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.")] = None,
    port: Annotated[str | None, typer.Option("--port", help="The port to listen on; 0 for any.")] = None,
    role: Annotated[
        str | None, typer.Option("--role", help=f"Some of {','.join(ROLES)}; api,deliver by default.")
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option("--workers", metavar="N", help="Deliver in so many processes (PostgreSQL); 1 is this one."),
    ] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Ask for no key; only on the loopback.")] = False,
    no_ui: Annotated[bool, typer.Option("--no-ui", help="Serve the API without the page.")] = False,
    egress_allow: EgressAllow = None,
) -> None:
    """Take events, keep them, deliver them in order."""
    settings, _ = load(
        {
            "db": db,
            "host": host,
            "port": port,
            "role": role,
            "workers": workers,
            "no_auth": True if no_auth else None,
            "ui": False if no_ui else None,
            "egress_allow": egress_allow,
        },
        os.environ,
    )
    check_door(settings)
    settings = check_roles(settings)
    check_workers(settings)
    run_until_told(lambda ready: _serve(settings, ready), settings)


def check_door(settings: Settings) -> None:
    """Refuse to start a server that anybody may command."""
    if settings.no_auth and not settings.is_loopback:
        raise UsageError(f"--no-auth only works on the loopback, not on {settings.host}: set HOOKLANE_API_KEY")
    if not settings.no_auth and settings.api_key is None:
        raise UsageError("set HOOKLANE_API_KEY (or HOOKLANE_API_KEY_FILE), or use --no-auth on the loopback")


def check_roles(settings: Settings) -> Settings:
    """The settings with the roles that a server carries out. It cannot be an inbox: it has no handlers to run."""
    if "inbox" not in settings.role:
        return settings
    why = "the role inbox does nothing here, since handlers are code of yours: run `hooklane inbox worker MODULE:INBOX`"
    others = tuple(role for role in settings.role if role != "inbox")
    if not others:
        raise UsageError(why)
    talk(why)
    return replace(settings, role=others)


def check_workers(settings: Settings) -> None:
    """Refuse workers where there is nothing for them to do."""
    if settings.workers == 1:
        return
    if settings.db.startswith("sqlite:"):
        raise UsageError("--workers needs PostgreSQL: one process at a time delivers from a SQLite file")
    if "deliver" not in settings.role:
        raise UsageError("--workers are processes that deliver: add deliver to --role")


async def _serve(settings: Settings, ready: Callable[[Stoppable], None]) -> None:
    from hooklane.cli.crew import Crew
    from hooklane.cli.process import running

    crew, mine = None, settings
    if settings.workers > 1:
        crew = Crew(settings)
        mine = replace(settings, role=tuple(role for role in settings.role if role != "deliver"))
    async with running(mine, crew=crew) as server:
        with_ = f" with {settings.workers} workers" if crew is not None else ""
        talk(f"serving {', '.join(settings.role)} on {server.address}, data in {_shown(settings.db)}{with_}")
        ready(server)
        await server.ended()


class Stoppable(Protocol):
    """What runs in this process: a server, or a worker of one."""

    def stop(self) -> None:
        """Finish what is under way, and end."""


Work = Callable[[Callable[[Stoppable], None]], Awaitable[None]]
"""Runs something, and tells by the callable when it can be stopped."""


def run_until_told(work: Work, settings: Settings) -> None:
    """Run a server in this process until SIGINT or SIGTERM, then let it finish what it does."""
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    try:
        import uvicorn  # noqa: F401

        from hooklane.cli.process import Server  # noqa: F401
    except ImportError as error:
        raise MissingExtra(error.name or "the server", "server") from None
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(_guarded(work))
        except ExceptionGroup as group:
            raise _first_of_ours(group) from None


async def _guarded(work: Work) -> None:
    loop = asyncio.get_running_loop()
    servers: list[Stoppable] = []
    told: list[int] = []

    def stop(number: int) -> None:
        told.append(number)
        if len(told) > 1:
            os._exit(128 + number)  # told twice: whoever it is does not want to wait
        for server in servers:
            server.stop()
        if not servers and task is not None:
            task.cancel()

    def ready(server: Stoppable) -> None:
        servers.append(server)
        gc.freeze()  # what exists now lives as long as the process: the collector need not look at it again
        # A look at everything takes 20 ms with thousands of lanes, in which nobody is served, and hardly ever finds
        # anything: what ends here is freed at once, by its count.
        gc.set_threshold(10_000, 20, 1_000)
        # The thread that writes and the loop that serves take turns: neither keeps the other for a whole delivery.
        sys.setswitchinterval(SWITCH_S)
        if told:
            server.stop()

    task = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        await work(ready)
    except asyncio.CancelledError:
        if not told:
            raise  # else: told to stop before it had begun


def _first_of_ours(group: ExceptionGroup[Any]) -> Exception:
    """The cause of a group of failed tasks that a person can act on, or the group itself."""
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            error = _first_of_ours(error)
        if isinstance(error, UsageError | ConfigError) or type(error).__module__ == "hooklane.errors":
            return error
    return group


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None  # slower, and right all the same
    return uvloop.new_event_loop


def _shown(db: str) -> str:
    """A database's URL without the password in it."""
    head, at, tail = db.rpartition("@")
    return f"{head.split('://')[0]}://…@{tail}" if at else db
