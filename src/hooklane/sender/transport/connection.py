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

from hooklane.model.exchange import Answer, Failure
from hooklane.sender.transport.limits import (
    AGE_S_MAX,
    BODY_BYTES_MAX,
    BODY_S_MAX,
    HEAD_BYTES_KEPT,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    IDLE_S_MAX,
    INTERIM_MAX,
)
from hooklane.sender.transport.response import could_be_http, has_status_line, hint, keep_alive_s
from hooklane.sender.transport.wheel import Expiring

if TYPE_CHECKING:
    from hooklane.sender.addresses import Address
    from hooklane.sender.transport.exchange import Exchange
    from hooklane.sender.transport.pool import Pool
    from hooklane.sender.transport.route import Route

_END = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """One exchange at a time. After each the parser stands at the start of a message, or the connection is gone."""

    def __init__(self, pool: Pool, route: Route, address: Address, sock: socket.socket, now: float) -> None:
        self.route = route
        self.address = address
        self.slot: set[Expiring] | None = None
        self.is_idle = False
        self.usable_until = now + AGE_S_MAX
        self.idle_until = now + IDLE_S_MAX
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
        self._idle_s = IDLE_S_MAX
        self._begin_message()

    def _begin_message(self) -> None:
        self._head_bytes = 0
        self._interim = 0
        self._head = b""
        self._status = 0
        self._in_body = False
        self._body = b""
        self._body_bytes = 0
        self._complete = False
        self._reusable = False
        self._error: str | None = None

    # ---- the pool's side

    def begin(self, exchange: Exchange) -> None:
        """Send *exchange*'s request: one write."""
        transport = self._transport
        assert transport is not None
        assert self._exchange is None
        exchange.begin_on(self)
        self._exchange = exchange
        transport.write(exchange.request)
        exchange.request = b""  # the transport holds what is not yet written

    def is_fresh(self, now: float) -> bool:
        """Whether a request may still be sent here: young, not closed, and not a byte waits that nobody asked for."""
        transport = self._transport
        return (
            transport is not None
            and now < self.usable_until
            and now < self.idle_until
            and not transport.is_closing()
            and not self._readable(0)
        )

    def drop(self) -> None:
        """Close at once. Whoever is still in an exchange here was told, or is about to be."""
        self._exchange = None
        self._hub.wheel.disarm(self)
        if self._transport is not None:
            self._transport.abort()

    def abort(self) -> None:
        """Close at once and tell the exchange: by its answer, when that is already decided."""
        exchange = self._exchange
        if exchange is not None and not self._in_body:
            exchange.abort()
        self._end_body()

    def expire(self) -> None:
        """The body took too long; it is only an excerpt anyway."""
        self._end_body()

    # ---- the loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour only

    def connection_lost(self, exc: Exception | None) -> None:
        exchange = self._exchange
        self._exchange = None
        self._transport = None
        self._hub.wheel.disarm(self)
        self._parser = None  # it refers back to us
        self._pool.gone(self)
        if exchange is None:
            return
        if self._in_body:
            exchange.settle(self._answer(exchange))
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
        if self._in_body:
            self._feed(data)
            if self._complete or self._error is not None or self._body_bytes > BODY_BYTES_MAX:
                self._end_body()
        elif (exchange := self._exchange) is not None:
            self._read_head(exchange, data)
        else:
            self.drop()  # nobody asked: what comes unasked must never be taken for an answer

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
                self._headers_are_complete(exchange)
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

    def _headers_are_complete(self, exchange: Exchange) -> None:
        if not self._in_body:
            exchange.fail(Failure.BAD_RESPONSE, self._error or "incomplete response headers")
            return
        if self._complete or self._error is not None or self._body_bytes > BODY_BYTES_MAX:
            self._end_body()
            return
        wheel = self._hub.wheel
        wheel.disarm(exchange)
        # The body gets its own short time, inside the one deadline of the attempt.
        wheel.arm(self, min(self._hub.clock() + BODY_S_MAX, exchange.deadline))
        if 200 <= self._status < 300:
            self._exchange = None
            exchange.settle(self._answer(exchange))

    # ---- the body

    def _end_body(self) -> None:
        exchange = self._exchange
        answer = self._answer(exchange) if exchange is not None else None
        transport = self._transport
        self._exchange = None
        if (
            self._reusable
            and self._error is None
            and self._body_bytes <= BODY_BYTES_MAX
            and transport is not None
            and not transport.get_write_buffer_size()
        ):
            self._hub.wheel.disarm(self)
            self._used = True
            self._begin_message()
            self._pool.release(self, self._idle_s)
        else:
            self.drop()
        # Last, because the caller may send the next request from inside: on this connection, if it is clean.
        if exchange is not None and answer is not None:
            exchange.settle(answer)

    def _answer(self, exchange: Exchange) -> Answer:
        head = self._head
        lowered = head.lower()
        seconds = keep_alive_s(head, lowered)
        self._idle_s = IDLE_S_MAX if seconds is None else min(IDLE_S_MAX, max(0.0, seconds - 1.0))
        return Answer(
            self._status,
            exchange.timings(),
            hint(head, lowered, b"\r\nretry-after:"),
            hint(head, lowered, b"\r\nwebhook-expected-seq:"),
            hint(head, lowered, b"\r\nhooklane-outcome:"),
            head[:HEAD_BYTES_KEPT],
            self._body,
        )

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
