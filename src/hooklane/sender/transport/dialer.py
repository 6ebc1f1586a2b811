"""How does a connection come to be? Vet the host once, connect to a vetted address, and for https shake hands.

The one part with a task: one for each new connection, none for a request on a kept one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from hooklane.model.clock import Instant
from hooklane.model.exchange import Failure
from hooklane.sender.addresses import Address
from hooklane.sender.egress import Destination, EgressGuard, Refusal
from hooklane.sender.transport.connection import Connection
from hooklane.sender.transport.exchange import Phase
from hooklane.sender.transport.tls import default_context

if TYPE_CHECKING:
    from hooklane.sender.transport.exchange import Exchange
    from hooklane.sender.transport.pool import Pool
    from hooklane.sender.transport.route import Route

DIALS_PER_TURN = 2
"""How many may begin in one turn of the loop: a dial costs more than ten requests on a kept connection, and a crowd of
endpoints that always need a new one would otherwise hold up the answers of all for as long as all of them take."""
CERTIFICATES_MAX = 10_000
_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Dialer:
    """Makes connections under the deadline of the request that needs one; a failure is that request's result."""

    def __init__(self, guard: EgressGuard, pool: Pool, ca_file: str | None) -> None:
        self._guard = guard
        self._pool = pool
        self._runtime = pool.runtime
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None if ca_file is None else default_context(ca_file)
        self.certificates: dict[str, Instant] = {}
        """When the certificate ends that an endpoint showed last."""
        self._dials: dict[asyncio.Task[None], _Dial] = {}
        self._waiting: deque[Exchange] = deque()
        self._begun = 0
        """In this turn of the loop."""
        self._turn_is_set = False

    def start(self, exchange: Exchange) -> None:
        """Make a connection for *exchange*, now or after those that wait already; it holds a place in the pool."""
        if self._begun < DIALS_PER_TURN and not self._waiting:
            self._begin(exchange)
        else:
            self._waiting.append(exchange)
        self._set_turn()

    def _set_turn(self) -> None:
        if not self._turn_is_set:
            self._turn_is_set = True
            self._runtime.loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turn_is_set = False
        self._begun = 0
        while self._waiting and self._begun < DIALS_PER_TURN:
            exchange = self._waiting.popleft()
            if exchange.settled:  # it waited for too long, or was given up
                self._pool.not_opened()
            else:
                self._begin(exchange)
        if self._waiting:
            self._set_turn()

    def _begin(self, exchange: Exchange) -> None:
        self._begun += 1
        dial = _Dial(exchange)
        task = exchange.task = self._runtime.loop.create_task(self._run(dial), name="dial")
        self._dials[task] = dial
        # Not in the task itself: one that is cancelled before its first step never runs.
        task.add_done_callback(self._ended)

    def abort(self) -> None:
        """Give up every dial under way, each with its request."""
        for exchange in [*self._waiting, *(dial.exchange for dial in self._dials.values())]:
            exchange.abort()

    async def stopped(self) -> None:
        """Returns when no dial is under way."""
        await asyncio.gather(*self._dials, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        dial = self._dials.pop(task)
        if dial.connection is None or not dial.connection.was_opened:
            self._pool.not_opened()

    async def _run(self, dial: _Dial) -> None:
        exchange = dial.exchange
        try:
            address, sock = await self._reach(exchange)
            dial.connection = Connection(self._pool, exchange, address, sock)
            await self._establish(dial.connection, sock, exchange)
        except _Failed as failed:
            exchange.task = None  # it ends by itself
            exchange.fail(failed.failure, failed.detail)
        except Exception as error:
            self._runtime.loop.call_exception_handler({"message": "a dial failed unexpectedly", "exception": error})
            exchange.task = None
            exchange.fail(Failure.CONNECT, "the connection could not be made")

    async def _reach(self, exchange: Exchange) -> tuple[Address, socket.socket]:
        route = exchange.route
        destination = route.destination
        assert destination is not None
        exchange.phase = Phase.DNS
        addresses = await self._vet(route, destination)
        if destination.literal is None:
            exchange.dns_at = self._runtime.clock()
        exchange.phase = Phase.CONNECT
        address, sock = await self._connect(exchange, destination, addresses)
        exchange.connect_at = self._runtime.clock()
        if route.vetted is not None and set(route.vetted) == set(addresses):  # and no later lookup said otherwise
            # Next time this one first: behind a dead route for IPv6 every new connection would wait again.
            route.vetted = (address, *(other for other in addresses if other != address))
        return address, sock

    async def _establish(self, connection: Connection, sock: socket.socket, exchange: Exchange) -> None:
        destination = exchange.route.destination
        assert destination is not None
        if destination.secure:
            exchange.phase = Phase.TLS
            context = exchange.route.context or self._default_context()
            await self._shake_hands(connection, sock, destination, context, exchange.route.target.endpoint_id)
        else:
            await self._runtime.loop.create_connection(lambda: connection, sock=sock)

    async def _vet(self, route: Route, destination: Destination) -> tuple[Address, ...]:
        vetted = await self._guard.vet(destination)
        if isinstance(vetted, Refusal):
            if vetted.failure is Failure.TARGET_NOT_ALLOWED:
                route.vetted = ()
                self._pool.forget(route)
            raise _Failed(vetted.failure, vetted.detail)
        if route.vetted is not None and set(route.vetted) == set(vetted):
            return route.vetted
        self._pool.forget(route)
        route.vetted = vetted
        return vetted

    async def _connect(
        self, exchange: Exchange, destination: Destination, addresses: tuple[Address, ...]
    ) -> tuple[Address, socket.socket]:
        problem = "no address"
        for tried, address in enumerate(addresses):
            # An address that swallows packets leaves a fair share of the time to those after it; the last has it all.
            left = len(addresses) - tried
            share_s = (exchange.deadline - self._runtime.clock()) / left if left > 1 else None
            try:
                async with asyncio.timeout(share_s):
                    return address, await self._open(address, destination.port)
            except TimeoutError:
                problem = "timed out"
            except OSError as error:
                if error.errno in _OURS:
                    raise _Failed(Failure.ABORTED, f"this host has no room: {os.strerror(error.errno)}") from error
                # Not the error's own text: asyncio writes the address into it.
                problem = os.strerror(error.errno) if error.errno else type(error).__name__
        raise _Failed(Failure.CONNECT, f"no connection: {problem}")

    async def _open(self, address: Address, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._runtime.loop.sock_connect(sock, (str(address), port))
            peer = sock.getpeername()
            if ip_address(peer[0]) != address:
                raise _Failed(Failure.TARGET_NOT_ALLOWED, "the peer is not the vetted address")
            if peer == sock.getsockname():  # on the loopback a free port can be connected to itself
                raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        except BaseException:
            sock.close()
            raise
        return sock

    async def _shake_hands(
        self,
        connection: Connection,
        sock: socket.socket,
        destination: Destination,
        context: ssl.SSLContext,
        endpoint_id: str,
    ) -> None:
        try:
            transport, _ = await self._runtime.loop.create_connection(
                lambda: connection, sock=sock, ssl=context, server_hostname=destination.host, ssl_handshake_timeout=3600
            )
            self._note_certificate(endpoint_id, transport.get_extra_info("peercert"))
        except ssl.SSLCertVerificationError as error:
            raise _Failed(Failure.TLS, f"certificate: {error.verify_message}") from error
        except ssl.SSLError as error:
            raise _Failed(Failure.TLS, f"handshake: {error.reason or 'failed'}") from error
        except (OSError, ValueError) as error:
            raise _Failed(Failure.TLS, f"handshake: {type(error).__name__}") from error

    def _note_certificate(self, endpoint_id: str, certificate: Mapping[str, Any] | None) -> None:
        """Until when the endpoint's certificate is good, for people."""
        ends = (certificate or {}).get("notAfter")
        if ends and (endpoint_id in self.certificates or len(self.certificates) < CERTIFICATES_MAX):
            self.certificates[endpoint_id] = Instant(ssl.cert_time_to_seconds(ends) * 1000)

    def _default_context(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = default_context(self._ca_file)
        return self._context


class _Dial:
    """A connection in the making."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.connection: Connection | None = None


class _Failed(Exception):
    """The dial ended; inside this file only."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
