"""One request under way: its deadline, how far it came, and the one call of `done` that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from hooklane.model.exchange import Answer, Failure, NoAnswer, Result, Timings
from hooklane.sender.transport.wheel import Expiring

if TYPE_CHECKING:
    from hooklane.sender.transport.connection import Connection
    from hooklane.sender.transport.route import Route
    from hooklane.sender.transport.runtime import Runtime


class Phase(Enum):
    """What a request waits for; its deadline means something else in each."""

    QUEUED = "queued"
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    SENT = "sent"


_AT_DEADLINE = {
    # Ours, not the peer's: there were more requests than connections_max lets through.
    Phase.QUEUED: (Failure.ABORTED, "no connection was free before the deadline"),
    Phase.DNS: (Failure.DNS, "no answer of the resolver before the deadline"),
    Phase.CONNECT: (Failure.TIMEOUT, "no connection before the deadline"),
    Phase.TLS: (Failure.TLS, "no end of the handshake before the deadline"),
    Phase.SENT: (Failure.TIMEOUT, "no complete response headers before the deadline"),
}


class Exchange:
    """A request from `send` to `done`. Whatever ends it first wins; all else comes too late."""

    # Defaults of the class: the common request on a kept connection sets only what it has.
    settled = False
    slot: set[Expiring] | None = None
    task: asyncio.Task[None] | None = None
    connection: Connection | None = None
    dns_at: float | None = None
    connect_at: float | None = None
    tls_at: float | None = None
    first_byte_at: float | None = None

    def __init__(
        self, runtime: Runtime, route: Route, request: bytes, done: Callable[[Result], None], started: float
    ) -> None:
        self._runtime = runtime
        self.route = route
        self.request = request
        self.done = done
        self.started = started
        self.deadline = started + route.timeout_s
        self.phase = Phase.QUEUED

    def expire(self) -> None:
        """The deadline passed before there were complete headers."""
        self.fail(*_AT_DEADLINE[self.phase])

    def abort(self) -> None:
        """We gave up ourselves."""
        self.fail(Failure.ABORTED, "the sender stopped")

    def fail(self, failure: Failure, detail: str) -> None:
        """There is no answer. The connection, or the making of one, ends with the request."""
        if self.settled:
            return
        connection, task = self.connection, self.task
        sent = self.phase is Phase.SENT
        if connection is not None:
            connection.drop()
        self.settle(NoAnswer(failure, self.timings(self._runtime.clock()), detail, sent))
        if task is not None:
            task.cancel()

    def timings(self, now: float) -> Timings:
        """Until *now*; a phase that a kept connection has spared is None."""
        started = self.started
        first_byte_at = self.first_byte_at
        first_byte_ms = None if first_byte_at is None else (first_byte_at - started) * 1000
        if self.connect_at is None and self.dns_at is None:
            return Timings((now - started) * 1000, None, None, None, first_byte_ms)
        dns_ms, connect_ms, tls_ms = (
            None if at is None else (at - started) * 1000 for at in (self.dns_at, self.connect_at, self.tls_at)
        )
        return Timings((now - started) * 1000, dns_ms, connect_ms, tls_ms, first_byte_ms)

    def settle(self, result: Result) -> None:
        """Tell the caller, once; what the caller's code raises is reported and ends nothing here."""
        if self.settled:
            return
        self.settled = True
        self.connection = None
        runtime = self._runtime
        if self.slot is not None:  # disarmed by hand: this runs for every request
            self.slot.discard(self)
        runtime.in_flight -= 1
        if isinstance(result, Answer):
            runtime.counters.answers += 1
        else:
            runtime.counters.failures[result.failure] += 1
        if runtime.in_flight == 0:
            runtime.wake_drained()
        try:
            self.done(result)
        except Exception as error:
            runtime.loop.call_exception_handler({"message": "the callback of a delivery failed", "exception": error})
