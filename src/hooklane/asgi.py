"""The receiver as an ASGI application: mount it, or serve it as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from hooklane.model.message import Reply, Request
from hooklane.receiver.inbox import Inbox

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class TooLarge(Exception):
    """The body is longer than any source takes; the rest was not read."""


def app(inbox: Inbox, *, worker: bool = True) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """An ASGI application that answers `POST …/{source}`. Its worker runs in this process, started
    after any fork, unless *worker* is false (then run `hooklane inbox worker`).

    A framework that mounts it does not tell it when to stop: put `working(inbox)` into the framework's own lifespan.
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(inbox, receive, send, worker=worker)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"hooklane.asgi.app answers http, not {scope['type']}")
        if worker:
            inbox.ensure_worker()
        try:
            request = await read_request(scope, receive, inbox.body_bytes_max)
        except TooLarge:
            await write_reply(send, inbox.too_large(url_of(scope)), close=True)
            return
        if request is not None:
            await write_reply(send, await inbox.areceive(request))

    return application


@asynccontextmanager
async def working(inbox: Inbox, *, worker: bool = True) -> AsyncIterator[None]:
    """Have a worker while the application runs; at the end it finishes what it has in hand."""
    if worker:
        inbox.ensure_worker()
    try:
        yield
    finally:
        await inbox.astop()


async def read_request(scope: Scope, receive: Receive, bytes_max: int) -> Request | None:
    """The raw request, before anything else has touched its body; None when the client has gone."""
    if _length(scope) > bytes_max:
        raise TooLarge
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > bytes_max:
            raise TooLarge
        chunks.append(chunk)
        if not message.get("more_body", False):
            break
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
    return Request(scope["method"].upper(), url_of(scope), headers, b"".join(chunks))


def _length(scope: Scope) -> int:
    """What the client says about the length of its body; 0 where it says nothing that can be believed."""
    text = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(text) if text.isdigit() and len(text) < 19 else 0


def url_of(scope: Scope) -> str:
    """The URL as it was requested; its last part names the source."""
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
    query = scope.get("query_string", b"")
    path = raw.partition(b"?")[0].decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
    return f"{scope.get('scheme', 'http')}://{host}{path}"


async def write_reply(send: Send, reply: Reply, *, close: bool = False) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers]
    if reply.status != 204:  # which has no content, and may not speak of its length (RFC 9110, section 8.6)
        headers.append((b"content-length", str(len(reply.body)).encode()))
    if close:  # the rest of the body was not read
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


async def _lifespan(inbox: Inbox, receive: Receive, send: Send, *, worker: bool) -> None:
    await receive()  # lifespan.startup
    async with working(inbox, worker=worker):
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
    await send({"type": "lifespan.shutdown.complete"})
