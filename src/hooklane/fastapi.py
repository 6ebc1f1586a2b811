"""The receiver in FastAPI: `app.include_router(router(inbox), prefix="/webhooks")`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from hooklane.asgi import TooLarge, read_request, working
from hooklane.errors import MissingExtra
from hooklane.model.message import Reply
from hooklane.receiver.inbox import Inbox

try:
    from fastapi import APIRouter, Request, Response
except ImportError as error:
    raise MissingExtra("fastapi", "fastapi") from error


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
    @made.api_route("/{source}", methods=METHODS, include_in_schema=False)
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
