"""The inbox: where verified events are stored once and applied once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, Unpack, overload

from hooklane.core.admission.retention import RETENTION_MS
from hooklane.core.verify.profile import Profile
from hooklane.core.verify.ring import Certificates
from hooklane.errors import ConfigError, UsageError
from hooklane.model.clock import Instant, boot_now, wall_now
from hooklane.model.inbox import Row
from hooklane.model.jumps import Believed, Told
from hooklane.model.message import DEFAULT_ACCOUNT, Reply, Request
from hooklane.model.whole import is_whole
from hooklane.receiver.claim import Claim
from hooklane.receiver.drivers import Failpoint
from hooklane.receiver.flows.context import Context
from hooklane.receiver.flows.inline import Inline
from hooklane.receiver.flows.maintain import Shadow
from hooklane.receiver.gaps import Gaps
from hooklane.receiver.maintenance import Maintenance
from hooklane.receiver.order import Order, OrderWord
from hooklane.receiver.receive import Receiving, source_in
from hooklane.receiver.replays import Replays
from hooklane.receiver.retention import Retention
from hooklane.receiver.runner import Plan, Run, Runner
from hooklane.receiver.search import Filter, Ids, as_search
from hooklane.receiver.source import Account, KeepSecret, RulesGiven, Source, Where, make_source
from hooklane.receiver.stats import Stats
from hooklane.receiver.steps import transaction
from hooklane.receiver.validate.fits_store import check_fits_store
from hooklane.receiver.validate.outbox import PublishesInTx, check_outbox
from hooklane.receiver.validate.values import function_problems
from hooklane.receiver.wakeup import Wakeup
from hooklane.receiver.worker import Worker
from hooklane.store.inbox import Flow, InboxStore
from hooklane.store.open_inbox import open_inbox
from hooklane.telemetry.events import Emit, InboxEvent, Pruned, nowhere
from hooklane.telemetry.inbox_log import InboxLog
from hooklane.telemetry.sinks import bind, guarded, logs

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

    A sync handler may run in another thread than the request that brought its event: always in durable mode and from
    an event loop, and on SQLite in inline mode too, where requests that come together share a commit. It has the
    context variables of its request, not its thread-locals.
    """

    def __init__(
        self,
        where: object,
        mode: Literal["durable", "inline"] | None = None,
        *,
        outbox: PublishesInTx | None = None,
        lease_ms: int = LEASE_MS,
        inline_wait_ms: int = INLINE_WAIT_MS,
        emit: Emit = nowhere,
        clock: Callable[[], Instant] = wall_now,
        roll: Callable[[], float] = random.random,
        failpoint: Failpoint | None = None,
    ) -> None:
        problems = [] if mode in ("durable", "inline", None) else [f'mode must be "durable" or "inline", got {mode!r}']
        if not is_whole(lease_ms, least=0):
            problems.append(f"lease_ms is a whole number of at least 0, got {lease_ms!r}")
        if not is_whole(inline_wait_ms, least=0):
            problems.append(f"inline_wait_ms is a whole number of at least 0, got {inline_wait_ms!r}")
        problems += function_problems({"emit": emit, "clock": clock, "roll": roll, "failpoint": failpoint or nowhere})
        if problems:
            raise ConfigError(problems)
        self.store: InboxStore = open_inbox(where)
        if outbox is not None:
            check_outbox(self.store, outbox)
        self.mode = mode or self.store.capabilities.mode
        self.sources: dict[str, Source] = {}
        self.emit = guarded(emit)
        self._log = nowhere if logs(emit) else guarded(InboxLog())
        self.clock = Told(clock)
        self.lease_ms = lease_ms
        self.can_send = outbox is not None
        self.context = Context(store=self.store, clock=self.clock, roll=roll)
        if clock is wall_now:
            believed = Believed()
            believed.at(clock(), boot_now())
            self.context = replace(self.context, believed=lambda now: believed.at(now, boot_now()))
        self.runner = Runner(self.store, outbox=outbox, failpoint=failpoint, clock=self.clock)
        self.worker = Worker(self)
        self.retention = Retention(self)
        self.gaps = Gaps(self)
        self.replays = Replays(self)
        self.maintenance = Maintenance(self)
        self._receiving = Receiving(self)
        self.arrived = Wakeup()
        """Set when something was stored: an in-process worker wakes up."""
        self.inline = Inline(wait_ms=inline_wait_ms, lease_ms=lease_ms)
        bind(emit, self)

    # Sources and handlers

    def source(
        self,
        name: str,
        secrets: Sequence[str] | str | None = (),
        *,
        profile: str | Profile | None = None,
        order: Order | OrderWord | None = None,
        unsafe: bool = False,
        dedup: Literal["event_id", "state_token", "derived"] | None = None,
        event_id: Where | None = None,
        event_type: Where | None = None,
        key: Where | None = None,
        account: Account | None = None,
        url: str | None = None,
        tolerance_ms: int | None = None,
        verify_token: str | None = None,
        certificates: Certificates | None = None,
        roots: bytes | None = None,
        learn: bool | KeepSecret = False,
        **rules: Unpack[RulesGiven],
    ) -> Source:
        """Add a provider. *profile* is the one of the source's name unless given; *secrets* newest first.

        *event_id*, *event_type* and *key* say where those are if not where the profile has them: a path into the
        body, `header:name`, or a function of the parsed event. *account* is a name or a function of the message.
        *learn*, for providers that tell their secret in their first request (Asana, Notion): a function that stores it,
        for the next start to give as *secrets*; with True this process alone knows it, until it ends.
        *rules* are the fields of `Rules`: retention_ms, payload_ms, event_age_ms_max, body_bytes_max, retry, breaker …
        """
        made = make_source(
            name,
            secrets=secrets,
            profile=profile,
            order=order,
            unsafe=unsafe,
            dedup=dedup,
            places={"id": event_id, "type": event_type, "key": key},
            rules={"account": account, **rules},
            keys={
                "url": url,
                "tolerance_ms": tolerance_ms,
                "verify_token": verify_token,
                "certificates": certificates,
                "roots": roots,
                "learn": learn,
            },
        )
        if name in self.sources:
            raise UsageError(f"this inbox has a source {name!r} already")
        check_fits_store(made, self.store.capabilities)
        made.store = self.store.capabilities
        self.sources[name] = made
        return made

    # Receiving

    def receive(self, request: Request, source: str | None = None) -> Reply:
        """Answer *request*; the source is the last part of the URL's path unless given."""
        opened = self._receiving.open(request, source)
        return opened if isinstance(opened, Reply) else self.runner.run(self._receiving.receive(*opened))

    async def areceive(self, request: Request, source: str | None = None) -> Reply:
        """`receive` for async code: the event loop is never blocked."""
        opened = self._receiving.open(request, source)
        return opened if isinstance(opened, Reply) else await self.runner.arun(self._receiving.receive(*opened))

    def too_large(self, url: str, source: str | None = None) -> Reply:
        """The answer to a request that an adapter has not read to its end, because of `body_bytes_max`."""
        return self._receiving.turn_away(source_in(url) if source is None else source)

    def broken_off(self, source: str) -> Reply:
        """The answer to a request whose body an adapter could not read to its end: the sender repeats it."""
        return self._receiving.break_off(source)

    def claim(
        self,
        source: str,
        event_id: str,
        payload: bytes | str | dict[str, Any] = b"",
        *,
        type: str = "claim",
        account: str = DEFAULT_ACCOUNT,
        name: str = "claim",
    ) -> Claim:
        """Claim an event by hand, in a `with` (or `async with`) block of your own: see `Claim`."""
        return Claim(self, source, event_id, payload, type=type, account=account, name=name)

    # Working

    def run_once(self, limit: int = 100) -> int:
        """Handle up to *limit* events that are due, now and here; how many were. What a worker does in idle moments
        (gaps that are over, pruning) is done when none was: call it again and again, and you need no other worker."""
        return self.runner.run(self.worker.round(limit))

    async def arun_once(self, limit: int = 100) -> int:
        """`run_once`, from async code."""
        return await self.runner.arun(self.worker.round(limit))

    def start_worker(self, threads: int = 1) -> None:
        """Handle events in threads of this process, from now on."""
        self.worker.start(threads)

    def ensure_worker(self, threads: int = 1) -> None:
        """Have a worker in this process: a task of the running event loop, or else so many threads.

        In inline mode too: what an open breaker postponed, or a crash left to a second handler, was acknowledged.
        """
        if self.worker.is_running:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.worker.start(threads)
        else:
            self.worker.start_task()

    def stop(self, timeout_s: float | None = 30.0) -> None:
        """End the worker when what it has in hand is done."""
        self.worker.stop(timeout_s)

    async def astop(self, timeout_s: float | None = 30.0) -> None:
        """`stop`, from async code."""
        await self.worker.astop(timeout_s)

    def tell(self, trouble: InboxEvent) -> None:
        """Emit what went wrong, and log it too where *emit* is no log: it is seen without any setting."""
        self.emit(trouble)
        self._log(trouble)

    def tend(self) -> Plan[int]:
        """What a worker does when there is nothing to handle; how many keys may go on by it."""
        return self.maintenance.tend()

    @property
    def body_bytes_max(self) -> int:
        """The longest body that any source takes: adapters stop reading there."""
        return max((source.rules.body_bytes_max for source in self.sources.values()), default=BODY_BYTES_MAX)

    # Keeping

    def prune(self, *, retention_ms: int = RETENTION_MS) -> Pruned:
        """Remove what is older than its source's retention; never what is owed, dead, or not old enough yet.

        *retention_ms* counts only where this inbox has no sources, as on the command line. What a source that was
        renamed or removed has left is pruned once no event of it came for the default retention.
        """
        return self.runner.run(self.retention.prune(retention_ms))

    def examine(self) -> list[str]:
        """What an operator should mend about the store, in words; nothing where the store has nothing to say."""
        examine = getattr(self.store, "examine", None)
        return [] if examine is None else self.runner.run(_one(transaction(examine())))

    @overload
    def replay(
        self, ids: Ids = None, *, handler: str | None = None, shadow: Literal[False] = False, **search: Unpack[Filter]
    ) -> int: ...

    @overload
    def replay(
        self, ids: Ids = None, *, handler: str | None = None, shadow: Literal[True], **search: Unpack[Filter]
    ) -> list[Shadow]: ...

    def replay(
        self, ids: Ids = None, *, handler: str | None = None, shadow: bool = False, **search: Unpack[Filter]
    ) -> int | list[Shadow]:
        """Run stored events again: one id, several, or all that match a filter; how many handlings are owed now.

        With *status* only the handlings in it: what is dead for one handler does not run again at another.
        What was applied in its place of a sequence stays as it is: later events of its key stand on it.
        With *shadow* the handlers run at once in transactions that are rolled back, and what they did is reported.
        """
        found = as_search(ids, search)
        if shadow:
            return self.runner.run(self.replays.shadow(found, handler))
        return self.runner.run(self.replays.replay(found, handler))

    def skip(self, ids: Ids = None, *, note: str, handler: str | None = None, **search: Unpack[Filter]) -> int:
        """Give up dead, failed or held events; a key that waited behind one moves on. How many were.

        With *status* only the handlings in it; what is pending, of a handler that is gone, is given up only so.
        With a held event what it waits for is given up too, if that never came; if it is here, settle that first.
        """
        return self.runner.run(self.replays.skip(as_search(ids, search), handler, note))

    def rows(self, *, ids: Ids = None, handler: str | None = None, **search: Unpack[Filter]) -> list[Row]:
        """Rows that match, oldest first: `source=`, `status=`, `type=`, `key=`, `event_id=`, `handler=`, `limit=` …

        Of each, `message` says which event it is, `overall` its status, and `handlings` how it stands with each
        handler; the `status` of a row itself is what it was stored as.
        """
        return self.runner.run(
            _one(transaction(self.store.rows(as_search(ids, {"limit": 100, "handler": handler, **search}))), reads=True)
        )

    def stats(self) -> Stats:
        """How many events are in which status, how old the oldest owed one is, what the breakers say."""
        return self.runner.run(self.maintenance.stats())

    def close(self) -> None:
        """End the worker; let go of connections and threads."""
        self.stop()
        self.runner.run(self.retention.leave())
        self.runner.close()
        self.store.close()

    async def aclose(self) -> None:
        """`close`, from async code."""
        await self.astop()
        await self.runner.arun(self.retention.leave())
        self.runner.close()
        await self.store.aclose()


def _one(flow: Flow[T], *, reads: bool = False) -> Plan[T]:
    """A plan of one flow."""
    result: T = yield Run(flow, reads=reads)
    return result
