"""The dashboard for WSGI: requests are answered by an event loop in a thread of this process, the stream in pieces.

A live stream would hold one of a WSGI server's few workers for as long as a page is open. So it is answered with what
there is at the moment and ends; the page asks again, from where it was, every few seconds (ADR 0102).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from starlette.types import Message

from hooklane.dashboard import Dashboard, granted
from hooklane.errors import UsageError
from hooklane.model.message import Reply

T = TypeVar("T")
ANSWER_S_MAX = 60.0
POLL_MS = 2_000
PIECE_S = 0.25
"""How long a piece of the stream is gathered."""
BODY_BYTES_MAX = 9 * 1024 * 1024
"""What any call takes at most is 8 MiB."""
_MUST_BE_PLAIN = "`{}` must be a plain function here: nothing awaits an async one in Flask or Django"


class WsgiDashboard:
    """Runs a dashboard in a thread, which starts at the first request and so after any fork."""

    def __init__(self, dashboard: Dashboard) -> None:
        for name, asked in dashboard.asked.items():
            if inspect.iscoroutinefunction(asked):
                raise UsageError(_MUST_BE_PLAIN.format(name))
        self.dashboard = dashboard
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def lets_in(self, *request: Any) -> tuple[bool, Any]:
        """Whether the person who makes this request may come in, as the application says, and as whose customer."""
        is_in = _said_at_once(self.dashboard.may(*request), "may")
        customer = _said_at_once(self.dashboard.tenant_of(*request), "tenant") if is_in else None
        return bool(is_in and (customer or not self.dashboard.in_portal)), customer

    def answer(
        self,
        method: str,
        path: str,
        raw_path: bytes,
        query: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        tenant: str | None = None,
    ) -> Reply:
        """The answer to a request that may come in; *path* is below where the dashboard is mounted."""
        scope = _scope(method, path, raw_path, query, headers)
        return self._run(self._answer(scope, body, tenant))

    def turn_away(self, method: str, headers: Sequence[tuple[str, str]]) -> Reply:
        """The answer to one that may not."""
        return self._run(_collected(self.dashboard.turn_away(_scope(method, "/", b"/", "", headers)), b""))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="hooklane-dashboard", daemon=True).start()
            loop = self._loop
        return asyncio.run_coroutine_threadsafe(work, loop).result(ANSWER_S_MAX)

    async def _answer(self, scope: dict[str, Any], body: bytes, tenant: str | None) -> Reply:
        async def serve(_: Any, receive: Any, send: Any) -> None:
            await self.dashboard.serve(scope, receive, send, tenant)

        return await _collected(serve, body)


def _said_at_once(answer: Any, name: str) -> Any:
    """What a plain function said. Something to await counts as true, and would let everybody in."""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise UsageError(_MUST_BE_PLAIN.format(name))
    return granted(answer)


async def _collected(app: Any, body: bytes) -> Reply:
    """A whole answer; of one that has no end, a piece."""
    status, headers, chunks = 500, list[tuple[str, str]](), list[bytes]()
    has_piece, is_read, is_over = asyncio.Event(), False, asyncio.Event()

    async def receive() -> Message:
        nonlocal is_read
        if not is_read:
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}
        await is_over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            headers.extend((name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"])
            if _is_stream(headers):
                has_piece.set()
        else:
            chunks.append(message.get("body", b""))

    scope = {"type": "http", "method": "GET", "headers": [], "path": "/"}
    work = asyncio.ensure_future(app(scope, receive, send))
    piece = asyncio.ensure_future(has_piece.wait())
    try:
        await asyncio.wait((work, piece), return_when=asyncio.FIRST_COMPLETED)
        if has_piece.is_set() and not work.done():
            await asyncio.wait([work], timeout=PIECE_S)
            headers.append(("hooklane-poll-ms", str(POLL_MS)))
    finally:
        is_over.set()
        piece.cancel()
        if _is_stream(headers):
            work.cancel()
        await asyncio.gather(piece, work, return_exceptions=True)
    if not _is_stream(headers) and (error := work.exception()) is not None:
        raise error
    return Reply(status, b"".join(chunks), tuple(headers))


def _is_stream(headers: Sequence[tuple[str, str]]) -> bool:
    return any(name == "content-type" and value.startswith("text/event-stream") for name, value in headers)


def _scope(method: str, path: str, raw_path: bytes, query: str, headers: Sequence[tuple[str, str]]) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": raw_path,
        "root_path": "",
        "query_string": query.encode("latin-1", "replace"),
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers],
        "client": None,
        "server": None,
    }


def raw_below(whole: str | None, path: str, depth: int) -> bytes:
    """The raw path below a prefix of *depth* segments; WSGI itself has only decoded ones, most servers have both."""
    from urllib.parse import quote

    if not whole:
        return quote(path, safe="/:@!$&'()*+,;=~").encode()
    raw = whole.partition("?")[0]
    if "://" in raw:  # an absolute request target
        raw = "/" + raw.partition("://")[2].partition("/")[2]
    return "".join("/" + one for one in raw.split("/")[1 + depth :]).encode("latin-1", "replace")
