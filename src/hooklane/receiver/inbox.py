"""The inbox: where verified events are stored once and applied once."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from hooklane.core.verify import Handshake, Profile
from hooklane.errors import ConfigError, StoreError, UsageError, VerificationError
from hooklane.model.clock import Instant, boot_now, wall_now
from hooklane.model.inbox import Row, Search
from hooklane.model.message import Reply, Request, Verdict
from hooklane.receiver.drive import Failpoint, transaction
from hooklane.receiver.event import Event
from hooklane.receiver.flows.handle import Context
from hooklane.receiver.flows.inline import Inline, Outcome, apply, loudest
from hooklane.receiver.flows.receive import Arrival, receive
from hooklane.receiver.order import Order
from hooklane.receiver.receipt import Receipt, answer, error_reply
from hooklane.receiver.runner import Plan, Run, Runner
from hooklane.receiver.source import Rules, Source, make_source
from hooklane.receiver.worker import Worker
from hooklane.store.inbox import Flow, InboxStore
from hooklane.store.open_inbox import open_inbox
from hooklane.telemetry.events import Conflicted, Emit, Received, Refused, nowhere

T = TypeVar("T")

LEASE_MS = 60_000
INLINE_WAIT_MS = 2_000
BODY_BYTES_MAX = 1_048_576


class Inbox:
    """Receives, verifies, stores and hands on.

    *where*: a URL (`sqlite:///app.db`, `postgresql://…`, `memory://`), or your own engine, pool or Django alias.
    *mode*: `durable` (store, answer 200, let a worker run the handlers) or `inline` (run them before answering).
    """

    def __init__(
        self,
        where: Any,
        mode: Literal["durable", "inline"] = "durable",
        *,
        outbox: Any = None,
        lease_ms: int = LEASE_MS,
        inline_wait_ms: int = INLINE_WAIT_MS,
        emit: Emit = nowhere,
        clock: Callable[[], Instant] = wall_now,
        roll: Callable[[], float] = random.random,
        failpoint: Failpoint | None = None,
    ) -> None:
        if mode not in ("durable", "inline"):
            raise ConfigError([f'mode must be "durable" or "inline", got {mode!r}'])
        self.store: InboxStore = open_inbox(where)
        if outbox is not None and not self.store.capabilities.outbox:
            raise ConfigError([f"event.send cannot be one commit with an inbox on {self.store.capabilities.name}"])
        self.mode = mode
        self.sources: dict[str, Source] = {}
        self.emit = emit
        self.clock = clock
        self.owner = f"{socket.gethostname()}:{os.getpid()}"
        self.lease_ms = lease_ms
        self.can_send = outbox is not None
        self.context = Context(store=self.store, clock=clock, roll=roll, can_send=self.can_send)
        self.runner = Runner(self.store, outbox=outbox, failpoint=failpoint)
        self.worker = Worker(self)
        self.arrived = threading.Event()
        """Set when something was stored: an in-process worker wakes up."""
        self._inline = Inline(wait_ms=inline_wait_ms, lease_ms=lease_ms, owner=self.owner)

    # Sources and handlers

    def source(
        self,
        name: str,
        secrets: Sequence[str] | str = (),
        *,
        profile: str | Profile | None = None,
        order: Order | str | None = None,
        unsafe: bool = False,
        dedup: str | None = None,
        url: str | None = None,
        rules: Rules | None = None,
        **options: Any,
    ) -> Source:
        """Add a provider. *profile* is the source's name unless given; secrets newest first."""
        if name in self.sources:
            raise UsageError(f"there is a source {name!r} already")
        self.sources[name] = make_source(
            name,
            secrets=secrets,
            profile=profile,
            order=order,
            unsafe=unsafe,
            dedup=dedup,
            url=url,
            rules=rules,
            options=options,
        )
        return self.sources[name]

    # Receiving

    def receive(self, request: Request, source: str | None = None) -> Reply:
        """Answer *request*; the source is the last part of the URL's path unless given."""
        opened = self._open(request, source)
        return opened if isinstance(opened, Reply) else self.runner.run(self._receive(*opened))

    async def areceive(self, request: Request, source: str | None = None) -> Reply:
        """The same for async code: the event loop is never blocked."""
        opened = self._open(request, source)
        return opened if isinstance(opened, Reply) else await self.runner.arun(self._receive(*opened))

    def _open(self, request: Request, source: str | None) -> Reply | tuple[Source, list[Arrival]]:
        name = source if source is not None else request.url.partition("?")[0].rstrip("/").rpartition("/")[2]
        found = self.sources.get(name)
        if found is None:
            return self._refuse(name[:64], "unknown_source", 404, "not found")
        if len(request.body) > found.rules.body_bytes_max:
            return self._refuse(name, "too_large", 413, "too large")
        is_post = request.method == "POST"
        if not is_post and not found.profile.handshakes:
            return self._refuse(name, "method", 405, "method not allowed", ("allow", "POST"))
        now = self.clock()
        try:
            unsealed = found.unseal(request, now)
        except VerificationError as error:
            if is_post:
                return self._refuse(name, error.reason, 401, "unauthorized")
            return self._refuse(name, "method", 405, "method not allowed", ("allow", "POST"))
        if isinstance(unsealed, Handshake):
            return unsealed.reply
        if not is_post:
            return self._refuse(name, "method", 405, "method not allowed", ("allow", "POST"))
        headers = found.kept_headers.of(request)
        return found, [Arrival.of(found, item, headers, now) for item in unsealed.items]

    def _receive(self, source: Source, arrivals: list[Arrival]) -> Plan[Reply]:
        began = time.perf_counter()
        try:
            if self.mode == "durable":
                receipts: list[Receipt] = yield Run(receive(self.store, arrivals, self.clock()))
            else:
                receipts = []
                for arrival in arrivals:
                    receipts.append((yield from self._apply(arrival)))
        except StoreError:
            return self._unavailable(source)
        return self._answer(source, receipts, (time.perf_counter() - began) * 1000)

    def _apply(self, arrival: Arrival) -> Plan[Receipt]:
        """Inline: one handler after the other, each in a transaction of its own."""
        handlers = [] if arrival.standing()[1] is not None else arrival.handlers()
        if not any(handler.wants(arrival.message.type) for handler in handlers):
            (receipt,) = yield Run(receive(self.store, [arrival], self.clock()))
            return receipt  # type: ignore[no-any-return]
        outcomes: list[Outcome] = []
        for handler in handlers:
            event = Event(
                arrival.message,
                attempt=1,
                received_at=arrival.received_at,
                handler=handler.name,
                headers=arrival.headers,
                data_path=arrival.source.profile.data,
                can_send=self.can_send,
            )
            began = boot_now()
            outcome: Outcome = yield Run(apply(self.context, arrival, handler, event, self._inline), handler.is_async)
            if outcome.settled is not None:
                self.worker.note(handler, event, outcome.settled, boot_now() - began)
            outcomes.append(outcome)
        return loudest(outcomes)

    # Working

    def run_once(self, limit: int = 100) -> int:
        """Handle up to *limit* events that are due, now and here; how many were."""
        return self.runner.run(self.worker.plan(limit))

    async def arun_once(self, limit: int = 100) -> int:
        """The same from async code."""
        return await self.runner.arun(self.worker.plan(limit))

    def start_worker(self, threads: int = 1) -> None:
        """Handle events in threads of this process, from now on."""
        self.worker.start(threads)

    def ensure_worker(self) -> None:
        """Have a worker in this process: a task of the running event loop, or else a thread."""
        if self.mode != "durable" or self.worker.is_running:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.worker.start()
        else:
            self.worker.start_task()

    def stop(self, timeout_s: float | None = 30.0) -> None:
        """End the worker when what it has in hand is done."""
        self.worker.stop(timeout_s)

    async def astop(self, timeout_s: float | None = 30.0) -> None:
        """The same from async code."""
        await self.worker.astop(timeout_s)

    def tend(self) -> Plan[None]:
        """What a worker does when there is nothing to handle."""
        yield from ()

    @property
    def body_bytes_max(self) -> int:
        """The longest body that any source takes: adapters stop reading there."""
        return max((source.rules.body_bytes_max for source in self.sources.values()), default=BODY_BYTES_MAX)

    # Looking

    def rows(self, **search: Any) -> list[Row]:
        """Rows that match, oldest first: `source=`, `status=`, `type=`, `key=`, `event_id=`, `handler=`, `limit=` …"""
        return self.runner.run(_one(transaction(self.store.rows(Search(**search)))))

    # Answers

    def _answer(self, source: Source, receipts: list[Receipt], took_ms: float) -> Reply:
        for receipt in receipts:
            message = receipt.message
            self.emit(
                Received(
                    source=message.source,
                    tenant=message.tenant,
                    event_id=message.event_id,
                    type=message.type,
                    verdict=receipt.verdict,
                    took_ms=took_ms,
                    delivery_id=message.delivery_id,
                    attempt=message.attempt,
                )
            )
            if receipt.verdict is Verdict.CONFLICT:
                self.emit(Conflicted(source=message.source, tenant=message.tenant, event_id=message.event_id))
        self.arrived.set()
        return answer(receipts, own_sender=source.profile.own_sender, ok_status=source.profile.ok_status)

    def _refuse(self, source: str, reason: str, status: int, error: str, *headers: tuple[str, str]) -> Reply:
        self.emit(Refused(source=source, reason=reason, status=status))
        return error_reply(status, error, Verdict.REJECTED, *headers)

    def _unavailable(self, source: Source) -> Reply:
        self.emit(Refused(source=source.name, reason="store_unavailable", status=503))
        return error_reply(503, "try again", Verdict.BUSY, ("retry-after", "5"))

    def close(self) -> None:
        """End the worker; let go of connections and threads."""
        self.stop()
        self.runner.close()
        self.store.close()


def _one(flow: Flow[T]) -> Plan[T]:
    """A plan of one flow."""
    result: T = yield Run(flow)
    return result
