"""A real HTTP server that records what it gets and answers as told: the other end of a sender under test."""

import asyncio
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from tests.support.pace import scaled_s

WITHIN_S = 20.0


@dataclass(slots=True)
class Request:
    """One request as it came. Times are of the monotonic clock, in seconds; there is none for a reply not yet sent."""

    method: str
    path: str
    headers: Mapping[str, str]  # names in lower case
    raw_headers: tuple[tuple[str, str], ...]
    body: bytes
    peer: tuple[str, int]
    arrived_at: float
    settled_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A reply, given *after_s* seconds or as soon as *once* is set, whichever the test chose."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    after_s: float = 0.0
    once: threading.Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """No reply: the request is read, then the connection ends, orderly or with a reset."""

    after_s: float = 0.0
    once: threading.Event | None = None
    reset: bool = False


Reaction = Answer | Drop


class Sink:
    """Answers by the next reaction of `script`, and when that is used up by `react` (200 for everything by default)."""

    def __init__(self, react: Callable[[Request], Reaction] = lambda _: Answer(), *, port: int = 0) -> None:
        self.react = react
        self.script: deque[Reaction] = deque()
        self._requests: list[Request] = []
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="sink", daemon=True)

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def requests(self) -> list[Request]:
        """All requests so far, in the order of their arrival."""
        with self._changed:
            return list(self._requests)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def follow(self, reactions: Iterable[Reaction]) -> None:
        """Appends to the script."""
        self.script.extend(reactions)

    def wait_for(
        self, count: int, *, where: Callable[[Request], bool] = lambda _: True, within_s: float = WITHIN_S
    ) -> list[Request]:
        """The requests *where* something holds, once there are *count* of them."""

        def matching() -> list[Request]:
            return [request for request in self._requests if where(request)]

        with self._changed:
            if not self._changed.wait_for(lambda: len(matching()) >= count, scaled_s(within_s)):
                seen = [f"{request.method} {request.path}" for request in self._requests]
                raise AssertionError(
                    f"waited {within_s:g} s for {count} requests, {len(matching())} of {len(seen)} fit: {seen[:20]}"
                )
            return matching()

    async def arrived(
        self, count: int, *, where: Callable[[Request], bool] = lambda _: True, within_s: float = WITHIN_S
    ) -> list[Request]:
        """`wait_for` without blocking the event loop."""
        return await asyncio.to_thread(self.wait_for, count, where=where, within_s=within_s)

    def close(self) -> None:
        """Stops listening, ends open connections, and returns when no thread is left."""
        self._closing.set()
        self._server.shutdown()
        self._server.end_connections()
        self._server.server_close()  # joins the threads of the connections
        self._thread.join()

    def _reaction(self, request: Request) -> Reaction:
        with self._changed:
            self._requests.append(request)
            scripted = self.script.popleft() if self.script else None
            self._changed.notify_all()
        return scripted or self.react(request)

    def _wait(self, reaction: Reaction) -> bool:
        """Whether it is still open after the wait that the *reaction* asks for."""
        deadline = time.monotonic() + (reaction.after_s if reaction.once is None else scaled_s(WITHIN_S))
        while not self._closing.is_set() and (left := deadline - time.monotonic()) > 0:
            if reaction.once is None:
                self._closing.wait(left)
            elif reaction.once.wait(min(left, 0.05)):
                break
        return not self._closing.is_set()

    def _settle(self, request: Request) -> None:
        with self._changed:
            request.settled_at = time.monotonic()
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _type: type[BaseException] | None, _it: BaseException | None, _at: TracebackType | None) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = False
    block_on_close = True

    def __init__(self, address: tuple[str, int], sink: Sink) -> None:
        self.sink = sink
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The inherited one asks the resolver for this host's name, which may take seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = self.socket.getsockname()

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, peer = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._guard:
            self._connections.add(connection)
        return connection, peer

    def shutdown_request(self, request: object) -> None:
        assert isinstance(request, socket.socket)
        with self._guard:
            self._connections.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        with self._guard:
            for connection in self._connections:
                _shut(connection)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a sender that went away in the middle is what many tests are about


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    timeout = 60

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        arrived_at = time.monotonic()
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            self.send_error(411)
            self.close_connection = True
            return
        size = int(self.headers.get("content-length", 0))
        body = self.rfile.read(size)
        if len(body) < size:  # cut on the way: this request never came
            self.close_connection = True
            return
        raw = tuple(self.headers.items())
        request = Request(
            method=self.command,
            path=self.path,
            headers={name.lower(): value for name, value in raw},
            raw_headers=raw,
            body=body,
            peer=self.client_address,
            arrived_at=arrived_at,
        )
        self._answer(request, self.server.sink._reaction(request))

    def _answer(self, request: Request, reaction: Reaction) -> None:
        still_open = self.server.sink._wait(reaction)
        # Before the reply leaves: whoever has the reply in hand finds the time of it, and it is no later than that.
        self.server.sink._settle(request)
        match reaction:
            case Answer() if still_open:
                self.send_response(reaction.status)
                for name, value in reaction.headers.items():
                    self.send_header(name, value)
                if reaction.status not in (204, 304):
                    self.send_header("content-length", str(len(reaction.body)))
                self.end_headers()
                if request.method != "HEAD":
                    self.wfile.write(reaction.body)
            case Drop(reset=True):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
            case _:
                self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass  # the requests are recorded; pytest's output stays readable


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):  # the peer may be quicker
        connection.shutdown(socket.SHUT_RDWR)
