"""The inbox: where verified events are stored once and applied once."""

from __future__ import annotations

import asyncio
import math
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from hooklane.core.verify import Handshake, Profile
from hooklane.core.verify.ring import Certificates
from hooklane.errors import ConfigError, StoreError, UsageError, VerificationError
from hooklane.model.clock import Instant, boot_now, wall_now
from hooklane.model.event import DEFAULT_TENANT
from hooklane.model.inbox import SETTLED, Row, Search
from hooklane.model.message import Reply, Request, Verdict
from hooklane.receiver.by_hand import Claim
from hooklane.receiver.drive import Failpoint, transaction
from hooklane.receiver.event import Event
from hooklane.receiver.fit import refuse_misfit
from hooklane.receiver.flows.handle import Context
from hooklane.receiver.flows.inline import Inline, Outcome, apply, loudest
from hooklane.receiver.flows.receive import Arrival
from hooklane.receiver.keeper import Keeper, Stats, as_search
from hooklane.receiver.order import Order
from hooklane.receiver.receipt import Receipt, answer, error_reply
from hooklane.receiver.runner import Plan, Run, Runner, Store
from hooklane.receiver.source import Source, Tenant, Where, make_source
from hooklane.receiver.worker import Worker
from hooklane.store.inbox import Flow, InboxStore
from hooklane.store.open_inbox import open_inbox
from hooklane.telemetry.events import Conflicted, Emit, Pruned, Received, Refused, nowhere

T = TypeVar("T")

LEASE_MS = 60_000
INLINE_WAIT_MS = 2_000
BODY_BYTES_MAX = 1_048_576


