"""The dashboard inside an application of yours, behind its own login: an ASGI application that can be mounted.

`hooklane.fastapi`, `hooklane.flask` and `hooklane.django` have a `dashboard(…)` each, which is made of this.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from hooklane.config import Secret, load
from hooklane.errors import HooklaneError, UsageError
from hooklane.server.caller import portal_pass
from hooklane.server.problem import MEDIA, Problem

if TYPE_CHECKING:
    from hooklane.cli.process import Running

log = logging.getLogger("hooklane.dashboard")

May = Callable[[Any], Any]
"""Given the framework's request: whether (true or false, or an awaitable of it) this person may come in."""

Tenant = str | Callable[..., Any]
"""Portal mode: whose customer this person is, or a function of the request that says it (None for no customer)."""

ASK_AGAIN_S = 30.0
"""How often the application is asked about a person who has the live stream open: a log-out ends it then."""
_STREAM = "/api/v1/stream"

_HIDDEN = (b"authorization", b"cookie", b"x-forwarded-host")
"""The application's own business: nothing of it reaches the dashboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a dashboard is mounted."""

    deliver: bool = False
    """Whether this process delivers too; otherwise a `hooklane serve` or a `Relay` elsewhere does."""
    playground: bool = False
    login_url: str | None = None
    """Where a browser without a login is sent."""
    behind_proxy: bool = False
    """Whether a proxy in front sets X-Forwarded-Host, which then is the host that browsers see."""
    egress_allow: Sequence[str] = ()
    tenant: Tenant | None = None
    """Portal mode: every person who comes in is a customer of this tenant, and may do what a customer may."""


