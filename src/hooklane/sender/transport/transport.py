"""The HTTP client of deliveries: send a request to a target under one deadline, be told once what came of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from hooklane import __version__
from hooklane.model.clock import Instant
from hooklane.model.exchange import Result, Target
from hooklane.sender.egress import EgressGuard
from hooklane.sender.transport.dialer import Dialer
from hooklane.sender.transport.exchange import Exchange
from hooklane.sender.transport.open_files import open_files_now
from hooklane.sender.transport.pool import Pool
from hooklane.sender.transport.routes import Routes
from hooklane.sender.transport.runtime import Counters, Runtime

USER_AGENT = f"hooklane/{__version__}"


class Transport:
    """HTTP/1.1 over kept connections, with callbacks: no task, future or timer for a request on a kept connection.

    Redirects are not followed, bodies not decompressed, cookies, proxies and the environment not looked at.
    """

    def __init__(
        self,
        guard: EgressGuard,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        connections_max: int | None = None,
        user_agent: str = USER_AGENT,
        ca_file: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """*ca_file*: the operator's authorities in place of the system's; ConfigError when it holds none.

        The default *clock* is not the loop's: uvloop's stands still during a turn, and knows whole milliseconds only.
        """
        self._runtime = Runtime(loop or asyncio.get_running_loop(), clock)
        self._pool = Pool(self._runtime, connections_max or open_files_now().deliveries, self._dial)
        self._dialer = Dialer(guard, self._pool, ca_file)
        self._routes = Routes(guard, user_agent)
        self._guard = guard
        self._closing = False

    @property
    def counters(self) -> Counters:
        """What happened since the start."""
        return self._runtime.counters

    @property
    def certificates(self) -> Mapping[str, Instant]:
        """When the certificate ends that each endpoint showed last."""
        return self._dialer.certificates

    @property
    def in_flight(self) -> int:
        """How many requests were sent and have not ended."""
        return self._runtime.in_flight

    @property
    def connections_max(self) -> int:
        """How many requests can be under way at once; what is more waits in line, behind slow ones too."""
        return self._pool.connections_max

    def check(self, url: str) -> None:
        """UrlNotAllowed when deliveries may not go to *url*, by its spelling or its literal address; asks no DNS."""
        self._guard.check(url)

    def send(self, target: Target, headers: bytes, body: bytes, done: Callable[[Result], None]) -> None:
        """POST *body* to *target*; *done* is called exactly once, later, from the loop.

        *headers* are this request's own lines, each with its CRLF, already checked: content type, signature, ids. The
        deadline runs from here. A 2xx is told as soon as its headers are complete.
        """
        runtime = self._runtime
        now = runtime.clock()
        route = self._routes.of(target, now)
        request = b"%b%d\r\n%b\r\n%b" % (route.head, len(body), headers, body)
        exchange = Exchange(runtime, route, request, done, now)
        runtime.in_flight += 1
        if self._closing:
            runtime.loop.call_soon(exchange.abort)
        elif (refusal := route.refusal) is not None:
            runtime.loop.call_soon(exchange.fail, refusal.failure, refusal.detail)
        else:
            runtime.wheel.arm(exchange, exchange.deadline)
            self._pool.submit(exchange, now)

    async def close(self, grace_ms: int) -> None:
        """Take nothing new, wait up to *grace_ms* for what is under way, then end it as aborted. Repeatable."""
        self._closing = True
        try:
            async with asyncio.timeout(grace_ms / 1000):
                await self._runtime.drained()
        except TimeoutError:
            pass  # what is left is aborted below
        while self._pool.waiting:
            self._pool.waiting.popleft().abort()
        self._dialer.abort()
        await self._dialer.stopped()
        await self._pool.close()
        await self._runtime.drained()

    def _dial(self, exchange: Exchange) -> None:
        self._dialer.start(exchange)
