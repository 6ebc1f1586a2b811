"""`hooklane serve`: the server as a process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Protocol

import typer

from hooklane.cli import output
from hooklane.cli.exits import Exit
from hooklane.cli.options import EgressAllow
from hooklane.cli.output import Level, say_json, talk
from hooklane.config import ROLES, Settings, load
from hooklane.errors import Broken, HooklaneError, MissingExtra, UsageError
from hooklane.model.database_url import shown
from hooklane.telemetry.json_log import JsonFormatter

log = logging.getLogger("hooklane")

LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
SWITCH_S = 0.001
END_S = 30.0
"""A process that has failed ends after this at the latest, whatever still hangs in it."""


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
    playground: Annotated[
        bool, typer.Option("--playground", help="Answer the playground's calls too; they take time of this process.")
    ] = False,
    egress_allow: EgressAllow = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON once it serves.")] = False,
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
            "playground": True if playground else None,
            "egress_allow": egress_allow,
        },
        os.environ,
    )
    check_auth(settings)
    settings = check_roles(settings)
    check_workers(settings)
    run_until_signalled(lambda ready: _serve(settings, ready, as_json), settings)


def check_auth(settings: Settings) -> None:
    """Refuse to start a server that every client in the network may command."""
    if settings.no_auth and not settings.is_loopback:
        raise UsageError(
            f"--no-auth only works on the loopback (127.0.0.1), not on {settings.host}: set HOOKLANE_API_KEY"
        )
    if not settings.no_auth and settings.api_key is None:
        raise UsageError(
            "no API key is set: set HOOKLANE_API_KEY (or HOOKLANE_API_KEY_FILE), or use --no-auth on the loopback"
        )


def check_roles(settings: Settings) -> Settings:
    """The settings with the roles that a server carries out. It cannot be an inbox: it has no handlers to run."""
    if "inbox" not in settings.role:
        return settings
    why = "`serve` cannot run the role inbox, since handlers are your code: run `hooklane inbox worker MODULE:INBOX`"
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
        raise UsageError("--workers needs the role deliver: add deliver to --role")


async def _serve(settings: Settings, ready: Callable[[Stoppable], None], as_json: bool) -> None:
    from hooklane.cli.process import running
    from hooklane.cli.worker_processes import WorkerProcesses

    workers, mine = None, settings
    if settings.workers > 1:
        workers = WorkerProcesses(settings)
        mine = replace(settings, role=tuple(role for role in settings.role if role != "deliver"))
    async with running(mine, workers=workers, routes=routes_for(settings)) as server:
        with_ = f" with {settings.workers} workers" if workers is not None else ""
        talk(f"serving {', '.join(settings.role)} on {server.address}, data in {shown(settings.db)}{with_}")
        if not settings.seal_key:
            talk("secrets of endpoints are kept as plain text in the database: set HOOKLANE_SEAL_KEY to seal them")
        if as_json:
            say_json({"address": server.address, "role": settings.role, "workers": settings.workers})
        ready(server)
        await server.ended()


def routes_for(settings: Settings) -> tuple[Any, ...]:
    """The table of routes: the playground's among them where it is switched on."""
    from hooklane.server.api import ROUTES

    if not settings.playground:
        return ROUTES
    from hooklane.cli.playground import Playground

    return (*ROUTES, *Playground(settings.egress_allow).routes())


class Stoppable(Protocol):
    """What runs in this process: a server, or a worker of one."""

    def stop(self) -> None:
        """Finish what is under way, and end."""


Work = Callable[[Callable[[Stoppable], None]], Awaitable[None]]
"""Runs something, and tells by the callable when it can be stopped."""


