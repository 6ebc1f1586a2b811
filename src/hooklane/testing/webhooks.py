"""The fixture `webhooks`: what a provider and a network do to a receiver, one line each.

def test_paid_once(webhooks, db):
    event = webhooks.stripe("invoice.paid", data={"object": {"id": "in_1"}})
    webhooks.deliver(event, copies=5, concurrent=True)
    assert webhooks.applied(event) == 1
"""

from __future__ import annotations

import asyncio
import secrets as chance
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any

from hooklane.core.profiles import find_profile
from hooklane.core.verify.places import InHeader
from hooklane.errors import UsageError
from hooklane.model.clock import Instant, wall_now
from hooklane.model.message import Reply, Request, Status
from hooklane.receiver.inbox import Inbox
from hooklane.testing.answers import Answers, as_reply
from hooklane.testing.build_request import Draft
from hooklane.testing.credentials import Credentials, credentials
from hooklane.testing.crowd import arrivals_of, together
from hooklane.testing.provider import Provider, Webhook, provider_for, provider_of
from hooklane.testing.scheduling import reordered
from hooklane.testing.watch import Crashed, CrashPoint, Watch

PASSES_MAX = 1_000
SETTLE_S = 30.0

Receive = Callable[[Request], Any]


class Webhooks:
    """Makes, delivers and counts webhooks for the receiver under test. As a fixture, or `with Webhooks(inbox) as …`."""

    def __init__(self, inbox: Any = None) -> None:
        self.last = Answers()
        """What was answered to the last delivery."""
        self._watch: Watch | None = None
        self._receive: Receive | None = None
        self._secrets: Mapping[str, str | Credentials] = {}
        self._clock: Callable[[], Instant] = wall_now
        self._providers: dict[str, Provider] = {}
        self._keys: list[tuple[Any, Any]] = []
        self._prefix, self._made = chance.token_hex(4), 0
        if inbox is not None:
            self.use(inbox)

    # The receiver under test

    def use(
        self,
        receiver: Inbox | Receive,
        *,
        secrets: Mapping[str, str | Credentials] | None = None,
        clock: Callable[[], Instant] = wall_now,
    ) -> None:
        """Test *receiver*: an `Inbox`, or any function that takes a `Request` and answers a status or a `Reply`.

        A function verifies with *secrets*, by the provider's name; `webhooks.secret(name)` gives one that fits.
        """
        self._let_go()
        if isinstance(receiver, Inbox):
            self._watch, self._clock = Watch(receiver), receiver.clock.clock
        elif callable(receiver):
            self._receive, self._secrets, self._clock = receiver, dict(secrets or {}), clock
        else:
            raise UsageError(
                f"webhooks.use takes an Inbox, or a function of a Request; got a {type(receiver).__name__}"
            )

    def __repr__(self) -> str:
        """What pytest shows of it where an assertion fails."""
        return f"<webhooks, last answered {self.statuses} {self.verdicts}>"

    @property
    def inbox(self) -> Inbox:
        """The inbox under test."""
        return self._watched().inbox

    def secret(self, name: str) -> str:
        """A secret of the right kind for the provider *name*, to configure a receiver with in tests."""
        return credentials(find_profile(name)).secret

    def __enter__(self) -> Webhooks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._let_go()

    def _let_go(self) -> None:
        for source, keys in self._keys:
            source.keys = keys
        if self._watch is not None:
            self._watch.restore()
        self._watch = self._receive = None
        self._providers, self._keys, self.last = {}, [], Answers()

    def _watched(self) -> Watch:
        if self._watch is None:
            what = "this receiver is a function and not an inbox: look at what it did yourself"
            raise UsageError(what if self._receive is not None else _NO_INBOX)
        return self._watch

    # What is sent

    def __getattr__(self, name: str) -> Callable[..., Webhook]:
        """`webhooks.stripe("invoice.paid", …)`: an event of that provider, for the source that has it."""
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return partial(self.event, self._source_for(name))
        except UsageError as error:
            raise AttributeError(str(error)) from None

    def event(
        self,
        source: str,
        type: str,
        data: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        key: str | None = None,
        seq: int | None = None,
        prev_seq: int | None = None,
        happened_at: Instant | None = None,
    ) -> Webhook:
        """An event of the source called *source*, in its provider's shape and rightly signed; not delivered yet."""
        provider = self._provider(source)
        id = id or self._new_id(provider)
        data = dict(data or {})
        if provider.profile.id and isinstance(provider.profile.id[0], InHeader):
            # Its id is in a header that is not signed, so an inbox tells events apart by their bodies as well.
            data.setdefault("test_id", id)
        draft = Draft(
            type=type,
            data=data,
            id=id,
            key=key,
            seq=seq,
            prev_seq=prev_seq,
            # Fixed here: a retry repeats when it happened, not when it is sent.
            event_time=self._clock() if happened_at is None else happened_at,
        )
        return provider.send(draft)

    def batch(self, *events: Webhook) -> Webhook:
        """One request with the events of several, for providers that send batches."""
        if len({event.source for event in events}) != 1:
            raise UsageError("a batch is made of events of one source")
        provider = self._provider(events[0].source)
        if not provider.profile.split:
            raise UsageError(f"{provider.profile.title} sends one event per request")
        return provider.send(*(draft for event in events for draft in event.drafts))

    def retry(self, event: Webhook) -> Webhook:
        """The provider's next attempt: the same id and content, a new timestamp, signature and delivery id."""
        return self._provider(event.source).retry(event)

    def changed(self, event: Webhook, data: Mapping[str, Any]) -> Webhook:
        """A conflict: other *data* under the same id, rightly signed."""
        return self._provider(event.source).changed(event, data)

    def tampered(self, event: Webhook) -> Webhook:
        """Changed on its way, so that its signature does not fit."""
        return self._provider(event.source).tampered(event)

    def stale(self, event: Webhook, by: float | timedelta = 60.0, data: Mapping[str, Any] | None = None) -> Webhook:
        """Another event about the same thing, older *by* (seconds), that arrives now."""
        provider = self._provider(event.source)
        return provider.stale(event, self._new_id(provider), by, data)

    def expired(self, event: Webhook, by: float | timedelta = 86_400.0) -> Webhook:
        """The same event as it was signed *by* (seconds) ago: a captured request, sent again."""
        return self._provider(event.source).expired(event, by)

    def reordered(self, events: Sequence[Webhook], seed: int = 0) -> list[Webhook]:
        """*events* in another order, the same for the same *seed*."""
        return reordered(events, seed)

    # Delivering

    def deliver(
        self, *events: Webhook | Sequence[Webhook], copies: int = 1, concurrent: bool = False, work: bool = True
    ) -> Answers:
        """Deliver each of *events*, *copies* times, one after the other or all at once; then run the handlers of what
        was stored until nothing is due, unless *work* is false."""
        self._refuse_inside_a_loop()
        arrivals = arrivals_of(events, copies)
        if concurrent:
            self.last = Answers(together([partial(self._deliver, each) for each in arrivals]))
        else:
            self.last = Answers([self._deliver(each) for each in arrivals])
        if work:
            self.work(workers=min(len(arrivals), 4) if concurrent else 1)
        return self.last

    async def adeliver(
        self, *events: Webhook | Sequence[Webhook], copies: int = 1, concurrent: bool = False, work: bool = True
    ) -> Answers:
        """`deliver` in async code, in this event loop."""
        arrivals = arrivals_of(events, copies)
        if concurrent:
            self.last = Answers(await asyncio.gather(*(self._adeliver(each) for each in arrivals)))
        else:
            self.last = Answers([await self._adeliver(each) for each in arrivals])
        if work:
            await self.awork(workers=min(len(arrivals), 4) if concurrent else 1)
        return self.last

    def work(self, workers: int = 1) -> None:
        """Run the handlers of what is stored until nothing is due now; what is to be retried later waits."""
        if self._is_function:
            return
        watch = self._watched()
        watch.handlers()
        for _ in range(PASSES_MAX):
            if not sum(together([watch.inbox.run_once] * workers) if workers > 1 else [watch.inbox.run_once()]):
                break
        if watch.inbox.worker.is_running:
            self._wait_for_the_worker(watch.inbox)

    async def awork(self, workers: int = 1) -> None:
        """`work` in async code."""
        if self._is_function:
            return
        watch = self._watched()
        watch.handlers()
        for _ in range(PASSES_MAX):
            if not sum(await asyncio.gather(*(watch.inbox.arun_once() for _ in range(workers)))):
                break

    def crash(self, event: Webhook, at: CrashPoint, *, redeliver: bool = True) -> Answers:
        """Deliver *event* to a receiver that dies at that point of the handler's turn, as by kill -9: what was
        committed stays, nothing else does. Then, unless *redeliver* is false, its provider tries again."""
        self._refuse_inside_a_loop()
        self.work()
        try:
            with self._watched().crashing(at):
                self.deliver(event)
        except Crashed:
            self.last = Answers()
            return self.deliver(self.retry(event)) if redeliver else self.last
        raise AssertionError(f"the receiver did not come to {at}: it answered {self.last.verdicts}")

    async def acrash(self, event: Webhook, at: CrashPoint, *, redeliver: bool = True) -> Answers:
        """`crash` in async code."""
        await self.awork()
        try:
            with self._watched().crashing(at):
                await self.adeliver(event)
        except Crashed:
            self.last = Answers()
            return await self.adeliver(self.retry(event)) if redeliver else self.last
        raise AssertionError(f"the receiver did not come to {at}: it answered {self.last.verdicts}")

    def wait(self, seconds: float) -> None:
        """Let time pass for the inbox, and run what became due; it must have been made with `clock=Clock()`."""
        self._watched()
        advance = getattr(self._clock, "advance", None)
        if advance is None:
            raise UsageError("time passes only on a clock of the test: Inbox(…, clock=hooklane.testing.Clock())")
        advance(seconds)
        self.work()

    # What came of it

    def applied(self, event: Webhook) -> int:
        """How often a handler's work on *event* was committed, whichever of its copies brought it."""
        watch = self._watched()
        return sum(watch.commits[name] for name in watch.names(event.name))

    def runs(self, event: Webhook) -> int:
        """How often a handler was called with *event*, also when its work was rolled back."""
        watch = self._watched()
        return sum(watch.runs[name] for name in watch.names(event.name))

    @property
    def verdicts(self) -> list[str | None]:
        """The verdicts of the last delivery."""
        return self.last.verdicts

    @property
    def statuses(self) -> list[int]:
        """The HTTP statuses of the last delivery."""
        return self.last.statuses

    # Inside

    @property
    def _is_function(self) -> bool:
        return self._receive is not None

    def _deliver(self, event: Webhook) -> Reply:
        if self._receive is not None:
            return as_reply(self._receive(event.request))
        watch = self._watched()
        watch.handlers()
        with watch.delivering(event.name):
            return watch.inbox.receive(event.request, event.source)

    async def _adeliver(self, event: Webhook) -> Reply:
        if self._receive is not None:
            answer = self._receive(event.request)
            return as_reply(await answer if hasattr(answer, "__await__") else answer)
        watch = self._watched()
        watch.handlers()
        with watch.delivering(event.name):
            return await watch.inbox.areceive(event.request, event.source)

    def _wait_for_the_worker(self, inbox: Inbox) -> None:
        """The application's own worker may have the last of it in hand."""
        over = threading.Event()
        for _ in range(int(SETTLE_S / 0.01)):
            stats = inbox.stats()
            if not stats.total(Status.IN_PROGRESS) and not stats.total(Status.PENDING):
                return
            over.wait(0.01)
        raise AssertionError(f"after {SETTLE_S:g} s the application's worker still has something in hand")

    def _refuse_inside_a_loop(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        if self._watch is not None and not self._watch.inbox.store.capabilities.sync:
            raise UsageError("this inbox is on an async engine or pool of the test's loop: await webhooks.adeliver(…)")

    def _source_for(self, name: str) -> str:
        """The source called *name*, or the one whose provider is."""
        if self._receive is not None:
            return find_profile(name).name if name not in self._secrets else name
        sources = self._watched().inbox.sources
        if name in sources:
            return name
        profile = find_profile(name)
        found = [source.name for source in sources.values() if source.profile.name == profile.name]
        if len(found) != 1:
            many = f"several ({', '.join(found)}): say webhooks.event(source, …)" if found else "none"
            raise UsageError(f"of the inbox's sources {sorted(sources)}, {many} is of {profile.title}")
        return found[0]

    def _provider(self, name: str) -> Provider:
        if self._watch is None and self._receive is None:
            self._watched()
        if name not in self._providers:
            self._providers[name] = self._find_provider(name)
        return self._providers[name]

    def _find_provider(self, name: str) -> Provider:
        if self._receive is not None:
            return provider_for(name, find_profile(name), self._secrets.get(name), self._clock)
        inbox = self._watched().inbox
        source = inbox.sources.get(name)
        if source is None:
            raise UsageError(f"the inbox has no source {name!r}; it has {sorted(inbox.sources)}")
        provider, keys = provider_of(source, lambda: self._clock())
        if keys is not None:
            self._keys.append((source, source.keys))
            source.keys = keys
        return provider

    def _new_id(self, provider: Provider) -> str:
        self._made += 1
        number = int(self._prefix, 16) * 1_000_000 + self._made
        return str(number) if provider.profile.name == "telegram" else f"evt_{self._prefix}_{self._made}"


_NO_INBOX = "no inbox to test: make a fixture called `inbox` that returns yours, or call webhooks.use(inbox)"


__all__ = ["Answers", "Crashed", "Webhook", "Webhooks"]
