"""One connection to one vetted address: writes a request, reads the answer under limits, and is kept only when clean.

The head is cut out of the stream before the parser sees it, so its size is known before anything is parsed. The outcome
is fixed when the head is complete; whatever the body does after that can only cost the connection.
"""

from __future__ import annotations

import asyncio
import select
import socket
import ssl
from typing import TYPE_CHECKING, Any, cast

import httptools

from hooklane.model.exchange import Answer, Failure, Timings
from hooklane.sender.transport.exchange import Phase
from hooklane.sender.transport.limits import (
    AGE_S_MAX,
    BODY_BYTES_MAX,
    BODY_S_MAX,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    IDLE_S_MAX,
    INTERIM_MAX,
)
from hooklane.sender.transport.response import Meaning, could_be_http, has_status_line, read_head
from hooklane.sender.transport.route import Seen
from hooklane.sender.transport.wheel import Expiring

if TYPE_CHECKING:
    from hooklane.sender.addresses import Address
    from hooklane.sender.transport.exchange import Exchange
    from hooklane.sender.transport.pool import Pool

_END = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One exchange at a time. After each the parser stands at the start of a message, or the connection is gone."""

    def __init__(self, pool: Pool, first: Exchange, address: Address, sock: socket.socket) -> None:
        """For the request *first*, which goes out the moment the connection stands."""
        now = pool.hub.clock()
        self._first: Exchange | None = first
        self.route = first.route
        self.address = address
        self.slot: set[Expiring] | None = None
        self.is_idle = False
        self.usable_until = now + AGE_S_MAX
        self.fresh_until = now + IDLE_S_MAX
        self._pool = pool
        self._hub = pool.hub
        self._exchange: Exchange | None = None
        self._transport: asyncio.Transport | None = None
        self._used = False
        readable = select.poll()
        readable.register(sock, select.POLLIN)
        self._readable = readable.poll
        self._parser: Any = httptools.HttpResponseParser(self)
        self._buffer = bytearray()
        self._begin_message()

    def _begin_message(self) -> None:
        self._head_bytes = 0
        self._interim = 0
        self._head = b""
        self._meaning: Meaning | None = None
        self._status = 0
        self._in_body = False
        self._body = b""
        self._body_bytes = 0
        self._complete = False
        self._reusable = False
        self._error: str | None = None

    # ---- the pool's side

    def begin(self, exchange: Exchange) -> None:
        """Send *exchange*'s request in one write; from here on the receiver may act on it."""
        transport = self._transport
        assert transport is not None
        assert self._exchange is None
        self._exchange = exchange
        exchange.connection = self
        exchange.task = None  # the dial, if there was one, has done its work
        exchange.phase = Phase.SENT
        transport.write(exchange.request)
        exchange.request = b""  # the transport holds what is not yet written

    def is_fresh(self, now: float) -> bool:
        """Whether a request may still be sent here: young, not closed, and not a byte waits that nobody asked for."""
        transport = self._transport
        return transport is not None and now < self.fresh_until and not transport.is_closing() and not self._readable(0)

    def drop(self) -> None:
        """Close at once. Whoever is still in an exchange here was told, or is about to be."""
        self._exchange = None
        self._hub.wheel.disarm(self)
        if self._transport is not None:
            self._transport.abort()

    def abort(self) -> None:
        """Close at once and tell the exchange: by its answer, when that is already decided."""
        exchange = self._exchange
        if exchange is not None and self._meaning is None:
            exchange.abort()
        else:
            self._reusable = False
            self._end_body(self._hub.clock())

    def expire(self) -> None:
        """The body took too long; it is only an excerpt anyway."""
        self._end_body(self._hub.clock())

    # ---- the loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour only
        first, self._first = self._first, None
        assert first is not None
        self._pool.opened(self)
        if first.settled:  # while the last step was under way
            self.drop()
            return
        if first.phase is Phase.TLS:
            first.tls_at = self._hub.clock()
        # Not later, from the task that dialled: a peer that speaks first would be read by nobody.
        self.begin(first)

    @property
    def was_made(self) -> bool:
        """Whether there ever was a connection."""
        return self._first is None

    def connection_lost(self, exc: Exception | None) -> None:
        exchange = self._exchange
        self._exchange = None
        self._transport = None
        self._hub.wheel.disarm(self)
        self._parser = None  # it refers back to us
        self._pool.gone(self)
        if exchange is None:
            return
        if self._meaning is not None:
            exchange.settle(_answer(self._meaning, exchange.timings(self._hub.clock()), self._body))
            return
        exchange.connection = None
        if isinstance(exc, ssl.SSLError):
            exchange.fail(Failure.TLS, f"the connection failed: {exc.reason or 'TLS error'}")
        elif self._buffer or self._head_bytes:
            exchange.fail(Failure.RESET, "closed inside the response headers")
        elif self._used:
            exchange.fail(Failure.RESET, "a kept connection was closed before any byte of a response")
        else:
            exchange.fail(Failure.RESET, "closed before any byte of a response")

    def eof_received(self) -> bool:
        return False

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if self._in_body:
            self._feed(data)
            if self._is_body_over():
                self._end_body(self._hub.clock())
        elif exchange is None:
            self.drop()  # nobody asked: what comes unasked must never be taken for an answer
        elif (
            (seen := self.route.seen) is not None
            and len(data) == seen.size
            and data.startswith(seen.head)
            and not self._buffer
            and not self._interim
        ):
            self._answer_as_before(exchange, seen, data)
        else:
            self._read_head(exchange, data)

    def _answer_as_before(self, exchange: Exchange, seen: Seen, data: bytes) -> None:
        """An endpoint says the same thing all day; what the parser made of it the last time still holds."""
        head, _, meaning = seen
        now = exchange.first_byte_at = self._hub.clock()
        took_ms = (now - exchange.started) * 1000
        timings = exchange.timings(now) if exchange.connect_at else Timings(took_ms, None, None, None, took_ms)
        self._exchange = None
        self._keep(meaning, now)
        exchange.settle(_answer(meaning, timings, data[len(head) :]))

    # ---- the head

    def _read_head(self, exchange: Exchange, data: bytes) -> None:
        if exchange.first_byte_at is None:
            exchange.first_byte_at = self._hub.clock()
        if self._buffer:
            known = len(self._buffer)
            self._buffer += data
            end = self._buffer.find(_END, max(0, known - 3))
            if end < 0:
                self._wait_for_head(exchange)
                return
            data = bytes(self._buffer)
            self._buffer.clear()
        else:
            end = data.find(_END)
        while end >= 0:
            size = end + 4
            self._head_bytes += size
            if self._head_bytes > HEAD_BYTES_MAX or data.count(b"\r\n", 0, size) - 2 > HEADERS_MAX:
                exchange.fail(Failure.BAD_RESPONSE, "too many response headers")
                return
            if not has_status_line(data):
                exchange.fail(Failure.BAD_RESPONSE, "not a status line of HTTP/1")
                return
            if data[9] != 0x31:  # not 1xx
                self._head = data[:size]
                self._feed(data)
                self._headers_are_complete(exchange, len(data))
                return
            if not self._is_interim(exchange, data[:size]):
                return
            data = data[size:]
            end = data.find(_END)
        self._buffer += data
        self._wait_for_head(exchange)

    def _wait_for_head(self, exchange: Exchange) -> None:
        if self._head_bytes + len(self._buffer) > HEAD_BYTES_MAX:
            exchange.fail(Failure.BAD_RESPONSE, "too many response headers")
        elif not could_be_http(self._buffer):
            exchange.fail(Failure.BAD_RESPONSE, "not a response of HTTP/1")

    def _is_interim(self, exchange: Exchange, head: bytes) -> bool:
        self._feed(head)
        self._interim += 1
        if self._error is not None or not self._complete or self._status == 101:
            exchange.fail(Failure.BAD_RESPONSE, self._error or "an interim response that nobody asked for")
        elif self._interim > INTERIM_MAX:
            exchange.fail(Failure.BAD_RESPONSE, "too many interim responses")
        else:
            self._status = 0
            self._complete = False
            return True
        return False

    def _headers_are_complete(self, exchange: Exchange, size: int) -> None:
        if not self._in_body:
            exchange.fail(Failure.BAD_RESPONSE, self._error or "incomplete response headers")
            return
        self._meaning = read_head(self._status, self._head)
        wheel = self._hub.wheel
        now = self._hub.clock()
        if self._is_body_over():
            self._remember(size)
            self._end_body(now)
            return
        # The body gets its own short time, inside the one deadline of the attempt.
        wheel.disarm(exchange)
        wheel.arm(self, min(now + BODY_S_MAX, exchange.deadline))
        if 200 <= self._status < 300:
            self._exchange = None
            exchange.settle(_answer(self._meaning, exchange.timings(now), self._body))

    # ---- the body

    def _is_body_over(self) -> bool:
        return self._complete or self._error is not None or self._body_bytes > BODY_BYTES_MAX

    def _is_clean(self) -> bool:
        return self._reusable and self._error is None and self._body_bytes <= BODY_BYTES_MAX

    def _remember(self, size: int) -> None:
        in_one_piece = size == len(self._head) + self._body_bytes and not self._interim
        if in_one_piece and self._is_clean():
            assert self._meaning is not None
            self.route.seen = Seen(self._head, size, self._meaning)

    def _end_body(self, now: float) -> None:
        exchange, meaning, body = self._exchange, self._meaning, self._body
        self._exchange = None
        self._hub.wheel.disarm(self)
        if meaning is not None and self._is_clean():
            self._begin_message()
            self._keep(meaning, now)
        else:
            self.drop()
        # Last, because the caller may send the next request from inside: on this connection, if it is clean.
        if exchange is not None and meaning is not None:
            exchange.settle(_answer(meaning, exchange.timings(now), body))

    def _keep(self, meaning: Meaning, now: float) -> None:
        transport = self._transport
        # An answer before the request was read: the rest of our bytes would stand before the next request.
        if transport is None or transport.get_write_buffer_size():
            self.drop()
            return
        self._used = True
        fresh_until = now + meaning.idle_s
        self.fresh_until = fresh_until if fresh_until < self.usable_until else self.usable_until
        self._pool.release(self, now)

    # ---- the parser's side

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._error = f"not HTTP/1: {error}"

    def on_message_begin(self) -> None:
        if self._complete:  # ends the parsing: what follows is not the answer to anything
            raise ValueError("bytes after the end of the response")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._in_body = self._status >= 200

    def on_body(self, chunk: bytes) -> None:
        room = BODY_BYTES_MAX - self._body_bytes
        self._body_bytes += len(chunk)
        if room > 0:
            self._body += chunk[:room]

    def on_message_complete(self) -> None:
        self._complete = True
        self._reusable = self._parser.should_keep_alive()


def _answer(meaning: Meaning, timings: Timings, body: bytes) -> Answer:
    return Answer(
        meaning.status, timings, meaning.retry_after, meaning.expected_seq, meaning.outcome, meaning.head, body
    )
