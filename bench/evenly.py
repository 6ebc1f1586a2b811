"""Who publishes evenly: one request each so often, however long earlier ones take; a process of its own.

One that waits for each answer sends less while the server is slow, and so never sees how slow it is. It is a bare loop
over sockets: what it needs of the machine is little, and `select` sleeps to the microsecond, where event loops round up
to the next millisecond.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

LINES_MAX = 500
"""Connections at once; what is due beyond that waits for one, and the wait counts."""
IDLE_S_MAX = 2.0
"""The server closes what is idle for longer than that."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is published: the n-th event of a slice has type and key by its number."""

    topic: str = "order"
    types: int = 1
    key: str = "key"
    keys: int = 400
    tenant: str = "default"


class Published(NamedTuple):
    """One event, with seconds of `time.monotonic`, which all processes of a Linux machine share."""

    id: str
    due: float
    sent: float
    answered: float
    status: int


class Evenly:
    """The process that publishes."""

    def __init__(self, pipe: Connection, pid: int) -> None:
        self._pipe = pipe
        self.pid = pid

    def publish(self, name: str, per_second: float, seconds: float) -> list[Published]:
        """Publish so many, until the last is answered; their ids begin with *name*."""
        self._pipe.send((name, per_second, seconds))
        found: list[Published] = self._pipe.recv()
        return found


@contextmanager
def evenly(port: int, plan: Plan) -> Iterator[Evenly]:
    """The process ends with the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(port, plan, theirs), daemon=True)
    process.start()
    theirs.close()
    assert process.pid is not None
    try:
        yield Evenly(ours, process.pid)
    finally:
        ours.close()
        process.join(30)


def _serve(port: int, plan: Plan, pipe: Connection) -> None:
    gc.disable()
    lines = Lines(port)
    while True:
        try:
            name, per_second, seconds = pipe.recv()
        except EOFError:
            return
        pipe.send(publish(lines, plan, name, per_second, max(1, round(per_second * seconds))))


def publish(
    lines: Lines, plan: Plan, name: str, per_second: float, many: int, is_over: Callable[[], bool] = lambda: False
) -> list[Published]:
    """Publish *many*, or until it *is_over*, and wait for the last answer."""
    found: list[Published] = []
    start, number = time.monotonic(), 0
    while number < many or lines.busy:
        due = start + number / per_second
        if number < many and len(lines.busy) < LINES_MAX and time.monotonic() >= due:
            event_id = f"{name}-{number}"
            lines.send(_request(plan, event_id, number), event_id, due)
            number += 1
            continue
        is_full = number >= many or len(lines.busy) >= LINES_MAX
        found += lines.answers(5.0 if is_full else max(0.0, due - time.monotonic()))
        if is_over():
            many = number
    return found


def _request(plan: Plan, event_id: str, number: int) -> bytes:
    body = json.dumps(
        {
            "id": event_id,
            "type": f"{plan.topic}.{number % plan.types}",
            "key": f"{plan.key}-{number % plan.keys}",
            "data": {"n": number, "text": "x" * 200},
        }
    ).encode()
    head = f"POST /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nHooklane-Tenant: {plan.tenant}\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Lines:
    """As many kept connections as there are requests under way at once."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[socket.socket, float]] = []
        self.busy: dict[socket.socket, tuple[str, float, float, bytes]] = {}

    def send(self, request: bytes, event_id: str, due: float) -> None:
        sock = self._kept() or socket.create_connection(("127.0.0.1", self._port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(request)
        self.busy[sock] = (event_id, due, time.monotonic(), b"")

    def _kept(self) -> socket.socket | None:
        """The connection that was used last, unless the server may be about to close it."""
        while self._idle:
            sock, since = self._idle.pop()
            if time.monotonic() - since < IDLE_S_MAX:
                return sock
            sock.close()
        return None

    def answers(self, within_s: float) -> list[Published]:
        """Those that came within *within_s*; the first to come ends the wait."""
        found = []
        for sock in select.select(list(self.busy), (), (), within_s)[0]:
            event_id, due, sent, before = self.busy[sock]
            data = before + (more := sock.recv(65_536))
            if not more:
                raise SystemExit(f"the server closed the connection that asked for {event_id}")
            head, is_whole, body = data.partition(b"\r\n\r\n")
            if is_whole and len(body) >= int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0):
                del self.busy[sock]
                self._idle.append((sock, time.monotonic()))
                found.append(Published(event_id, due, sent, time.monotonic(), int(head[9:12])))
            else:
                self.busy[sock] = (event_id, due, sent, data)
        return found
