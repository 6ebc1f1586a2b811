"""The fast door: `POST /api/v1/events` answered inside the HTTP protocol, without a task or an ASGI cycle.

A subclass of uvicorn's httptools protocol; everything else goes on to the ASGI application as before. It also sets the
bounds that uvicorn leaves open: how large headers may be, and how long a request may take to arrive.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hooklane.errors import StoreError
from hooklane.model.event import DEFAULT_TENANT
from hooklane.server.api.events import draft_from
from hooklane.server.auth import Door
from hooklane.server.gateway import Gateway
from hooklane.server.json_body import EVENT_BODY_BYTES_MAX, read_event
from hooklane.server.problem import Problem, problem_of, refused
from hooklane.server.reply import accepted, common_lines, problem_reply
from hooklane.server.slot import Known, Slot, is_slot
from hooklane.store.outbox import Published, Refused

PATH = b"/api/v1/events"
HEADERS_MAX = 100
HEADER_BYTES_MAX = 64 * 1024
REQUEST_S_MAX = 30.0
IDLE_S_MAX = 75.0
LINGER_S = 2.0
LINGER_BYTES_MAX = 4 * 1024 * 1024
PENDING_MAX = 64
KNOWN_MAX = 32

log = logging.getLogger("hooklane.api")


class IngestProtocol(HttpToolsProtocol):
    """One connection. Answers leave in the order of the requests, whichever commit ends first."""

    def __init__(self, gateway: Gateway, door: Door, clock: Callable[[], float], **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self.gateway = gateway
        self.door = door
        self.clock = clock

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._slots: deque[Slot] = deque()
        self._slot: Slot | None = None
        self._known: dict[int, Known] = {}
        """By their size, since events differ by a few bytes and their heads by that count."""
        self._messages = 0
        self._is_between = True
        self._was_admitted = False
        self._admitted: tuple[bytes | None, ...] | None = None
        self._in_headers = False
        self._header_bytes = 0
        self._chunk_bytes = 0
        self._ending = False
        self._discarded = 0
        self._began: float | None = self.clock()
        self._idle_at = self.clock()

    # --- arriving ---

    def data_received(self, data: bytes) -> None:
        if self._ending:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES_MAX:
                self.transport.abort()
            return
        known = self._known.get(len(data))
        if known is not None and data.startswith(known.head) and self._enter_again(known, data):
            return
        began_alone, messages = self._is_between, self._messages
        self._chunk_bytes = len(data)
        super().data_received(data)
        if began_alone and self._is_between and self._messages == messages + 1:
            self._remember(data)
        if self._in_headers and not self._ending:
            # The parser gathers a header without a bound: count what has come of it so far.
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES_MAX:
                self._refuse(Problem("headers_too_large", f"headers may have {HEADER_BYTES_MAX} bytes"))

    def _enter_again(self, known: Known, data: bytes) -> bool:
        """A publish whose head is known: straight to its body. False where it must be looked at like any other."""
        before = self.cycle
        if not self._is_between or not self.door.knows_bytes(known.authorization):
            return False
        if before is not None and not before.response_complete and not is_slot(before):
            return False
        slot = Slot(keep_alive=True)
        slot.chunks.append(data[len(known.head) :])
        self.cycle = slot  # type: ignore[assignment]
        self._slots.append(slot)
        self._began = None
        if len(self._slots) >= PENDING_MAX:
            self.flow.pause_reading()
        self._submit(slot)
        return True

    def _remember(self, data: bytes) -> None:
        """Know this publish again, if it was one that could come again: kept alive, with its length in the head."""
        slot = self.cycle
        if not self._was_admitted or not is_slot(slot) or not slot.keep_alive or self._ending:
            return
        headers = dict(self.headers)
        size = data.find(b"\r\n\r\n") + 4
        length = headers.get(b"content-length", b"")
        if b"idempotency-key" not in headers and length.isdigit() and int(length) == len(data) - size:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[len(data)] = Known(data[:size], headers.get(b"authorization"))

    def on_message_begin(self) -> None:
        self._is_between = False
        self._was_admitted = False
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._slot = None
        self._in_headers = True
        self._header_bytes = 0
        self._began = self.clock()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._in_headers = False
        headers = self.headers
        if len(headers) > HEADERS_MAX or (self._chunk_bytes > HEADER_BYTES_MAX and _size(headers) > HEADER_BYTES_MAX):
            self._refuse(Problem("headers_too_large", f"at most {HEADERS_MAX} headers of {HEADER_BYTES_MAX} bytes"))
        elif self.url == PATH and self.parser.get_method() == b"POST" and self._enter(dict(headers)):
            pass
        elif self.parser.get_http_version() not in ("1.0", "1.1"):
            self._refuse(Problem("bad_request", "this is not HTTP/1.1"))
        else:
            url = self.url
            super().on_message_begin()  # makes the scope, and forgets what has arrived
            self.url, self.headers, self.scope["headers"] = url, headers, headers
            self.expect_100_continue = any(name == b"expect" for name, _ in headers)
            super().on_headers_complete()

    def _enter(self, headers: dict[bytes, bytes]) -> bool:
        """Open a slot for a plain publish; False where the request is better served by the application."""
        before = self.cycle
        if before is not None and not before.response_complete and not is_slot(before):
            return False  # pipelined behind something else: it must wait for its turn there
        if len(headers) != len(self.headers) or b"expect" in headers:
            return False  # a header twice, or a client that asks first
        slot = self._slot = Slot(self.parser.get_http_version() == "1.1" and self.parser.should_keep_alive())
        self.cycle = slot  # type: ignore[assignment]
        self._slots.append(slot)
        try:
            self._admit(headers)
            self._was_admitted = True
            if (declared := headers.get(b"content-length")) is not None and int(declared) > EVENT_BODY_BYTES_MAX:
                self._too_large(slot)
            if (key := headers.get(b"idempotency-key")) is not None:
                slot.idempotency_key = key.decode("latin-1")
        except Problem as problem:
            slot.reply = self._problem(slot, problem)
        if len(self._slots) >= PENDING_MAX:
            self.flow.pause_reading()
        return True

    def _admit(self, headers: dict[bytes, bytes]) -> None:
        authorization = headers.get(b"authorization")
        about = tuple([headers.get(name) for name in (b"host", b"origin", b"sec-fetch-site", b"content-type")])
        # What a kept connection sends the same every time is judged once; the key itself every time.
        if about == self._admitted and self.door.knows_bytes(authorization):
            return
        self.door.admit("POST", {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()})
        self._admitted = about

    def on_body(self, body: bytes) -> None:
        slot = self._slot
        if slot is None:
            if not self._ending:
                super().on_body(body)
            return
        if slot.reply is not None:
            return  # already refused: the rest is thrown away
        slot.size += len(body)
        slot.chunks.append(body)
        if slot.size > EVENT_BODY_BYTES_MAX:
            slot.chunks.clear()
            self._too_large(slot)

    def on_message_complete(self) -> None:
        self._is_between = True
        self._messages += 1
        self._began = None
        slot = self._slot
        if slot is None:
            if not self._ending:
                super().on_message_complete()
            return
        self._slot = None
        if slot.reply is None:
            self._submit(slot)
        else:
            self._flush()

    # --- answering ---

    def _submit(self, slot: Slot) -> None:
        chunks = slot.chunks
        gateway = self.gateway
        try:
            body = read_event(chunks[0] if len(chunks) == 1 else b"".join(chunks))
            draft = draft_from(body, DEFAULT_TENANT, gateway.now(), slot.idempotency_key)
        except Exception as error:
            slot.reply = self._problem(slot, problem_of(error))
            if slot.reply.startswith(b"HTTP/1.1 500"):
                log.error("a publish failed unexpectedly", exc_info=error)
            self._flush()
            return
        slot.chunks = []
        gateway.publisher.submit(draft, partial(self._done, slot))

    def _done(self, slot: Slot, result: Published | Refused | StoreError) -> None:
        """The commit is over: only now is there anything to say."""
        match result:
            case Published():
                slot.reply = accepted(result, self._common(slot))
            case Refused(code=code, detail=detail):
                slot.reply = self._problem(slot, refused(code, detail))
            case _:
                slot.reply = self._problem(slot, problem_of(result))
        if self._slots and self._slots[0] is slot:
            self._flush()

    def _flush(self) -> None:
        """Write what is ready, from the oldest on, in one piece."""
        slots, replies, last = self._slots, [], None
        while slots and slots[0].reply is not None and slots[0] is not self._slot:
            last = slots.popleft()
            last.response_complete = True
            replies.append(last.reply)
            if not last.keep_alive:
                slots.clear()
        if last is None or self.transport.is_closing():
            return
        self.transport.write(replies[0] if len(replies) == 1 else b"".join(replies))  # type: ignore[arg-type]
        self.server_state.total_requests += len(replies)
        if not last.keep_alive:
            self._end()
        elif not slots:
            self.on_response_complete()

    def on_response_complete(self) -> None:
        """As uvicorn does it, but for the timer of its own: `sweep` ends idle connections without one per answer."""
        self._idle_at = self.clock()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)

    def _problem(self, slot: Slot, problem: Problem) -> bytes:
        return problem_reply(problem, self._common(slot))

    def _common(self, slot: Slot) -> bytes:
        """The header lines that do not depend on the answer; the date changes once a second."""
        lines = common_lines(tuple(self.server_state.default_headers))
        return lines if slot.keep_alive else lines + b"connection: close\r\n"

    # --- ending ---

    def _too_large(self, slot: Slot) -> None:
        slot.keep_alive = False
        slot.reply = self._problem(slot, Problem("too_large", f"the body may have {EVENT_BODY_BYTES_MAX} bytes"))
        self._slot = None
        self._ending = True
        self._flush()

    def _refuse(self, problem: Problem) -> None:
        """Answer what cannot be read any further, and read nothing more."""
        self._ending = True
        cycle, slot = self.cycle, self._slot
        if slot is None and cycle is not None and not cycle.response_complete and not is_slot(cycle):
            self._cut_off(problem)
            return
        if slot is None:
            slot = Slot(keep_alive=False)
            self._slots.append(slot)
        slot.keep_alive = False
        slot.reply = self._problem(slot, problem)
        self._slot = None
        self._flush()

    def _cut_off(self, problem: Problem) -> None:
        """The same for a request that the application has begun to read: it is told that the client has gone."""
        if self._began is not None and not self.cycle.response_started and not self.pipeline:
            self.transport.write(problem_reply(problem, self._common(Slot(keep_alive=False))))
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self._end()

    def send_400_response(self, msg: str) -> None:
        if not self._ending and not self.transport.is_closing():
            self._refuse(Problem("bad_request", "this is not HTTP/1.1"))

    def _end(self) -> None:
        """Close so that the client gets to read the answer: closing with unread bytes would reset the connection."""
        if not self._ending or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)

    def sweep(self, now: float) -> None:
        """End a request that does not arrive (408), and a connection that nobody uses."""
        if self.transport.is_closing() or self._ending:
            return
        if self._began is not None:
            if now - self._began > REQUEST_S_MAX:
                self._refuse(Problem("request_timeout", f"a request must arrive within {REQUEST_S_MAX:g} s"))
        elif now - self._idle_at > IDLE_S_MAX and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.flow.pause_reading()  # who does not read our answers is not asked for more

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.pipeline:
            self.flow.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._slots.clear()


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)


def protocol_for(gateway: Gateway, door: Door, clock: Callable[[], float]) -> type[IngestProtocol]:
    """The protocol of one server, in the form in which uvicorn takes it: all that uvicorn does with it is call it."""
    return cast(type[IngestProtocol], partial(IngestProtocol, gateway, door, clock))
