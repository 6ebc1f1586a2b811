"""The receiver behind `hooklane listen`: one thread for each connection, nothing kept but in memory and the record."""

from __future__ import annotations

import base64
import http.client
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, unquote

import msgspec

from hooklane.cli import output
from hooklane.cli.attempt_line import start_of
from hooklane.cli.client import connection_to, why_unreachable
from hooklane.cli.exits import CallFailed, Exit
from hooklane.cli.faults import Faults
from hooklane.cli.output import json_line, plain, say, say_json, sign
from hooklane.core.fanout import matches
from hooklane.core.profiles import find_profile
from hooklane.core.verify.explain import explain
from hooklane.errors import ConfigError
from hooklane.model.clock import rfc3339, wall_now
from hooklane.model.message import Reply, Request
from hooklane.receiver.inbox import Inbox

BODY_BYTES_MAX = 8 * 2**20
FORWARD_S = 30.0
_HOP_BY_HOP = frozenset(("host", "connection", "keep-alive", "transfer-encoding", "te", "upgrade", "content-length"))
_NAME = "hooklane"


@dataclass(frozen=True, slots=True)
class Received:
    """One request and what became of it, as it is shown."""

    at: str
    event: str | None
    type: str
    key: str | None
    seq: int | None
    attempt: int | None
    status: int | None
    said: str | None
    why: str | None
    fault: str | None
    took_ms: float


