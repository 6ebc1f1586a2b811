"""Maintenance: what an inbox does besides receiving and handling, as plans. Retention, replay, gaps, figures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hooklane.core.admission.breaker import BreakerState
from hooklane.core.admission.retention import RETENTION_MS, STILL_FUNCTION_MS, STILL_MS, cutoff
from hooklane.core.admission.turns import OnGap
from hooklane.core.verify import Dedup
from hooklane.errors import Overtaken, StoreError, UsageError
from hooklane.model.clock import START, Instant
from hooklane.model.inbox import Count, Gap, Heartbeat, Row, RowId, Search, Track
from hooklane.model.message import Status
from hooklane.receiver.failure import text_of
from hooklane.receiver.flows.maintain import Shadow, close_gap, heartbeat, reopen, shadow, skip, skip_row
from hooklane.receiver.order import InSequence
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.search import PAGE, Pages, still_matches
from hooklane.receiver.source import Handler, Rules
from hooklane.receiver.steps import HandlerFailed, transaction
from hooklane.store.inbox import Flow
from hooklane.telemetry.events import GapClosed, GapStopped, Pruned, WorkerTroubled

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

BEAT_MS = 60_000
CLOCK_MS = 10_000
"""So often it is written down what time it is: a clock that is set back while no worker runs costs as much at most."""
GAP_CHECK_MS = 1_000
PRUNE_MS = 3_600_000
SETTLE_MS = 3_600_000
"""After a downtime nothing is pruned for so long: senders are about to repeat what they could not deliver."""
PRUNE_ROWS = 500
PRUNE_BATCHES_MAX = 1_000
COPIES_MAX = 1_000
STATS_WAIT_MS = 100
GIVEN_UP = (Status.DEAD, Status.FAILED, Status.HELD)
"""What `skip` takes of a row; what is pending, of a handler that is gone perhaps, must be asked for by its status."""


@dataclass(frozen=True, slots=True)
class Stats:
    """How an inbox is doing."""

    counts: tuple[Count, ...]
    breakers: dict[tuple[str, str], BreakerState]
    now: Instant

    def total(self, status: Status) -> int:
        """How many handlings (or rows without one) are in *status*."""
        return sum(count.rows for count in self.counts if count.status is status)

    @property
    def dead(self) -> int:
        """Dead letters: an operator should look at them."""
        return self.total(Status.DEAD)

    @property
    def lag_ms(self) -> int:
        """The age of the oldest event that is still owed."""
        owed = (Status.PENDING, Status.IN_PROGRESS, Status.FAILED, Status.HELD)
        return max((self.now - count.oldest_at for count in self.counts if count.status in owed), default=0)


class Maintenance:
    """The maintenance of one inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._beaten_at = self._gaps_at = self._clock_at = START
        self._up_since = inbox.clock()
        self._receives = False
        self.is_function = False
        """Whether the platform starts a process when a request comes, as AWS Lambda does."""
        self._pruned_at: Instant | None = None
        self._gaps_max = PAGE
        self._gaps_told: dict[tuple[Track, int], str] = {}
        """What was said of the gaps that are open."""
        self._claimed_sources: set[str] = set()
        self._copies: Counter[RowId] = Counter()
        self._lock = threading.Lock()

    # Retention

    def is_silent(self, now: Instant) -> bool:
        """Whether it is time for another `beat`."""
        return _is_time(self._beaten_at, now, BEAT_MS)

    def beat(self) -> Plan[None]:
        """Note once a minute that a process which receives is alive. Its first one makes it known as such."""
        now = self._inbox.clock()
        if not self.is_silent(now):
            return
        self._beaten_at = now  # at once: of requests that come together one is enough
        try:
            yield Run(self._beat())
        except StoreError:
            self.note_trouble()  # receiving goes on, and the next request tries again

    def _beat(self) -> Flow[Heartbeat]:
        # A worker in this process beats every minute, so a gap is one in which it could not.
        is_regular = self._receives and self._inbox.worker.is_running
        self._receives = True
        up_since = None if is_regular else self._up_since
        still_ms = STILL_FUNCTION_MS if self.is_function else STILL_MS
        return heartbeat(self._inbox.context, self._retention_ms(), up_since, still_ms)

    def note_trouble(self) -> None:
        """The store was away: from now on, at the earliest, this process can receive again."""
        self._up_since, self._beaten_at, self._receives = self._inbox.clock(), START, False

    def leave(self) -> Plan[None]:
        """A last heartbeat: the silence before a process was closed is no downtime, what follows may be."""
        if not self._receives:
            return
        flow, self._receives = self._beat(), False
        with suppress(StoreError):  # then it counts as downtime, and rows are kept longer
            yield Run(flow)

    def prune(self, retention_ms: int = RETENTION_MS) -> Plan[Pruned]:
        """Remove what is older than its source's retention, in batches; see `core.admission.retention`."""
        inbox, store = self._inbox, self._inbox.store
        # A process that only prunes, or only works, is no sign that any process receives.
        flow = self._beat() if self._receives else transaction(store.heartbeat())
        seen: Heartbeat = (yield Run(flow)) or Heartbeat(inbox.clock())
        now = inbox.clock()
        removed: Counter[str] = Counter()
        more = False
        kept: list[tuple[str | None, Rules]] = [(source.name, source.rules) for source in inbox.sources.values()]
        kept += [
            (name, Rules(dedup=Dedup.EVENT_ID))
            for name in tuple(self._claimed_sources)
            if kept and name not in inbox.sources
        ]
        if kept:
            leftover = yield from self._leftover(now)
            kept += [(name, self._leftover_rules()) for name in leftover]
        # Without sources, as on the command line, the defaults are meant for all that is there.
        for name, rules in kept or [(None, Rules(dedup=Dedup.EVENT_ID, retention_ms=retention_ms))]:

            def up_to(kept_ms: int) -> Instant | None:
                return cutoff(seen, now, retention_ms=kept_ms, settle_ms=SETTLE_MS)

            work = [("rows", store.prune, rules.retention_ms), ("tombstones", store.forget, rules.tombstone_ms)]
            if rules.payload_ms is not None:
                work.insert(0, ("payloads", store.purge, rules.payload_ms))
            for what, verb, kept_ms in work:
                before = up_to(kept_ms)
                if before is None:
                    continue
                for _ in range(PRUNE_BATCHES_MAX):
                    gone: int = yield Run(transaction(verb(before=before, source=name, limit=PRUNE_ROWS)))
                    removed[what] += gone
                    if gone < PRUNE_ROWS:
                        break
                else:
                    more = True
        pruned = Pruned(rows=removed["rows"], payloads=removed["payloads"], tombstones=removed["tombstones"], more=more)
        inbox.emit(pruned)
        return pruned

    def note_claimed_source(self, source: str) -> None:
        """Events are claimed by hand under a name that no source has: they grow old too."""
        self._claimed_sources.add(source)

    def _leftover(self, now: Instant) -> Plan[list[str]]:
        """Sources of which there are rows and nothing else: renamed or removed. One that had an event lately may be the
        source of another process, which knows better how long to keep it."""
        counts: list[Count] = yield Run(transaction(self._inbox.store.counts()), reads=True)
        names = {count.source for count in counts} - self._inbox.sources.keys() - self._claimed_sources
        leftover: list[str] = []
        for name in sorted(names):
            lately = Search(source=name, received_from=Instant(now - self._leftover_rules().retention_ms), limit=1)
            if not (yield Run(transaction(self._inbox.store.rows(lately)), reads=True)):
                leftover.append(name)
        return leftover

    def _leftover_rules(self) -> Rules:
        return Rules(dedup=Dedup.EVENT_ID, retention_ms=max(RETENTION_MS, self._retention_ms()))

    def _retention_ms(self) -> int:
        return max((source.rules.retention_ms for source in self._inbox.sources.values()), default=RETENTION_MS)

    # When there is nothing to handle

    def tend(self) -> Plan[int]:
        """What a worker does in its idle moments: heartbeat, gaps, counts, and pruning once an hour, until all that is
        old went; how many gaps were closed."""
        if self._receives:
            yield from self.beat()
        yield from self.flush_copies()
        now = self._inbox.clock()
        closed = 0
        if _is_time(self._gaps_at, now, GAP_CHECK_MS):
            self._gaps_at = now
            closed = yield from self.close_gaps()
        if self._pruned_at is None:
            self._pruned_at = now  # never right after the start
        elif _is_time(self._pruned_at, now, PRUNE_MS) and self._inbox.store.capabilities.sweeps:
            self._pruned_at = now
            if (yield from self.prune()).more:
                self._pruned_at = Instant(now - PRUNE_MS)  # the next call goes on: what is left does not wait an hour
        return closed

    def keep_clock(self) -> Plan[None]:
        """A clock that was set back keeps nothing waiting: neither retries, nor what a dead worker had in hand."""
        now = self._inbox.clock()
        if _is_time(self._clock_at, now, CLOCK_MS):
            yield Run(transaction(self._inbox.store.keep_clock(now)))
            self._clock_at = now

    def close_gaps(self) -> Plan[int]:
        """Keys that wait for what never came go on, where their handler's policy says so; how many did."""
        inbox = self._inbox
        ordered = {
            (handler.source, handler.name): handler
            for handler in self._handlers()
            if isinstance(handler.order, InSequence)
        }
        if not ordered:
            return 0
        now = inbox.clock()
        patience_ms = min(_patience_ms(handler) for handler in ordered.values())
        gaps = yield Run(transaction(inbox.store.gaps(Instant(now - patience_ms), self._gaps_max)))
        closed = 0
        for gap in gaps:
            handler = ordered.get((gap.track.source, gap.track.handler))
            if handler is None or now - gap.since < _patience_ms(handler):
                continue
            assert isinstance(handler.order, InSequence)
            if handler.order.on_gap == OnGap.STOP and gap.prev_seq > gap.seq:
                self._tell_stopped(gap)
                continue  # it waits for a person
            try:
                moved = yield Run(close_gap(inbox.context, gap, handler), handler.is_async)
            except StoreError:
                raise
            except Exception as error:  # the application's resync: other keys go on, and this one is asked again
                self._tell_unfetched(gap, error.error if isinstance(error, HandlerFailed) else error)
                continue
            if moved:
                closed += 1
                inbox.emit(
                    GapClosed(
                        source=gap.track.source,
                        handler=gap.track.handler,
                        key=gap.track.key,
                        seq=gap.seq,
                        prev_seq=gap.prev_seq,
                        by=str(handler.order.on_gap),
                    )
                )
        if len(gaps) < self._gaps_max:  # all that there are
            self._forget_told({(gap.track, gap.prev_seq) for gap in gaps})
        # The oldest come first. When all gaps of a page stay open, the next look takes a larger page.
        self._gaps_max = PAGE if closed or len(gaps) < self._gaps_max else self._gaps_max * 2
        return closed

    def _tell_stopped(self, gap: Gap) -> None:
        """A key waits for a person: said once, not in every round."""
        if self._is_news(gap, "stopped"):
            track = gap.track
            self._inbox.tell(
                GapStopped(
                    source=track.source, handler=track.handler, key=track.key, seq=gap.seq, prev_seq=gap.prev_seq
                )
            )

    def _tell_unfetched(self, gap: Gap, error: BaseException) -> None:
        """A key waits because its resync raised *error*: said once for each kind of error."""
        if self._is_news(gap, type(error).__name__):
            track = gap.track
            self._inbox.tell(
                WorkerTroubled(error=text_of(error), source=track.source, handler=track.handler, key=track.key)
            )

    def _is_news(self, gap: Gap, said: str) -> bool:
        """Whether something else was said of *gap* last."""
        name = gap.track, gap.prev_seq
        with self._lock:
            is_news = self._gaps_told.get(name) != said
            self._gaps_told[name] = said
        return is_news

    def _forget_told(self, still_open: set[tuple[Track, int]]) -> None:
        with self._lock:
            self._gaps_told = {name: said for name, said in self._gaps_told.items() if name in still_open}

    def note_copy(self, id: RowId | None) -> None:
        """A duplicate arrived. It is written down with the others, not at once: a duplicate must stay cheap."""
        if id is None:
            return
        with self._lock:
            if len(self._copies) < COPIES_MAX or id in self._copies:
                self._copies[id] += 1

    def flush_copies(self, wait_ms: int | None = None) -> Plan[None]:
        """Write the counted copies down."""
        with self._lock:
            copies, self._copies = self._copies, Counter()
        if not copies:
            return
        flow = self._inbox.store.count_copies(sorted(copies.items(), key=lambda each: str(each[0])))
        try:
            yield Run(transaction(flow, wait_ms=wait_ms))
        except StoreError:
            with self._lock:
                self._copies.update(copies)
            raise

    # Replay

    def replay(self, search: Search, handler: str | None) -> Plan[int]:
        """Owe the rows that match to their handlers again, by a status only what is in it; how many handlings."""
        reopened = 0
        pages = Pages(self._inbox, search)
        row = yield from pages.next()
        while row is not None:
            # A row that is asked for by its id says that its payload is gone; a filter passes it over.
            if still_matches(row, search) and (search.ids is not None or not row.purged):
                reopened += yield from _unless_overtaken(
                    reopen(self._inbox.context, row, self._handlers_of(row), handler, search.status)
                )
            row = yield from pages.next()
        self._inbox.arrived.set()
        return reopened

    def shadow(self, search: Search, handler: str | None) -> Plan[list[Shadow]]:
        """Run the handlers on the rows that match, each in a transaction that is rolled back."""
        store = self._inbox.store.capabilities
        if not store.atomic:
            raise UsageError(
                f"a shadow replay needs writes that can be rolled back, and an inbox on {store.name} has none"
            )
        shadows: list[Shadow] = []
        pages = Pages(self._inbox, search)
        row = yield from pages.next()
        while row is not None:
            for each in self._handlers_of(row):
                is_meant = handler in (None, each.name) and search.status in (None, row.status_for(each.name))
                if is_meant and each.wants(row.message.type) and not row.purged:
                    event = each.event(
                        row.message,
                        row.received_at,
                        can_send=self._inbox.can_send,
                        variant=row.variant,
                        headers=row.headers,
                    )
                    flow = shadow(self._inbox.context, row, each, event)
                    shadows.append((yield Run(flow, each.is_async)))
            row = yield from pages.next()
        return shadows

    def skip(self, search: Search, handler: str | None, note: str) -> Plan[int]:
        """Give up the dead, failed or held handlings of the rows that match, by a status those in it, and rows that are
        dead themselves; how many."""
        statuses = GIVEN_UP if search.status is None else (search.status,)
        skipped = 0
        pages = Pages(self._inbox, search)
        row = yield from pages.next()
        while row is not None:
            for handling in row.handlings if still_matches(row, search) else ():
                if handler in (None, handling.handler) and handling.status in statuses:
                    skipped += yield from _unless_overtaken(skip(self._inbox.context, row, handling, note))
            if handler is None and row.status is Status.DEAD and Status.DEAD in statuses:
                skipped += yield from _unless_overtaken(skip_row(self._inbox.context, row, note))
            row = yield from pages.next()
        self._inbox.arrived.set()
        return skipped

    def _handlers_of(self, row: Row) -> list[Handler]:
        """The handlers of the row's source; none in a process that does not have them, such as the command line."""
        source = self._inbox.sources.get(row.message.source)
        return [] if source is None else list(source.handlers.values())

    # Figures

    def stats(self) -> Plan[Stats]:
        """How many rows are in which status, and what the breakers say."""
        with suppress(StoreError):  # a writer has the turn: they are counted later
            yield from self.flush_copies(wait_ms=STATS_WAIT_MS)
        counts: list[Count] = yield Run(transaction(self._inbox.store.counts()), reads=True)
        return Stats(tuple(counts), self._inbox.worker.breakers.states(), self._inbox.clock())

    def _handlers(self) -> Iterator[Handler]:
        for source in self._inbox.sources.values():
            yield from source.handlers.values()


def _patience_ms(handler: Handler) -> int:
    assert isinstance(handler.order, InSequence)
    return int(handler.order.gap_timeout * 1000)


def _unless_overtaken(act: Flow[int]) -> Plan[int]:
    """How many handlings *act* has changed; none where another has decided meanwhile, and the store found it late."""
    try:
        changed: int = yield Run(act)
    except Overtaken:
        return 0
    return changed


def _is_time(last: Instant, now: Instant, every_ms: int) -> bool:
    """Whether it was long enough ago, or the clock was set back since."""
    return not 0 <= now - last < every_ms