class Inbox:
    """Receives, verifies, stores and hands on.

    *where*: a URL (`sqlite:///app.db`, `postgresql://…`, `redis://…`, `dynamodb://table`, `memory://`), or your own
    engine, pool or Django alias.
    *mode*: `durable` (store, answer 200, let a worker run the handlers) or `inline` (run them before answering).
    Durable unless given; on Redis inline, because there what was acknowledged may be lost at a failover.
    """

    def __init__(
        self,
        where: Any,
        mode: Literal["durable", "inline"] | None = None,
        *,
        outbox: Any = None,
        lease_ms: int = LEASE_MS,
        inline_wait_ms: int = INLINE_WAIT_MS,
        emit: Emit = nowhere,
        clock: Callable[[], Instant] = wall_now,
        roll: Callable[[], float] = random.random,
        failpoint: Failpoint | None = None,
    ) -> None:
        if mode not in ("durable", "inline", None):
            raise ConfigError([f'mode must be "durable" or "inline", got {mode!r}'])
        self.store: InboxStore = open_inbox(where)
        if outbox is not None and not self.store.capabilities.outbox:
            raise ConfigError([f"event.send cannot be one commit with an inbox on {self.store.capabilities.name}"])
        self.mode = mode or self.store.capabilities.mode
        self.sources: dict[str, Source] = {}
        self.emit = emit
        self.clock = clock
        self.owner = f"{socket.gethostname()}:{os.getpid()}"
        self.lease_ms = lease_ms
        self.can_send = outbox is not None
        self.context = Context(store=self.store, clock=clock, roll=roll, can_send=self.can_send)
        self.runner = Runner(self.store, outbox=outbox, failpoint=failpoint, clock=clock)
        self.worker = Worker(self)
        self.keeper = Keeper(self)
        self.arrived = threading.Event()
        """Set when something was stored: an in-process worker wakes up."""
        self.inline = Inline(wait_ms=inline_wait_ms, lease_ms=lease_ms, owner=self.owner)

    # Sources and handlers

    def source(
        self,
        name: str,
        secrets: Sequence[str] | str = (),
        *,
        profile: str | Profile | None = None,
        order: Order | str | None = None,
        unsafe: bool = False,
        dedup: Literal["event_id", "state_token", "derived"] | None = None,
        event_id: Where | None = None,
        event_type: Where | None = None,
        key: Where | None = None,
        tenant: Tenant | None = None,
        url: str | None = None,
        tolerance_ms: int | None = None,
        verify_token: str | None = None,
        certificates: Certificates | None = None,
        roots: bytes | None = None,
        learn: bool = False,
        **rules: Any,
    ) -> Source:
        """Add a provider. *profile* is the one of the source's name unless given; *secrets* newest first.

        *event_id*, *event_type* and *key* say where those are if not where the profile has them: a path into the
        body, `header:name`, or a function of the parsed event. *tenant* is a name or a function of the message.
        *rules* are the fields of `Rules`: retention_ms, payload_ms, event_age_ms_max, body_bytes_max, retry, breaker …
        """
        if name in self.sources:
            raise UsageError(f"there is a source {name!r} already")
        made = make_source(
            name,
            secrets=secrets,
            profile=profile,
            order=order,
            unsafe=unsafe,
            dedup=dedup,
            places={"id": event_id, "type": event_type, "key": key},
            rules={"tenant": tenant, **rules},
            keys={
                "url": url,
                "tolerance_ms": tolerance_ms,
                "verify_token": verify_token,
                "certificates": certificates,
                "roots": roots,
                "learn": learn,
            },
        )
        refuse_misfit(made, self.store.capabilities)
        made.store = self.store.capabilities
        self.sources[name] = made
        return made

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
        yield from self.keeper.beat()
        try:
            receipts = self._seen(arrivals)
            if receipts is None and self.mode == "durable":
                receipts = yield Store(arrivals)
            elif receipts is None:
                receipts = []
                for arrival in arrivals:
                    receipts.append((yield from self._apply(arrival)))
        except StoreError:
            return self._unavailable(source)
        return self._answer(source, receipts, (time.perf_counter() - began) * 1000)

    def _seen(self, arrivals: list[Arrival]) -> list[Receipt] | None:
        """Receipts when all of it is known and done: with a single writer a duplicate need not wait for its turn.

        A look, not the truth: what it does not find is decided by the insert.
        """
        look = getattr(self.store, "look", None)
        if look is None:
            return None
        receipts: list[Receipt] = []
        for arrival, known in zip(arrivals, look([arrival.identity for arrival in arrivals]), strict=True):
            done = known is not None and (
                self.mode == "durable" or all(each.status in SETTLED for each in known.handlings)
            )
            if known is None or not done or known.fingerprint != arrival.message.fingerprint:
                return None
            receipts.append(Receipt(message=arrival.message, verdict=Verdict.DUPLICATE, id=known.id))
        return receipts

    def _apply(self, arrival: Arrival) -> Plan[Receipt]:
        """Inline: one handler after the other, each in a transaction of its own."""
        handlers = [] if arrival.standing()[1] is not None else arrival.handlers()
        if not any(handler.wants(arrival.message.type) for handler in handlers):
            (receipt,) = yield Store([arrival])
            return receipt  # type: ignore[no-any-return]
        paused_ms = max(self.worker.breakers.open_left_ms(handler) for handler in handlers)
        if paused_ms:
            return (yield from self._postpone(arrival, paused_ms))
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
            outcome: Outcome = yield Run(apply(self.context, arrival, handler, event, self.inline), handler.is_async)
            if outcome.settled is not None:
                self.worker.note(handler, event, outcome.settled, boot_now() - began)
            outcomes.append(outcome)
        return loudest(outcomes)

    def _postpone(self, arrival: Arrival, paused_ms: int) -> Plan[Receipt]:
        """A breaker is open: the sender comes back, or, if it gives up sooner, the event is kept for later."""
        budget = arrival.source.profile.budget
        if not budget.retries or budget.window_ms is None or budget.window_ms < paused_ms:
            (receipt,) = yield Store([arrival])
            return receipt  # type: ignore[no-any-return]
        seconds = math.ceil(paused_ms / 1000)
        return Receipt(message=arrival.message, verdict=Verdict.BUSY, retry_after_s=seconds)

    def claim(
        self,
        source: str,
        event_id: str,
        payload: bytes | str | dict[str, Any] = b"",
        *,
        type: str = "claim",
        tenant: str = DEFAULT_TENANT,
        name: str = "claim",
    ) -> Claim:
        """Claim an event by hand, in a `with` (or `async with`) block of your own: see `Claim`."""
        return Claim(self, source, event_id, payload, type=type, tenant=tenant, name=name)

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
        return self.keeper.tend()

    @property
    def body_bytes_max(self) -> int:
        """The longest body that any source takes: adapters stop reading there."""
        return max((source.rules.body_bytes_max for source in self.sources.values()), default=BODY_BYTES_MAX)

    # Keeping

    def prune(self) -> Pruned:
        """Remove what is older than its source's retention; never what is owed, dead, or not old enough yet."""
        return self.runner.run(self.keeper.prune())

    def replay(self, ids: Any = None, *, handler: str | None = None, shadow: bool = False, **search: Any) -> Any:
        """Run stored events again: one id, several, or all that match a filter; how many handlings are owed now.

        With *shadow* the handlers run at once in transactions that are rolled back, and what they did is reported.
        """
        found = as_search(ids, search)
        if shadow:
            return self.runner.run(self.keeper.shadow(found, handler))
        return self.runner.run(self.keeper.replay(found, handler))

    def skip(self, ids: Any = None, *, note: str, handler: str | None = None, **search: Any) -> int:
        """Give up dead, failed or held events; a key that waited behind one moves on. How many were."""
        return self.runner.run(self.keeper.skip(as_search(ids, search), handler, note))

    def rows(self, **search: Any) -> list[Row]:
        """Rows that match, oldest first: `source=`, `status=`, `type=`, `key=`, `event_id=`, `handler=`, `limit=` …"""
        return self.runner.run(_one(transaction(self.store.rows(Search(**search)))))

    def stats(self) -> Stats:
        """How many events are in which status, how old the oldest owed one is, what the breakers say."""
        return self.runner.run(self.keeper.stats())

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
            if receipt.verdict is Verdict.DUPLICATE:
                self.keeper.note_copy(receipt.id)
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
