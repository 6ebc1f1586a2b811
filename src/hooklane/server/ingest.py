"""The fast path: `POST /api/v1/events` answered inside the HTTP protocol, without a task or an ASGI cycle.

A subclass of uvicorn's httptools protocol; everything else goes on to the ASGI application as before. It also sets the
bounds that uvicorn leaves open: how large headers may be, and how long a request may take to arrive.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, cast

from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hooklane.errors import StoreError
from hooklane.model.size import size_text
from hooklane.server.arriving import ArrivingBody, no_room
from hooklane.server.auth import Authenticator
from hooklane.server.caller import TENANT_HEADER, tenant_of_call
from hooklane.server.framing import Parser, asks_first, is_coded
from hooklane.server.json_body import EVENT_BODY_BYTES_MAX, draft_from, read_event
from hooklane.server.problem import Problem, problem_of, refused
from hooklane.server.publish_request import (
    KnownHead,
    PublishRequest,
    is_plain_key,
    is_publish_request,
    known_head,
)
from hooklane.server.reply import accepted, common_lines, problem_reply
from hooklane.server.services import Services
from hooklane.store.outbox import Draft, Published, Refused
from hooklane.telemetry import tracing

PATH: Final = b"/api/v1/events"
HEADERS_MAX: Final = 100
HEADER_BYTES_MAX: Final = 64 * 1024
REQUEST_S_MAX = 30.0
IDLE_S_MAX = 75.0
IDLE_S_HURRY = 2.0
REQUEST_S_HURRY = 5.0
"""So long may a request take to arrive where others wait to be let in: half requests would else hold every place.