def run_until_signalled(work: Work, settings: Settings) -> None:
    """Run a server in this process until SIGINT, SIGTERM or SIGHUP, then let it finish what it does."""
    wanted = {Level.QUIET: "WARNING", Level.NORMAL: settings.log_level.upper(), Level.VERBOSE: "DEBUG"}[output.level]
    end_tracing = _set_up_telemetry(settings, wanted)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    gc.disable()  # until the server is ready: hundreds of modules are made, and nothing of them goes away
    try:
        import uvicorn  # noqa: F401

        from hooklane.cli.http_server import Server  # noqa: F401
    except ImportError as error:
        raise MissingExtra(error.name or "the server", "server") from None
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(_guarded(work))
        except ExceptionGroup as group:
            raise _cause_of(group) from None
        except HooklaneError:
            raise
        except Exception as error:
            raise _broken(error) from error
        finally:
            gc.enable()
            end_tracing()


def _without_traceback(record: logging.LogRecord) -> bool:
    """A database that is away is told in one line. Its pool tells it at each try, with thirty lines of its own code."""
    if record.exc_info and (error := record.exc_info[1]) is not None:
        record.msg, record.args = f"{record.getMessage()}: {error}", None
        record.exc_info = record.exc_text = None
    return True


def _set_up_telemetry(settings: Settings, level: str) -> Callable[[], None]:
    """Logs of *level* in the format that was asked for, and spans where they are; call the result at the end."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else logging.Formatter(LOG_LINE))
    logging.basicConfig(level=level, handlers=[handler])
    logging.getLogger("asyncpg.pool").addFilter(_without_traceback)
    if not settings.otel:
        return lambda: None
    from hooklane.telemetry.otel import export_over_http

    return export_over_http()


async def _guarded(work: Work) -> None:
    loop = asyncio.get_running_loop()
    servers: list[Stoppable] = []
    told: list[int] = []

    def stop(number: int) -> None:
        if number != signal.SIGHUP and told.count(signal.SIGHUP) < len(told):
            os._exit(128 + number)  # a second signal: end at once
        told.append(number)
        for server in servers:
            server.stop()
        if not servers and task is not None:
            task.cancel()

    def ready(server: Stoppable) -> None:
        servers.append(server)
        gc.freeze()  # what exists now lives as long as the process: the collector need not look at it again
        # A look at everything takes 20 ms with thousands of lanes, in which no request is served, and hardly ever finds
        # anything: what ends here is freed at once, by its count.
        gc.set_threshold(10_000, 20, 1_000)
        gc.enable()
        # The thread that writes and the loop that serves take turns: neither keeps the other for a whole delivery.
        sys.setswitchinterval(SWITCH_S)
        if told:
            server.stop()

    failed: list[Exception] = []

    def unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception in a callback or a task that no code awaits; in what delivers, it ends the process."""
        loop.default_exception_handler(context)
        error = context.get("exception")
        is_lost = "handle" in context or "future" in context or "task" in context  # else it was dealt with in place
        if is_lost and isinstance(error, Exception) and _delivers(error) and task is not None and not failed:
            failed.append(error)
            loop.call_later(END_S, os._exit, Exit.BROKEN)
            task.cancel()

    task = asyncio.current_task()
    loop.set_exception_handler(unhandled)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Under `nohup` the terminal may go, and the server stays.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    try:
        await work(ready)
    except asyncio.CancelledError:
        if not told and not failed:
            raise  # else: told to stop before it had begun
    if failed:
        raise _broken(failed[0])


def _cause_of(group: ExceptionGroup[Any]) -> HooklaneError:
    """The cause of a group of failed tasks that a person can act on; else that it is a bug of ours, in one line."""
    errors = list(_leaves(group))
    ours = [error for error in errors if isinstance(error, HooklaneError)]
    return ours[0] if ours else _broken(errors[0])


def _delivers(error: Exception) -> bool:
    """Whether *error* went through what delivers. A bug in what answers one connection ends that connection alone."""
    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(name.startswith(("hooklane.sender.", "hooklane.core.engine")) for name in frames)


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _broken(error: Exception) -> Broken:
    log.critical("a part of the server failed, so all of it ends", exc_info=error)
    return Broken("a part of the server", error)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None  # slower, and right all the same
    return uvloop.new_event_loop