class Listener:
    """Listens on the loopback from the start; `with` serves."""

    def __init__(
        self,
        port: int,
        target: SplitResult | None,
        secrets: Sequence[str],
        faults: Faults,
        types: Sequence[str],
        keys: Sequence[str],
        record: Path | None,
    ) -> None:
        self._target = target
        self._secrets = secrets
        self._faults = faults
        self._types, self._keys = types, keys
        self._printing = threading.Lock()
        self._inbox = None if target is not None else _inbox(secrets)
        self._server = _Server(("127.0.0.1", port), self)
        self._recorded_at, self._record = record, None if record is None else _opened(record)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)
        self.stopping = threading.Event()
        """It is to end: someone said so, or what comes can be shown or recorded no more."""
        self.failed: Exception | None = None
        """Why nothing more can be shown or recorded."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, request: Request) -> Reply | None:
        """Answer a request, and show it; None where a fault swallows the answer."""
        began = time.monotonic()
        fault = self._faults.draw()
        why = self._doubt(request)
        if fault == "error":
            reply, said = Reply(503, b'{"error": "a fault, on purpose"}'), None
        elif self._target is not None:
            reply, said = self._forward(request, self._target)
        else:
            assert self._inbox is not None
            reply = self._inbox.receive(request, _NAME)
            said = dict(reply.headers).get("hooklane-outcome")
        if self._faults.delay_s:
            time.sleep(self._faults.delay_s)
        dropped = fault == "drop-ack"
        told = Received(
            at=rfc3339(wall_now()),
            **_head(request),
            status=None if dropped else reply.status,
            said=said,
            why=why,
            fault=fault,
            took_ms=round((time.monotonic() - began) * 1000, 1),
        )
        self._tell(request, told)
        return None if dropped else reply

    def _doubt(self, request: Request) -> str | None:
        """Why the signature does not fit; None where it does, or where no secret was given."""
        if not self._secrets:
            return None
        told = explain(request, find_profile(_NAME), self._secrets, wall_now())
        return None if told.accepted else told.reason

    def _forward(self, request: Request, target: SplitResult) -> tuple[Reply, str | None]:
        connection = connection_to(target, FORWARD_S)
        path = (target.path or "/") + (f"?{target.query}" if target.query else "")
        headers = {name: value for name, value in request.headers if name.lower() not in _HOP_BY_HOP}
        try:
            connection.request(request.method, path, request.body, headers)
            answer = connection.getresponse()
            body = answer.read(BODY_BYTES_MAX)
            kept = tuple((name, value) for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP)
            return Reply(answer.status, body, kept), answer.getheader("hooklane-outcome")
        except (OSError, http.client.HTTPException) as error:
            why = f"{target.netloc} does not answer: {why_unreachable(error)}"
            return Reply(502, json_line({"error": why}).encode(), (("content-type", "application/json"),)), None
        finally:
            connection.close()

    def _tell(self, request: Request, told: Received) -> None:
        with self._printing:
            if self.failed is not None:
                return
            try:
                self._show(request, told)
            except (OSError, CallFailed) as error:
                self.failed = error  # told when the sender has its answer: the work is done

    def _show(self, request: Request, told: Received) -> None:
        if self._record is not None:
            try:
                self._record.write(json_line({"v": 1, **asdict(told), **_raw(request)}))
                self._record.flush()
            except OSError as error:
                raise CallFailed(f"cannot write {self._recorded_at}: {error.strerror}") from None
        if not (matches(self._types, told.type) and matches(self._keys, told.key or "")):
            return
        if output.as_json:
            say_json(asdict(told))
        else:
            say(_line(told))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if self._inbox is not None:
            self._inbox.close()
        if self._record is not None:
            with suppress(OSError):  # what it could not write it tries once more
                self._record.close()


def _inbox(secrets: Sequence[str]) -> Inbox:
    """What answers where nothing is forwarded: each event once, whatever place its key is at."""
    inbox = Inbox("memory://", mode="inline")
    try:
        source = inbox.source(_NAME, secrets, order="none", unsafe=not secrets)
    except ConfigError as error:
        raise CallFailed(f"the secret cannot verify: {error}", Exit.USAGE) from None

    @source.on("*")
    def handle(event: Any, tx: Any) -> None:
        pass  # `take` shows it

    return inbox


def _opened(path: Path) -> Any:
    # Webhooks hold what their sender's customers would not want others to read.
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")
    except OSError as error:
        raise CallFailed(f"cannot write {path}: {error.strerror}", Exit.USAGE) from None


class _Hints(msgspec.Struct):
    type: str | None = None
    id: str | None = None
    key: str | None = None
    seq: int | None = None


def _head(request: Request) -> dict[str, Any]:
    """What a request says of itself, in its headers and its envelope."""
    try:
        hints = msgspec.json.decode(request.body, type=_Hints)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        hints = _Hints()
    key = request.lone("x-key")
    return {
        "event": request.lone("webhook-id") or hints.id,
        "type": hints.type or "-",
        "key": unquote(key) if key else hints.key,
        "seq": _number(request.lone("x-seq")) or hints.seq,
        "attempt": _number(request.lone("x-attempt")),
    }


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None


def _raw(request: Request) -> dict[str, Any]:
    raw: dict[str, Any] = {"method": request.method, "path": request.url, "headers": request.headers}
    try:
        return {**raw, "body": request.body.decode("utf-8")}
    except UnicodeDecodeError:
        return {**raw, "body_base64": base64.b64encode(request.body).decode()}


def _line(told: Received) -> str:
    good = told.status is not None and 200 <= told.status < 300
    mark = sign("unknown" if told.status is None else "ok" if good else "failed")
    after = [
        told.said and plain(told.said),
        told.attempt and told.attempt > 1 and f"try {told.attempt}",
        told.fault == "drop-ack" and "answer dropped on purpose",
        told.fault == "error" and "failed on purpose",
        told.why and f"signature: {plain(told.why)}",
    ]
    words = ", ".join(str(one) for one in after if one)
    start = start_of({**asdict(told), "started_at": told.at}, mark)
    return f"{start} {told.status or 'no answer'!s:<8} {told.took_ms:>5.0f} ms   {words}".rstrip()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], listener: Listener) -> None:
        self.listener = listener
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The inherited one asks the resolver for this host's name, which may take seconds.
        self.socket.bind(self.server_address)
        host, self.server_port = self.socket.getsockname()
        self.server_name = str(host)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # a sender that went away is no news
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    timeout = 60

    def _take(self) -> None:
        length = self.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or "transfer-encoding" in self.headers:
            self._write(Reply(411, b'{"error": "a body needs a content-length"}'), close=True)
            return
        if len(length) > len(str(BODY_BYTES_MAX)) or int(length) > BODY_BYTES_MAX:
            self._write(Reply(413, b'{"error": "the body is too large"}'), close=True)
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            return
        reply = self.server.listener.take(Request.of(self.command, self.path, self.headers.items(), body))
        if reply is None:
            self.close_connection = True
        else:
            self._write(reply)
        if self.server.listener.failed is not None:
            self.server.listener.stopping.set()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _take  # noqa: N815

    def _write(self, reply: Reply, *, close: bool = False) -> None:
        self.send_response(reply.status)
        headers: Mapping[str, str] = dict(reply.headers)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        if close:
            self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:
        pass  # what came is shown by the listener
