"""The server as an ASGI application: the API by its table of routes, the page, and what is mounted beside them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Mapping, Sequence
from time import monotonic

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response as PlainResponse
from starlette.responses import StreamingResponse
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from hooklane.errors import StoreError
from hooklane.model.audit import Act
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.size import size_text
from hooklane.server.api import ROUTES
from hooklane.server.arriving import ArrivingBodies, ArrivingBody, no_room
from hooklane.server.auth import Authenticator
from hooklane.server.call import Access, Call, Response, Route, parse_query
from hooklane.server.caller import NOBODY, TENANT_HEADER, Caller, tenant_of_call
from hooklane.server.compress import compressed
from hooklane.server.framing import CloseBeforeContinue
from hooklane.server.page import page_routes
from hooklane.server.problem import MEDIA, Problem, problem_of
from hooklane.server.refusals import Refusals
from hooklane.server.router import Router
from hooklane.server.services import Services

log = logging.getLogger("hooklane.api")

ALWAYS = {"x-content-type-options": "nosniff", "cache-control": "no-store", "hooklane-api": "v1"}
"""The last one tells a client that it has found a hooklane server, and not some other one."""
HELD_MAX = 256
"""So many answers to guesses are held back at a time: they must not fill the server."""
_DISCARD_BYTES_MAX = 1024 * 1024


class Api:
    """Answers the calls of the API: lets in, bounds the body, finds the route, and tells every failure as a problem."""

    def __init__(self, services: Services, auth: Authenticator, routes: Sequence[Route] = ROUTES) -> None:
        self.services = services
        self._auth = auth
        self._router = Router(routes)
        self._held = 0
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        response = await self._answer(scope, receive)
        try:
            await self._send(await compressed(response, _accepted(scope)), scope, receive, send)
        finally:
            if response.ended is not None:
                response.ended()

    async def _send(self, response: Response, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {"content-type": response.media, **ALWAYS}
        headers.update(response.headers)
        if response.status == 204:
            del headers["content-type"]
        answer: PlainResponse
        if response.stream is not None and scope["method"] != "HEAD":
            answer = StreamingResponse(response.stream, response.status, headers)
        else:
            answer = PlainResponse(response.body, response.status, headers)
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        held: ArrivingBody | None = None
        route: Route | None = None
        caller: Caller | None = None
        try:
            headers = _headers(scope)
            raw_path = scope["raw_path"].decode("ascii", "replace").partition("?")[0]
            route, params = self._router.find(scope["method"], raw_path)
            peer = (scope.get("client") or ("",))[0]
            caller = await self._auth.admit(scope["method"], headers, route.needs, peer)
            self._auth.permit(caller, route, params)
            tenant = await self._tenant(route, caller.tenant, headers)
            query = parse_query(scope["query_string"], route.query)
            held = ArrivingBody()
            body = await read_body(headers, receive, route.body_max, self.services.arriving, held)
            call = Call(
                self.services,
                params,
                query,
                headers,
                body,
                tenant=tenant,
                actor=caller.name,
                asks_key=not self._auth.is_open,
                caller=caller,
                peer=peer,
                auth=self._auth,
                routes=self._router.routes,
            )
            response = await (_while_asked(route.run(call), receive) if route.is_question else route.run(call))
            response.is_secret = response.is_secret or route.tells_secret
            return response
        except Exception as error:
            if route is not None and caller is not None:
                await self._write_down(error, route, caller)
            await self._hold_back(error)
            return problem_response(error)
        finally:
            if held is not None:
                self.services.arriving.drop(held)

    async def _tenant(self, route: Route, key_tenant: str | None, headers: Mapping[str, str]) -> str:
        """On whose data the call acts; a tenant that is not known yet is looked for in the store."""
        named = None if route.of_server else headers.get(TENANT_HEADER)
        if route.needs is not Access.KEY and named is None:
            return key_tenant or DEFAULT_TENANT  # health and documents answer also while the store does not
        await self.services.tenants.look_for(named or key_tenant or DEFAULT_TENANT)
        return tenant_of_call(key_tenant, named, self.services.tenants)

    async def _write_down(self, error: Exception, route: Route, caller: Caller) -> None:
        """A call that its caller may not make is on record, as far as that is no flood."""
        if not isinstance(error, Problem) or error.status != 403 or caller is NOBODY:
            return
        who = caller.session.id if caller.session is not None else caller.key_id or caller.name
        note = self._refusals.note(who, f"{route.method} {route.path}", monotonic())
        if note is not None:
            now, tenant = self.services.now(), caller.tenant or DEFAULT_TENANT
            act = Act(tenant=tenant, at=now, actor=caller.name, action="call.refused", subject=who, note=note)
            with contextlib.suppress(StoreError):  # it is refused whether or not that can be written
                await self.services.store.record(act)

    async def _hold_back(self, error: Exception) -> None:
        if isinstance(error, Problem) and error.delay_s and self._held < HELD_MAX:
            self._held += 1
            try:
                await asyncio.sleep(error.delay_s)
            finally:
                self._held -= 1


def _accepted(scope: Scope) -> str:
    return ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"accept-encoding")


def problem_response(error: Exception) -> Response:
    """An exception as the answer to the call that met it."""
    problem = problem_of(error)
    if problem.status == 500:
        log.error("a call failed unexpectedly", exc_info=error)
    return Response(problem.status, problem.body(), MEDIA, problem.headers)


def _headers(scope: Scope) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        text = name.decode("latin-1")
        if text in headers and text in ("authorization", "idempotency-key", "content-length", "host", TENANT_HEADER):
            raise Problem("bad_request", f"the header {text} may be given only once")
        headers[text] = value.decode("latin-1")
    return headers


async def _while_asked(answering: Awaitable[Response], receive: Receive) -> Response:
    """The answer to a question; where the client leaves before, the work on it ends too."""
    work = asyncio.ensure_future(answering)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Problem("bad_request", "the client went away before the answer")
        return work.result()
    finally:
        for one in (work, gone):
            one.cancel()
        await asyncio.gather(work, gone, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # a client that sends more than it announced


async def read_body(
    headers: Mapping[str, str], receive: Receive, most: int, arriving: ArrivingBodies, held: ArrivingBody
) -> bytes:
    """The body of a request, of at most *most* bytes, as *held* among those that arrive."""
    declared = headers.get("content-length", "0")
    chunks: list[bytes] = []
    size = 0
    held.give_up = chunks.clear
    too_large = not declared.isdigit() or int(declared) > most
    while not (too_large and "expect" in headers):  # a client that asks first does not send it
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem("bad_request", "the connection ended before the body was complete")
        chunk = message.get("body", b"")
        size += len(chunk)
        too_large = too_large or size > most
        if not too_large and chunk:
            if held.size != size - len(chunk) or not arriving.grow(held, len(chunk)):
                raise no_room()
            chunks.append(chunk)
        if not message.get("more_body", False):
            break
        # What is too large is thrown away unread for a while, so that the client gets to read the answer.
        if too_large and size > most + _DISCARD_BYTES_MAX:
            break
    if too_large:
        raise Problem(
            "too_large",
            f"the body is larger than {size_text(most)}, the most for this call",
            headers=[("connection", "close")],
        )
    if held.size != size:
        raise no_room()  # it had to give way after all
    arriving.complete(held)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def build_app(
    services: Services,
    auth: Authenticator,
    *,
    routes: Sequence[Route] = ROUTES,
    mounts: Mapping[str, ASGIApp] | None = None,
    ui: bool = True,
) -> Starlette:
    """The whole application; *mounts* are further ASGI applications by their path, such as an inbox."""
    api = Api(services, auth, routes)
    pages: list[BaseRoute] = page_routes(services.settings) if ui else []
    beside: list[BaseRoute] = [Mount(path, app) for path, app in (mounts or {}).items()]
    app = Starlette(
        routes=[*pages, *beside],
        middleware=[Middleware(CloseBeforeContinue)],
        exception_handlers={HTTPException: _wrong_method},
    )
    # Not mounted at "": a mount has a pattern for its paths, in which a line feed has no place.
    app.router.default = api
    app.router.redirect_slashes = False
    return app


async def _wrong_method(request: Request, error: Exception) -> PlainResponse:
    """What Starlette raises by itself: a method that a page does not know."""
    assert isinstance(error, HTTPException)
    response = problem_response(Problem("method_not_allowed", headers=list((error.headers or {}).items())))
    return PlainResponse(response.body, response.status, dict(response.headers), response.media)