And so long may answers stand still that the client does not read."""
TAKEN_BYTES_MIN: Final = 16 * 1024
"""Of answers that wait to be read, a client takes at least so much in that time, or all of them."""
LINGER_S = 2.0
LINGER_BYTES_MAX: Final = 4 * 1024 * 1024
PENDING_MAX: Final = 64
KNOWN_MAX = 32
_TENANT_HEADER = TENANT_HEADER.encode()
TOO_MANY_HEADERS = f"a request has at most {HEADERS_MAX} headers, {size_text(HEADER_BYTES_MAX)} together"
TOO_MUCH_BESIDES = f"what stands between and behind the chunks of a body is at most {size_text(HEADER_BYTES_MAX)}"
TOO_MANY_PENDING = f"{PENDING_MAX} requests wait for their answers on this connection: read those first"
TOO_LARGE = f"the body is larger than {size_text(EVENT_BODY_BYTES_MAX)}, the most for an event"

log = logging.getLogger("hooklane.api")


class IngestProtocol(HttpToolsProtocol):
    """One connection. Answers leave in the order of the requests, whichever commit ends first."""

    parser: Parser  # type: ignore[assignment]

    def __init__(self, services: Services, auth: Authenticator, clock: Callable[[], float], **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self.parser = Parser(self)
        self.services = services
        self.auth = auth
        self.clock = clock
        self.lost: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._requests: deque[PublishRequest] = deque()
        self._request: PublishRequest | None = None
        self._known: dict[int, KnownHead] = {}
        """By their size, since events differ by a few bytes and their heads by that count."""
        self._checking: set[asyncio.Future[None]] = set()
        self._messages = 0
        self._running: RequestResponseCycle | None = None
        """What the application is at work on, or was last. `cycle` is what arrived last."""
        self._is_between = True
        self._was_admitted = False
        self._admitted: tuple[bytes | None, ...] | None = None
        self._in_headers = False
        self._header_bytes = 0
        self._chunk_bytes = 0
        self._had_body = False
        self._unread: tuple[float, int] | None = None
        """Since when answers wait to be read, and how many bytes waited then."""
        self._ending = False
        self._last_words: bytes | None = None
        """The answer to what could not be read, once all that came before it is answered."""
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
        if (
            known is not None
            and data.startswith(known.start)
            and data.startswith(known.end, known.key_end)
            and self._enter_again(known, data)
        ):
            return
        began_alone, messages = self._is_between, self._messages
        self._chunk_bytes = len(data)
        self._had_body = False
        self._parse(data)
        if self._request is not None and self._request.size:
            self._hold(self._request)
        if began_alone and self._is_between and self._messages == messages + 1:
            self._remember(data)
        if (self._in_headers or not (self._is_between or self._had_body)) and not self._ending:
            self._count_headers(len(data), is_new=began_alone or self._messages != messages)

    def _count_headers(self, size: int, *, is_new: bool) -> None:
        """Bound a head that is not complete, and what comes behind the last chunk of a body: the parser gathers each
        header without a bound. *is_new*: the request began within these *size* bytes, behind others perhaps."""
        self._header_bytes = 1 + len(self.url) + _size(self.headers) if is_new else self._header_bytes + size
        if self._header_bytes > HEADER_BYTES_MAX:
            text = TOO_MANY_HEADERS if self._in_headers else TOO_MUCH_BESIDES
            self._refuse(Problem("headers_too_large", text))

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserError:
            if not self._ending and not self.transport.is_closing():
                self._refuse(Problem("bad_request", "the request is not valid HTTP/1.1"))

    def _enter_again(self, known: KnownHead, data: bytes) -> bool:
        """A publish whose head is known: straight to its body. False where it must be looked at like any other."""
        before = self.cycle
        if not self._is_between or self.auth.publisher(known.authorization) is None:
            return False
        if before is not None and not before.response_complete and not is_publish_request(before):
            return False
        key = known.key_of(data)
        if key and not is_plain_key(key):
            return False
        request = PublishRequest(keep_alive=True, tenant=known.tenant)
        if key:
            request.idempotency_key = key.decode("latin-1")
        request.chunks.append(data[known.size :])
        self.cycle = request  # type: ignore[assignment]
        self._requests.append(request)
        self._began = None
        if len(self._requests) >= PENDING_MAX:
            self.flow.pause_reading()
        self._submit(request)
        return True

    def _remember(self, data: bytes) -> None:
        """Know this publish again, if it was one that could come again: kept alive, with its length in the head."""
        request = self.cycle
        if not self._was_admitted or not is_publish_request(request) or not request.keep_alive or self._ending:
            return
        headers = dict(self.headers)
        size = data.find(b"\r\n\r\n") + 4
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or int(length) != len(data) - size:
            return
        known = known_head(data[:size], headers, request.tenant)
        if known is not None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[len(data)] = known

    def on_message_begin(self) -> None:
        self._is_between = False
        self._was_admitted = False
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._request = None
        self._in_headers = True
        self._header_bytes = 0
        self._began = self.clock()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_headers:  # what stands behind a body is no header of the request
            self.headers.append((name.lower(), value.rstrip(b" \t")))  # the parser has left out the blanks before it

    def on_headers_complete(self) -> None:
        self._in_headers = False
        if self._ending or self._is_aside():
            return
        headers = self.headers
        is_long = self._chunk_bytes > HEADER_BYTES_MAX or self._header_bytes
        if len(headers) > HEADERS_MAX or (is_long and _size(headers) > HEADER_BYTES_MAX):
            self._refuse(Problem("headers_too_large", TOO_MANY_HEADERS))
        elif is_coded(headers):
            self._refuse(Problem("bad_request", "the only Transfer-Encoding that this server reads is chunked"))
        elif (
            self.url == PATH
            and self.parser.get_method() == b"POST"
            and tracing.active is None  # the application makes the span of a publish
            and self._enter(dict(headers))
        ):
            pass
        elif len(self.pipeline) >= PENDING_MAX:
            self._refuse(Problem("too_many_requests", TOO_MANY_PENDING))
        elif (version := self.parser.get_http_version()) not in ("1.0", "1.1"):
            self._refuse(Problem("bad_request", "the request is not valid HTTP/1.1"))
        elif version == "1.1" and not any(name == b"host" for name, _ in headers):
            self._refuse(Problem("bad_request", "the Host header is missing"))
        else:
            url = self.url
            super().on_message_begin()  # makes the scope, and forgets what has arrived
            self.url, self.headers, self.scope["headers"] = url, headers, headers
            self.expect_100_continue = version == "1.1" and asks_first(headers)
            super().on_headers_complete()

    def _is_aside(self) -> bool:
        """Whether this head will be read once more, as that of a plain request. A tunnel has no plain form."""
        if not self.parser.is_aside():
            return False
        if self.parser.get_method() == b"CONNECT":
            self._refuse(Problem("method_not_allowed", "this server is not a proxy: CONNECT is not supported"))
        return True

    def _enter(self, headers: dict[bytes, bytes]) -> bool:
        """Begin a publish request; False where the ASGI application has to serve it."""
        before = self.cycle
        if before is not None and not before.response_complete and not is_publish_request(before):
            return False  # pipelined behind something else: it must wait for its turn there
        if len(headers) != len(self.headers) or b"expect" in headers or b"host" not in headers:
            return False  # a header twice, a client that asks first, or nothing that is HTTP/1.1
        if (caller := self.auth.publisher(headers.get(b"authorization"))) is None:
            return False  # the application counts wrong keys, and says what a key does not permit
        try:
            named = headers.get(_TENANT_HEADER)
            wanted = None if named is None else named.decode("latin-1")
            tenant = tenant_of_call(caller.tenant, wanted, self.services.tenants)
        except Problem:
            return False  # the application looks into the store before it says so
        request = self._request = PublishRequest(
            self.parser.get_http_version() == "1.1" and self.parser.should_keep_alive(), tenant
        )
        self.cycle = request  # type: ignore[assignment]
        self._requests.append(request)
        try:
            self._admit(headers)
            self._was_admitted = True
            if (declared := headers.get(b"content-length")) is not None and int(declared) > EVENT_BODY_BYTES_MAX:
                self._too_large(request)
            if (key := headers.get(b"idempotency-key")) is not None:
                request.idempotency_key = key.decode("latin-1")
        except Problem as problem:
            request.reply = self._problem(request, problem)
        if len(self._requests) >= PENDING_MAX:
            self.flow.pause_reading()
        return True

    def _admit(self, headers: dict[bytes, bytes]) -> None:
        """The rest of what the application would look at, for a key that is known."""
        about = tuple([headers.get(name) for name in (b"host", b"origin", b"sec-fetch-site", b"content-type")])
        # What a kept connection sends the same every time is judged once; the key itself every time.
        if about == self._admitted:
            return
        self.auth.check_known(
            "POST", {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}
        )
        self._admitted = about

    def on_body(self, body: bytes) -> None:
        self._had_body = True
        request = self._request
        if request is None:
            if not self._ending:
                super().on_body(body)
            return
        if request.reply is not None:
            return  # already refused: the rest is thrown away
        request.size += len(body)
        request.chunks.append(body)
        if request.size > EVENT_BODY_BYTES_MAX:
            request.chunks.clear()
            self._too_large(request)

    def _hold(self, request: PublishRequest) -> None:
        """A body that comes in pieces counts among those that arrive; where there is no room for it, it ends."""
        if request.body is None:
            request.body = ArrivingBody(partial(self._give_up, request))
        if not self.services.arriving.grow(request.body, request.size - request.body.size):
            self._give_up(request)

    def _give_up(self, request: PublishRequest) -> None:
        request.chunks.clear()
        if request is self._request and not self._ending:
            self._refuse(no_room())

    def _let_go(self) -> None:
        """The request that was arriving arrives no more."""
        request, self._request = self._request, None
        if request is not None and request.body is not None:
            self.services.arriving.drop(request.body)

    def on_message_complete(self) -> None:
        if self.parser.is_aside():
            return
        self._is_between = True
        self._messages += 1
        self._began = None
        request = self._request
        if request is None:
            if not self._ending:
                super().on_message_complete()
            return
        self._let_go()
        if request.reply is None:
            self._submit(request)
        else:
            self._flush()

    # --- answering ---

    def _submit(self, request: PublishRequest) -> None:
        chunks = request.chunks
        services = self.services
        try:
            if (used_up := services.publish_limits.used_up(request.tenant)) is not None:
                request.chunks = []
                self._done(request, used_up)
                return
            body = read_event(chunks[0] if len(chunks) == 1 else b"".join(chunks))
            draft = draft_from(body, request.tenant, services.now(), request.idempotency_key)
            request.chunks = []
            if not services.types.enforced or self._keeps_schema(request, draft):
                services.publisher.submit(draft, partial(self._done, request))
        except Exception as error:
            self._fail(request, error)

    def _fail(self, request: PublishRequest, error: Exception) -> None:
        """Answer a publish that did not get as far as the store, so that no client waits for ever."""
        problem = problem_of(error)
        if problem.status == 500:
            log.error("a publish failed unexpectedly", exc_info=error)
        self._refuse_event(request, problem)

    def _keeps_schema(self, request: PublishRequest, draft: Draft) -> bool:
        """Whether the event may go on at once; where not, it is answered here, or by a task that checks it aside."""
        verdict = self.services.types.judge(draft.event)
        if verdict is None:
            return True
        if isinstance(verdict, Problem):
            self._refuse_event(request, verdict)
        else:
            checking = asyncio.ensure_future(self._submit_checked(request, draft, verdict))
            self._checking.add(checking)
            checking.add_done_callback(self._checking.discard)
        return False

    async def _submit_checked(self, request: PublishRequest, draft: Draft, verdict: Awaitable[Problem | None]) -> None:
        try:
            problem = await verdict
            if problem is None:
                self.services.publisher.submit(draft, partial(self._done, request))
            else:
                self._refuse_event(request, problem)
        except Exception as error:
            self._fail(request, error)

    def _refuse_event(self, request: PublishRequest, problem: Problem) -> None:
        request.reply = self._problem(request, problem)
        if self._requests and self._requests[0] is request:
            self._flush()

    def _done(self, request: PublishRequest, result: Published | Refused | StoreError) -> None:
        """The commit is over: only now is there anything to say."""
        match result:
            case Published():
                request.reply = accepted(result, self._common(request))
            case Refused():
                request.reply = self._problem(request, refused(result))
            case _:
                request.reply = self._problem(request, problem_of(result))
        if self._requests and self._requests[0] is request:
            self._flush()

    def _flush(self) -> None:
        """Write what is ready, from the oldest on, in one piece."""
        requests, replies, last = self._requests, [], None
        while requests and requests[0].reply is not None and requests[0] is not self._request:
            last = requests.popleft()
            last.response_complete = True
            replies.append(last.reply)
            if not last.keep_alive:
                requests.clear()
        if last is None or self.transport.is_closing():
            return
        self.transport.write(replies[0] if len(replies) == 1 else b"".join(replies))  # type: ignore[arg-type]
        self.server_state.total_requests += len(replies)
        if not last.keep_alive:
            self._end()
        elif not requests:
            self.on_response_complete()
        elif len(requests) < PENDING_MAX and not self.pipeline:
            self._go_on_reading()  # the last of them may be one that has come in part

    def on_response_complete(self) -> None:
        """As uvicorn does it, but for the timer of its own: `sweep` ends idle connections without one per answer."""
        self._idle_at = self.clock()
        if self.transport.is_closing():
            return
        self._go_on_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self._last_words is not None:
            self.transport.write(self._last_words)
            self._end()

    def _go_on_reading(self) -> None:
        """Unless answers wait to be read: `resume_writing` goes on then."""
        if self.flow.read_paused and not self.flow.write_paused:
            self.flow.resume_reading()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _problem(self, request: PublishRequest, problem: Problem) -> bytes:
        return problem_reply(problem, self._common(request))

    def _common(self, request: PublishRequest) -> bytes:
        """The header lines that do not depend on the answer; the date changes once a second."""
        lines = common_lines(self.server_state.default_headers)
        return lines if request.keep_alive else lines + b"connection: close\r\n"

    # --- ending ---

    def _too_large(self, request: PublishRequest) -> None:
        request.keep_alive = False
        request.reply = self._problem(request, Problem("too_large", TOO_LARGE))
        self._let_go()
        self._ending = True
        self._flush()

    def _refuse(self, problem: Problem) -> None:
        """Answer what cannot be read any further, and read nothing more."""
        self._ending = True
        cycle, request = self.cycle, self._request
        if request is None and cycle is not None and not cycle.response_complete and not is_publish_request(cycle):
            self._refuse_behind(problem)
            return
        if request is None:
            request = PublishRequest(keep_alive=False)
            self._requests.append(request)
        request.keep_alive = False
        request.reply = self._problem(request, problem)
        self._let_go()
        self._flush()

    def _refuse_behind(self, problem: Problem) -> None:
        """The same where the application is at work on this connection: what came whole is answered first."""
        words = problem_reply(problem, self._common(PublishRequest(keep_alive=False)))
        cycle = self.cycle
        if not cycle.more_body:
            self._last_words = words
        elif self.pipeline:
            self.pipeline.popleft()  # the request that breaks off, whose work has not begun
            self._last_words = words
        else:
            if not cycle.response_started:
                self.transport.write(words)
            cycle.disconnected = True  # the application is told that the client has gone
            cycle.message_event.set()
            self._end()

    def _end(self) -> None:
        """Close so that the client gets to read the answer: closing with unread bytes would reset the connection."""
        if not self._ending or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)

    def sweep(self, now: float, *, hurry: bool = False) -> None:
        """End a request that does not arrive (408), an idle connection, and a client that does not read its answers:
        soon, where others wait (*hurry*)."""
        request_s_max = REQUEST_S_HURRY if hurry else REQUEST_S_MAX
        if self._is_unread(now, request_s_max):
            self.transport.abort()  # to close it would be to wait until all is read
            return
        if self.transport.is_closing() or self._ending:
            return
        idle_s_max = IDLE_S_HURRY if hurry else IDLE_S_MAX
        if self._began is not None:
            if hurry and self._is_between and now - self._began > idle_s_max:
                self.transport.close()  # it has not even begun a request
                return
            if now - self._began > request_s_max:
                self._refuse(Problem("request_timeout", f"the request did not arrive within {request_s_max:g} s"))
        elif now - self._idle_at > idle_s_max and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def _is_unread(self, now: float, within_s: float) -> bool:
        """Whether the client has taken next to nothing of its answers for longer than *within_s*."""
        size = self.transport.get_write_buffer_size()
        if not size:
            self._unread = None
        elif self._unread is None or self._unread[1] - size >= TAKEN_BYTES_MIN:
            self._unread = now, size
        return self._unread is not None and now - self._unread[0] > within_s

    def pause_writing(self) -> None:
        super().pause_writing()
        self.flow.pause_reading()  # a client that does not read our answers is not read from

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = None  # what is written next has a time of its own
        if not self.pipeline:
            self.flow.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True  # uvicorn tells only the request that came last
            self._running.message_event.set()
        self.pipeline.clear()
        self._requests.clear()
        self._let_go()
        self.lost()


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)


def protocol_for(services: Services, auth: Authenticator, clock: Callable[[], float]) -> type[IngestProtocol]:
    """The protocol of one server, in the form in which uvicorn takes it: all that uvicorn does with it is call it."""
    return cast(type[IngestProtocol], partial(IngestProtocol, services, auth, clock))
