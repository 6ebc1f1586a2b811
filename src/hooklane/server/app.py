"""The server as an ASGI application: the API by its table of routes, the page, and what is mounted beside them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from starlette.applications import Starlette
from starlette.responses import Response as PlainResponse
from starlette.responses import StreamingResponse
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from hooklane.server.api import ROUTES
from hooklane.server.auth import Door
from hooklane.server.call import Call, Response, Route, parse_query
from hooklane.server.gateway import Gateway
from hooklane.server.page import page_routes
from hooklane.server.problem import MEDIA, Problem, problem_of
from hooklane.server.router import Router

log = logging.getLogger("hooklane.api")

_DISCARD_BYTES_MAX = 1024 * 1024


class Api:
    """Answers the calls of the API: lets in, bounds the body, finds the route, and tells every failure as a problem."""

    def __init__(self, gateway: Gateway, door: Door, routes: Sequence[Route] = ROUTES) -> None:
        self.gateway = gateway
        self._door = door
        self._router = Router(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        response = await self._answer(scope, receive)
        headers = {"content-type": response.media, "x-content-type-options": "nosniff", "cache-control": "no-store"}
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
        try:
            headers = _headers(scope)
            raw_path = scope["raw_path"].decode("ascii", "replace").partition("?")[0]
            route, params = self._router.find(scope["method"], raw_path)
            self._door.admit(scope["method"], headers, route.needs)
            query = parse_query(scope["query_string"], route.query)
            body = await _body(headers, receive, route.body_max)
            return await route.run(Call(self.gateway, params, query, headers, body))
        except Exception as error:
            return told(error)


def told(error: Exception) -> Response:
    """An exception as the answer to the call that met it."""
    problem = problem_of(error)
    if problem.status == 500:
        log.error("a call failed unexpectedly", exc_info=error)
    return Response(problem.status, problem.body(), MEDIA, problem.headers)


def _headers(scope: Scope) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        text = name.decode("latin-1")
        if text in headers and text in ("authorization", "idempotency-key", "content-length", "host"):
            raise Problem("bad_request", f"the header {text} is there twice")
        headers[text] = value.decode("latin-1")
    return headers


async def _body(headers: Mapping[str, str], receive: Receive, most: int) -> bytes:
    declared = headers.get("content-length", "0")
    chunks: list[bytes] = []
    size = 0
    too_large = not declared.isdigit() or int(declared) > most
    while not (too_large and "expect" in headers):  # who asks first need not be heard
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem("bad_request", "the connection ended before the body was complete")
        chunk = message.get("body", b"")
        size += len(chunk)
        too_large = too_large or size > most
        if not too_large:
            chunks.append(chunk)
        if not message.get("more_body", False):
            break
        # What is too large is thrown away unread for a while, so that the client gets to read the answer.
        if too_large and size > most + _DISCARD_BYTES_MAX:
            break
    if too_large:
        raise Problem("too_large", f"the body may have {most} bytes", headers=[("connection", "close")])
    return b"".join(chunks)


def build_app(
    gateway: Gateway,
    door: Door,
    *,
    routes: Sequence[Route] = ROUTES,
    mounts: Mapping[str, ASGIApp] | None = None,
    ui: bool = True,
) -> Starlette:
    """The whole application; *mounts* are further ASGI applications by their path, such as an inbox."""
    api = Api(gateway, door, routes)
    pages: list[BaseRoute] = page_routes() if ui else []
    beside: list[BaseRoute] = [Mount(path, app) for path, app in (mounts or {}).items()]
    return Starlette(routes=[*pages, *beside, Mount("", api)])
