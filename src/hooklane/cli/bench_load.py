"""How is a server loaded at little cost, and its deliveries received? By connections that repeat, and by a sink."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
PACED_CONNECTIONS = 32
_LENGTH = b"content-length:"


@dataclass(slots=True)
class Seen:
    """What the sink was sent, in the order of its answers."""

    deliveries: int = 0
    repeated: int = 0
    reordered: int = 0
    lates_ms: array[float] = field(default_factory=lambda: array("d"))
    """From the moment that an event bears until it arrived, in milliseconds."""
    _last: dict[bytes, int] = field(default_factory=dict)

    @property
    def distinct(self) -> int:
        return self.deliveries - self.repeated

    def note(self, head: bytes, body: bytes) -> None:
        key, seq = _field(head, b"x-key:"), int(_field(head, b"x-seq:") or b"0")
        expected = self._last.get(key, 0) + 1
        self.deliveries += 1
        self.repeated += seq < expected
        self.reordered += seq > expected
        self._last[key] = max(seq, expected - 1)
        at = body.find(b'"at":')
        if at >= 0:
            self.lates_ms.append((time.time() - float(body[at + 5 : body.index(b"}", at)])) * 1000)


class Sink(asyncio.Protocol):
    """Answers every request with 200 and notes which event it was."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        answers = 0
        while (message := _message(buffer)) is not None:
            head, body, buffer = message
            self._seen.note(head, body)
            answers += 1
        self._buffer = buffer
        if answers:
            self._transport.write(ANSWER * answers)


class Caller(asyncio.Protocol):
    """One connection that sends the next request as soon as the last one is answered."""

    def __init__(self, next_request: Callable[[], bytes | None], *, stays: bool = False) -> None:
        """*next_request* gives None when there is nothing to send: then it ends, or *stays* until it is nudged."""
        self._next_request = next_request
        self._stays = stays
        self.is_idle = False
        self._buffer = b""
        self._sent_at = 0.0
        self.accepted = 0
        self.refused = 0
        self.took_ms = array("d")
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.nudge()

    def data_received(self, data: bytes) -> None:
        message = _message(self._buffer + data)
        if message is None:
            self._buffer += data
            return
        head, _, self._buffer = message
        is_accepted = head[9:10] == b"2"
        self.accepted += is_accepted
        self.refused += not is_accepted
        self.took_ms.append((time.perf_counter() - self._sent_at) * 1000)
        self.nudge()

    def nudge(self) -> None:
        """Send what is next."""
        request = self._next_request()
        self.is_idle = request is None
        if request is None:
            if not self._stays:
                self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def end(self) -> None:
        """Go once there is nothing to send."""
        self._stays = False
        if self.is_idle:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def _message(buffer: bytes) -> tuple[bytes, bytes, bytes] | None:
    """The first message of *buffer*: its head in lower case, its body, and what follows; None while it is not whole."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = buffer[:end].lower()
    size = int(_field(head, _LENGTH) or b"0")
    start = end + 4
    if len(buffer) < start + size:
        return None
    return head, buffer[start : start + size], buffer[start + size :]


def _field(head: bytes, name: bytes) -> bytes:
    at = head.find(b"\r\n" + name)
    if at < 0:
        return b""
    start = at + 2 + len(name)
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else len(head)].strip()


def request(path: str, port: int, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
    return b"%bcontent-length: %d\r\n\r\n%b" % (head.encode(), len(body), body)


@dataclass(frozen=True, slots=True)
class Load:
    """What came of a load."""

    accepted: int
    refused: int
    took_s: float
    answers_ms: Sequence[float]


async def at_once(port: int, connections: int, next_request: Callable[[], bytes | None]) -> Load:
    """Send requests over so many connections until there are no more, and every one is answered."""
    began = time.perf_counter()
    callers = [await _connected(port, Caller(next_request)) for _ in range(connections)]
    await asyncio.gather(*(caller.done for caller in callers))
    return _load(callers, time.perf_counter() - began)


async def paced(port: int, rate: float, seconds: float, make: Callable[[float], bytes]) -> Load:
    """Send *rate* requests a second, whether or not those before are answered; *make* is told when each is due."""
    waiting: deque[bytes] = deque()
    callers = [
        await _connected(port, Caller(lambda: waiting.popleft() if waiting else None, stays=True))
        for _ in range(PACED_CONNECTIONS)
    ]
    began, many = time.time(), max(1, int(rate * seconds))
    for number in range(many):
        due = began + number / rate
        await asyncio.sleep(max(0.0, due - time.time()))
        waiting.append(make(due))
        idle = next((caller for caller in callers if caller.is_idle), None)
        if idle is not None:
            idle.nudge()
    for caller in callers:
        caller.end()
    await asyncio.gather(*(caller.done for caller in callers))
    return _load(callers, time.time() - began)


async def _connected(port: int, caller: Caller) -> Caller:
    return (await asyncio.get_running_loop().create_connection(lambda: caller, "127.0.0.1", port))[1]


def _load(callers: Sequence[Caller], took_s: float) -> Load:
    answers = [ms for caller in callers for ms in caller.took_ms]
    return Load(sum(one.accepted for one in callers), sum(one.refused for one in callers), took_s, answers)
