"""The receiver in FastAPI: `app.include_router(router(inbox), prefix="/webhooks")`; and the dashboard, mounted."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from hooklane.asgi import TooLarge, read_request, working
from hooklane.errors import MissingExtra, needing
from hooklane.model.message import Reply
from hooklane.receiver.inbox import Inbox

try:
    from fastapi import APIRouter, Request, Response
except ImportError as error:
    raise MissingExtra("fastapi", "fastapi") from error


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hooklane.dashboard import Dashboard

METHODS = ["POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]
"""All: which of them a provider's greeting may use is the profile's business, and so is the answer to the others."""


def router(inbox: Inbox, *, worker: bool = True) -> APIRouter:
    """A router that answers `POST …/{source}` and the providers' handshakes.

    Its worker runs in this process and starts with the app, unless *worker* is false: then run
    `hooklane inbox worker` beside it.
    """

    def lifespan(_: Any) -> AbstractAsyncContextManager[None]:
        return working(inbox, worker=worker)

    made = APIRouter(lifespan=lifespan)

    # Not in the OpenAPI of the application: providers call it, people do not. The body is read raw, before any parsing.
    # With a slash at the end too: the framework would send the provider elsewhere (307), and most do not go there.
    @made.api_route("/{source}", methods=METHODS, include_in_schema=False)
    @made.api_route("/{source}/", methods=METHODS, include_in_schema=False)
    async def receive_webhook(source: str, request: Request) -> Response:
        if worker:
            inbox.ensure_worker()  # an application that is mounted gets no lifespan of its own
        try:
            raw = await read_request(request.scope, request.receive, inbox.body_bytes_max)
        except TooLarge:
            return _response(inbox.too_large(str(request.url), source), ("connection", "close"))
        if raw is None:
            return Response(status_code=499)  # the client has gone and does not read this
        return _response(await inbox.areceive(raw, source))

    return made


def _response(reply: Reply, *more: tuple[str, str]) -> Response:
    response = Response(reply.body, reply.status)
    for name, value in (*reply.headers, *more):
        response.headers[name] = value
    return response


def dashboard(
    where: str,
    *,
    may: Callable[[Request], Any],
    login_url: str | None = None,
    deliver: bool = False,
    playground: bool = False,
    behind_proxy: bool = False,
    egress_allow: Sequence[str] = (),
    tenant: str | Callable[[Request], Any] | None = None,
) -> Dashboard:
    """The dashboard on the database *where*: `app.mount("/hooklane", dashboard(DB, may=is_operator))`.

    *may*, plain or async, is asked for each request whether this person may come in; a browser without a login is sent
    to *login_url*. A person who comes in may do everything that the API can. With *tenant*, a name or a function of the
    request that says it, they are customers of that tenant and have its portal alone. Any ASGI application will do.
    """
    with needing("server"):
        from hooklane.dashboard import made
    return made(
        where,
        may,
        login_url=login_url,
        deliver=deliver,
        playground=playground,
        behind_proxy=behind_proxy,
        egress_allow=egress_allow,
        tenant=tenant,
    )