class Dashboard:
    """One dashboard on the database *where*. It opens at its first request, in the event loop that brings it."""

    def __init__(self, where: str, may: May, options: Options) -> None:
        if not callable(may):
            raise UsageError("`may` must be a function that says of a request whether it may use the dashboard")
        self.may = may
        self._options = options
        self._key = secrets.token_urlsafe(32)
        flags = {
            "db": where,
            "role": "api,deliver" if options.deliver else "api",
            "playground": options.playground,
            "egress_allow": ",".join(options.egress_allow),
        }
        # From what it is given alone: the settings of a server beside it are not this application's.
        settings, _ = load(flags, {})
        self._settings = replace(settings, api_key=Secret(self._key))
        self._task: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[Running] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            raise UsageError(f"the dashboard answers http, not {scope['type']}")
        request = Request(scope, receive)
        is_in, tenant = await self._lets_in(request)
        if not is_in:
            await self.turn_away(scope)(scope, receive, send)
        elif scope["path"].endswith(_STREAM):
            await self._stream(request, send, tenant)
        else:
            await self.serve(scope, receive, send, tenant)

    async def _lets_in(self, request: Request) -> tuple[bool, Any]:
        """Whether this person may come in, as the application says, and as whose customer."""
        is_in = await _told(self.may(request))
        tenant = await _told(self.tenant_of(request)) if is_in else None
        return bool(is_in and (tenant or not self.in_portal)), tenant

    async def _stream(self, request: Request, send: Send, tenant: Any) -> None:
        """Answer with the live stream, for as long as its person may come in."""
        has_begun = False

        async def begin(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        work = asyncio.ensure_future(self.serve(request.scope, request.receive, begin, tenant))
        try:
            while not (await asyncio.wait([work], timeout=ASK_AGAIN_S))[0]:
                if has_begun and await self._lets_in(request) != (True, tenant) and not work.done():
                    work.cancel()
                    await asyncio.wait([work])
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                    return
            await work
        finally:
            work.cancel()

    @property
    def asked(self) -> dict[str, Any]:
        """What the application is asked, by the name of the option."""
        return {"may": self.may, "tenant": self._options.tenant}

    @property
    def in_portal(self) -> bool:
        return self._options.tenant is not None

    def tenant_of(self, *request: Any) -> Any:
        """Whose customer makes this request, as the application says; None without portal mode, and for no customer."""
        tenant = self._options.tenant
        return tenant(*request) if callable(tenant) else tenant

    def turn_away(self, scope: Scope) -> Response:
        """The answer to a request without a login: a browser that wants a page is sent to the login."""
        wants_page = b"text/html" in dict(scope["headers"]).get(b"accept", b"")
        if wants_page and self._options.login_url is not None and scope["method"] in ("GET", "HEAD"):
            return RedirectResponse(self._options.login_url, 303, headers={"cache-control": "no-store"})
        problem = Problem("login_required", "sign in to the application that this dashboard is part of")
        return Response(problem.body(), 401, {"cache-control": "no-store"}, MEDIA)

    async def serve(self, scope: Scope, receive: Receive, send: Send, tenant: str | None = None) -> None:
        """Answer a request that may come in, of a customer of *tenant* where this is a portal."""
        path, raw_path = _below(scope)
        if not path:
            # Relative, as all addresses of the page are: whatever stands before it, a proxy's prefix too, stays.
            here = scope["path"].rstrip("/").rpartition("/")[2]
            await RedirectResponse(f"{quote(here)}/", 308)(scope, receive, send)
            return
        try:
            running = await self._running()
        except (HooklaneError, OSError) as error:
            log.error("the dashboard cannot open its database: %s", error)
            problem = Problem("unavailable", f"the dashboard cannot open its database: {error}")
            await Response(problem.body(), 503, dict(problem.headers), MEDIA)(scope, receive, send)
            return
        inside = {**scope, "path": path, "raw_path": raw_path, "root_path": "", "headers": self._headers(scope, tenant)}
        inside.pop("router", None)
        await running.app(inside, receive, send)

    def _headers(self, scope: Scope, tenant: str | None) -> list[tuple[bytes, bytes]]:
        headers = list(scope["headers"])
        host = dict(headers).get(b"x-forwarded-host") if self._options.behind_proxy else None
        kept = [one for one in headers if one[0] not in _HIDDEN and not (host and one[0] == b"host")]
        if host:
            kept.append((b"host", host.split(b",")[0].strip()))
        key = portal_pass(self._key, tenant or "") if self.in_portal else self._key
        return [*kept, (b"authorization", f"Bearer {key}".encode())]

    # Opening and closing

    async def _running(self) -> Running:
        """What answers, in this event loop; opened anew where it failed, or where the loop is another one."""
        loop = asyncio.get_running_loop()
        task = self._task
        if task is None or task.done() or task.get_loop() is not loop:
            self._opened = loop.create_future()
            self._task = loop.create_task(self._run(self._opened), name="hooklane dashboard")
        assert self._opened is not None
        return await asyncio.shield(self._opened)

    async def _run(self, opened: asyncio.Future[Running]) -> None:
        from hooklane.cli.process import running
        from hooklane.cli.serve import routes_for

        try:
            async with running(self._settings, routes=routes_for(self._settings), listens=False) as one:
                opened.set_result(one)
                await one.ended()
        except Exception as error:
            if opened.done():
                log.exception("the dashboard ended; its next request opens it again")
            else:
                opened.set_exception(error)

    async def aclose(self) -> None:
        """Finish what is under way and let go of the database; also done when its event loop ends."""
        task, self._task = self._task, None
        if task is not None and not task.done() and task.get_loop() is asyncio.get_running_loop():
            if self._opened is not None and self._opened.done() and not self._opened.exception():
                self._opened.result().stop()
            else:
                task.cancel()
            await asyncio.wait([task])

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """For the lifespan of the application that mounts it: it opens at the start and closes at the end."""
        await self._running()
        try:
            yield
        finally:
            await self.aclose()

    async def _live(self, receive: Receive, send: Send) -> None:
        """Served on its own, it is told of start and end."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def _told(answer: Any) -> Any:
    """What a plain or an async function of the application says."""
    return granted(await answer if inspect.isawaitable(answer) else answer)


def granted(answer: Any) -> Any:
    """*answer* of the application, or None where it is a response: so decorators such as `login_required` turn a person
    away, and a redirect to the login counts as true."""
    is_pair = isinstance(answer, tuple) and len(answer) in (2, 3) and isinstance(answer[1], int)  # Flask's ("No", 401)
    is_response = hasattr(answer, "status_code") or (is_pair and 300 <= answer[1] <= 599)
    return None if is_response else answer


def _below(scope: Scope) -> tuple[str, bytes]:
    """Path and raw path below where the dashboard is mounted; servers and frameworks disagree on who cuts it off."""
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    raw: bytes = scope.get("raw_path") or quote(path, safe="/:@!$&'()*+,;=~").encode()
    raw = raw.partition(b"?")[0]
    if root and (path == root or path.startswith(f"{root}/")):
        path = path[len(root) :]
        # By segments: a prefix may be spelled in several ways in the raw path, but it has as many slashes in each.
        raw = b"".join(b"/" + one for one in raw.split(b"/")[1 + root.count("/") :])
    return path, raw


def made(where: str, may: Callable[..., Any], **options: Any) -> Dashboard:
    """A dashboard with the options of a framework's `dashboard(…)`."""
    return Dashboard(where, may, Options(**options))
