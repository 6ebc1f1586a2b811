"""One connection to one vetted address: writes a request, is told what the answer is, and is kept only when clean."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, cast

from hooklane.model.exchange import Answer, Failure, Timings
from hooklane.sender.transport.exchange import Phase
from hooklane.sender.transport.limits import AGE_S_MAX, BODY_S_MAX, IDLE_S_MAX, SENT_AT_ONCE
from hooklane.sender.transport.reader import ResponseReader
from hooklane.sender.transport.response import ParsedHead
from hooklane.sender.transport.route import SeenResponse
from hooklane.sender.transport.unread_bytes import is_writable
from hooklane.sender.transport.wheel import Expiring

if TYPE_CHECKING:
    from hooklane.sender.addresses import Address
    from hooklane.sender.transport.exchange import Exchange
    from hooklane.sender.transport.pool import Pool


class Connection(asyncio.Protocol):
    """One exchange at a time. After each the reader stands at the start of a response, or the connection is gone."""

    def __init__(self, pool: Pool, first: Exchange, address: Address, sock: socket.socket) -> None:
        """For the request *first*, which goes out the moment the connection stands."""
        now = pool.runtime.clock()
        self.route = first.route
        self.address = address
        self.slot: set[Expiring] | None = None
        self.was_opened = False
        """Whether the connection ever stood and took its place in the pool."""
        self.usable_until = now + AGE_S_MAX
        self.fresh_until = now + IDLE_S_MAX
        self._first = first
        self._pool = pool
        self._runtime = pool.runtime
        self._exchange: Exchange | None = None
        self._transport: asyncio.Transport | None = None
        self._was_used = False
        self._is_tls = first.route.destination is not None and first.route.destination.secure
        self._may_lag = False
        """Whether a part of the request may wait to be sent where the transport does not count it."""
        self._fd = sock.fileno()
        self._reader = ResponseReader()

    # What the pool calls.

    def begin(self, exchange: Exchange) -> None:
        """Send *exchange*'s request in one write; from here on the receiver may act on it."""
        transport = self._transport
        assert transport is not None
        assert self._exchange is None
        self._exchange = exchange
        exchange.connection = self
        exchange.task = None  # the dial, if there was one, has done its work
        exchange.phase = Phase.SENT
        self._may_lag = self._is_tls and len(exchange.request) > SENT_AT_ONCE
        transport.write(exchange.request)
        exchange.request = b""  # the transport holds what is not yet written

    def is_fresh(self, now: float) -> bool:
        """Whether a request may still be sent here: young, not closed, and without a byte that was never asked for."""
        transport = self._transport
        return (
            transport is not None
            and now < self.fresh_until
            and not transport.is_closing()
            and not self._pool.unread_bytes.is_readable(self._fd)
        )

    def drop(self) -> None:
        """Close at once. The exchange that is under way here has been told its result, or is about to be."""
        self._exchange = None
        self._runtime.wheel.disarm(self)
        if self._transport is not None:
            self._transport.abort()

    def abort(self) -> None:
        """Close at once and tell the exchange: by its answer, when that is already decided."""
        exchange, meaning = self._exchange, self._reader.meaning
        if exchange is not None and meaning is None:
            exchange.abort()
            return
        self.drop()
        if exchange is not None and meaning is not None:
            exchange.settle(_answer(meaning, exchange.timings(self._runtime.clock()), self._reader.body))

    def expire(self) -> None:
        """The body took too long; it is only an excerpt anyway."""
        self.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        first = self._first
        if first.settled:  # during the last step; the dial gives its place in the pool back
            cast(asyncio.Transport, transport).abort()
            return
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour only
        self.was_opened = True
        self._pool.unread_bytes.add(self._fd)
        self._pool.opened(self)
        if first.phase is Phase.TLS:
            first.tls_at = self._runtime.clock()
        # Not later, from the task that dialled: what a peer says first would not be read.
        self.begin(first)

    def connection_lost(self, exc: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        self._transport = None
        self._pool.unread_bytes.remove(self._fd)
        self._runtime.wheel.disarm(self)
        self._reader.close()
        self._pool.gone(self)
        if exchange is None:
            return
        meaning = self._reader.meaning
        if meaning is not None:
            exchange.settle(_answer(meaning, exchange.timings(self._runtime.clock()), self._reader.body))
            return
        exchange.connection = None
        if isinstance(exc, ssl.SSLError):
            exchange.fail(Failure.TLS, f"the connection failed: {exc.reason or 'TLS error'}")
        elif not self._reader.is_at_start:
            exchange.fail(Failure.RESET, "closed inside the response headers")
        elif self._was_used:
            exchange.fail(Failure.RESET, "a kept connection was closed before any byte of a response")
        else:
            exchange.fail(Failure.RESET, "closed before any byte of a response")

    def data_received(self, data: bytes) -> None:
        exchange, reader = self._exchange, self._reader
        if reader.meaning is not None:
            reader.feed(data)
            if reader.is_over:
                self._end_body(reader.meaning, self._runtime.clock())
        elif exchange is None:
            self.drop()  # what comes unasked must never be taken for an answer
        elif (
            (seen := self.route.seen) is not None
            and len(data) == seen.size
            and data.startswith(seen.head)
            and reader.is_at_start
        ):
            self._answer_as_before(exchange, seen, data)
        else:
            self._read_head(exchange, data)

    # What becomes of an answer.

    def _answer_as_before(self, exchange: Exchange, seen: SeenResponse, data: bytes) -> None:
        """An endpoint says the same thing all day; what the parser made of it the last time still holds."""
        head, _, meaning = seen
        now = exchange.first_byte_at = self._runtime.clock()
        took_ms = (now - exchange.started) * 1000
        timings = exchange.timings(now) if exchange.connect_at else Timings(took_ms, None, None, None, took_ms)
        self._exchange = None
        self._keep(meaning, now)
        exchange.settle(_answer(meaning, timings, data[len(head) :]))

    def _read_head(self, exchange: Exchange, data: bytes) -> None:
        reader, now = self._reader, self._runtime.clock()
        if exchange.first_byte_at is None:
            exchange.first_byte_at = now
        reader.feed(data)
        if reader.problem is not None:
            exchange.fail(Failure.BAD_RESPONSE, reader.problem)
            return
        meaning = reader.meaning
        if meaning is None:
            return
        if reader.is_over:
            if reader.came_whole(len(data)):
                self.route.seen = SeenResponse(reader.head, len(data), meaning)
            self._end_body(meaning, now)
            return
        # The body gets its own short time, inside the one deadline of the attempt.
        self._runtime.wheel.disarm(exchange)
        self._runtime.wheel.arm(self, min(now + BODY_S_MAX, exchange.deadline))
        if 200 <= meaning.status < 300:
            self._exchange = None
            exchange.settle(_answer(meaning, exchange.timings(now), reader.body))

    def _end_body(self, meaning: ParsedHead, now: float) -> None:
        exchange, self._exchange = self._exchange, None
        reader = self._reader
        body = reader.body
        if reader.is_clean:
            self._runtime.wheel.disarm(self)
            reader.begin()
            self._keep(meaning, now)
        else:
            self.drop()
        # Last, because the caller may send the next request from inside: on this connection, if it is clean.
        if exchange is not None:
            exchange.settle(_answer(meaning, exchange.timings(now), body))

    def _keep(self, meaning: ParsedHead, now: float) -> None:
        transport = self._transport
        # An answer before the request was read: the rest of our bytes would stand before the next request. Over TLS the
        # transport counts only what it has not encrypted yet.
        if transport is None or transport.get_write_buffer_size() or (self._may_lag and not is_writable(self._fd)):
            self.drop()
            return
        self._was_used = True
        fresh_until = now + meaning.idle_s
        self.fresh_until = fresh_until if fresh_until < self.usable_until else self.usable_until
        self._pool.release(self, now)


def _answer(meaning: ParsedHead, timings: Timings, body: bytes) -> Answer:
    return Answer(
        meaning.status, timings, meaning.retry_after, meaning.expected_seq, meaning.outcome, meaning.head, body
    )
