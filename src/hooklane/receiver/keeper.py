"""The keeper: what an inbox does besides receiving and handling, as plans. Retention, replay, gaps, figures."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hooklane.core.admission.breaker import BreakerState
from hooklane.core.admission.retention import RETENTION_MS
from hooklane.core.admission.turns import OnGap
from hooklane.core.verify import Dedup
from hooklane.errors import StoreError, UsageError
from hooklane.model.clock import START, Instant
from hooklane.model.inbox import Count, Heartbeat, Row, RowId, Search
from hooklane.model.message import Status
from hooklane.receiver.drive import transaction
from hooklane.receiver.event import Event
from hooklane.receiver.flows.keep import Shadow, close_gap, heartbeat, prune_before, reopen, shadow, skip
from hooklane.receiver.order import InSequence
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.source import Handler, Rules
from hooklane.telemetry.events import GapClosed, Pruned, WorkerTroubled

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

BEAT_MS = 60_000
GAP_CHECK_MS = 1_000
PRUNE_MS = 3_600_000
SETTLE_MS = 3_600_000
"""After a downtime nothing is pruned for so long: senders are about to repeat what they could not deliver."""
PRUNE_ROWS = 500
PRUNE_BATCHES_MAX = 1_000
PAGE = 200
COPIES_MAX = 1_000


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
        """Dead letters: somebody should look."""
        return self.total(Status.DEAD)

    @property
    def lag_ms(self) -> int:
        """The age of the oldest event that is still owed."""
        owed = (Status.PENDING, Status.IN_PROGRESS, Status.FAILED, Status.HELD)
        return max((self.now - count.oldest_at for count in self.counts if count.status in owed), default=0)


class Keeper:
    """One inbox's keeper."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._beaten_at = self._gaps_at = START
        self._pruned_at: Instant | None = None
        self._gaps_max = PAGE
        self._by_hand: set[str] = set()
        self._copies: Counter[RowId] = Counter()
        self._lock = threading.Lock()

    # Retention

    def is_silent(self, now: Instant) -> bool:
        """Whether it is time for another `beat`."""
        return now - self._beaten_at >= BEAT_MS

    def beat(self) -> Plan[None]:
        """Note once a minute that this inbox is alive."""
        now = self._inbox.clock()
        if not self.is_silent(now):
            return
        self._beaten_at = now
        try:
            yield Run(heartbeat(self._inbox.context, self._retention_ms()))
        except StoreError:
            self._beaten_at = START  # receiving goes on; whoever comes next tries again

    def prune(self, retention_ms: int = RETENTION_MS) -> Plan[Pruned]:
        """Remove what is older than its source's retention, in batches; see `core.admission.retention`."""
        inbox, store = self._inbox, self._inbox.store
        seen: Heartbeat = yield Run(heartbeat(inbox.context, self._retention_ms()))
        now = inbox.clock()
        removed: Counter[str] = Counter()
        kept: list[tuple[str | None, Rules]] = [(source.name, source.rules) for source in inbox.sources.values()]
        kept += [
            (name, Rules(dedup=Dedup.EVENT_ID)) for name in tuple(self._by_hand) if kept and name not in inbox.sources
        ]
        # Without sources, as on the command line, the defaults are meant for all that is there.
        for name, rules in kept or [(None, Rules(dedup=Dedup.EVENT_ID, retention_ms=retention_ms))]:

            def up_to(kept_ms: int) -> Instant | None:
                return prune_before(seen, now, retention_ms=kept_ms, settle_ms=SETTLE_MS)

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
        pruned = Pruned(rows=removed["rows"], payloads=removed["payloads"], tombstones=removed["tombstones"])
        inbox.emit(pruned)
        return pruned

    def note_by_hand(self, source: str) -> None:
        """Events are claimed by hand under a name that no source has: they grow old too."""
        self._by_hand.add(source)

    def _retention_ms(self) -> int:
        return max((source.rules.retention_ms for source in self._inbox.sources.values()), default=RETENTION_MS)

    # When there is nothing to handle

    def tend(self) -> Plan[int]:
        """What a worker does in its idle moments: heartbeat, gaps, counts, and pruning once an hour; how many gaps
        were closed."""
        yield from self.beat()
        yield from self.flush_copies()
        now = self._inbox.clock()
        closed = 0
        if now - self._gaps_at >= GAP_CHECK_MS:
            self._gaps_at = now
            closed = yield from self.close_gaps()
        if self._pruned_at is None:
            self._pruned_at = now  # never right after the start
        elif now - self._pruned_at >= PRUNE_MS and self._inbox.store.capabilities.sweeps:
            self._pruned_at = now
            yield from self.prune()
        return closed

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
                continue  # it waits for a person
            try:
                moved = yield Run(close_gap(inbox.context, gap, handler), handler.is_async)
            except StoreError:
                raise
            except Exception as error:  # the application's resync: other keys go on, and this one is asked again
                inbox.emit(WorkerTroubled(error=repr(error)[:1000]))
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
        # The oldest come first. When all of a page stay as they are, who waits behind them is looked for too.
        self._gaps_max = PAGE if closed or len(gaps) < self._gaps_max else self._gaps_max * 2
        return closed

    def note_copy(self, id: RowId | None) -> None:
        """A duplicate arrived. It is written down with the others, not at once: a duplicate must stay cheap."""
        if id is None:
            return
        with self._lock:
            if len(self._copies) < COPIES_MAX or id in self._copies:
                self._copies[id] += 1

    def flush_copies(self) -> Plan[None]:
        """Write the counted copies down."""
        with self._lock:
            copies, self._copies = self._copies, Counter()
        if copies:
            yield Run(
                transaction(self._inbox.store.count_copies(sorted(copies.items(), key=lambda each: str(each[0]))))
            )

    # Replay

    def replay(self, search: Search, handler: str | None) -> Plan[int]:
        """Owe the rows that match to their handlers again; how many handlings were reopened."""
        reopened = 0
        pages = _Pages(self._inbox, search)
        row = yield from pages.next()
        while row is not None:
            # Whoever asks for a row by its id is told that its payload is gone; a filter passes it over.
            if search.ids is not None or not row.purged:
                reopened += yield Run(reopen(self._inbox.context, row, self._handlers_of(row), handler))
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
        pages = _Pages(self._inbox, search)
        row = yield from pages.next()
        while row is not None:
            for each in self._handlers_of(row):
                if each.wants(row.message.type) and handler in (None, each.name) and not row.purged:
                    flow = shadow(self._inbox.context, row, each, self._event(row, each))
                    shadows.append((yield Run(flow, each.is_async)))
            row = yield from pages.next()
        return shadows

    def skip(self, search: Search, handler: str | None, note: str) -> Plan[int]:
        """Give up the dead, failed or held handlings of the rows that match; how many."""
        skipped = 0
        pages = _Pages(self._inbox, search)
        row = yield from pages.next()
        while row is not None:
            for handling in row.handlings:
                if handler in (None, handling.handler):
                    skipped += yield Run(skip(self._inbox.context, row, handling, note))
            row = yield from pages.next()
        self._inbox.arrived.set()
        return skipped

    def _handlers_of(self, row: Row) -> list[Handler]:
        """The handlers of the row's source; none in a process that does not have them, such as the command line."""
        source = self._inbox.sources.get(row.message.source)
        return [] if source is None else list(source.handlers.values())

    def _event(self, row: Row, handler: Handler) -> Event:
        return Event(
            row.message,
            attempt=1,
            received_at=row.received_at,
            handler=handler.name,
            variant=row.variant,
            headers=row.headers,
            data_path=self._inbox.sources[handler.source].profile.data,
            can_send=self._inbox.can_send,
        )

    # Figures

    def stats(self) -> Plan[Stats]:
        """How many rows are in which status, and what the breakers say."""
        yield from self.flush_copies()
        counts: list[Count] = yield Run(transaction(self._inbox.store.counts()))
        return Stats(tuple(counts), self._inbox.worker.breakers.states(), self._inbox.clock())

    def _handlers(self) -> Iterator[Handler]:
        for source in self._inbox.sources.values():
            yield from source.handlers.values()


class _Pages:
    """The rows that match a search, page by page, up to its limit."""

    def __init__(self, inbox: Inbox, search: Search) -> None:
        self._inbox = inbox
        self._search = search
        self._left = search.limit
        self._page: list[Row] = []

    def next(self) -> Plan[Row | None]:
        if not self._page:
            if self._left <= 0:
                return None
            page = replace(self._search, limit=min(PAGE, self._left))
            self._page = yield Run(transaction(self._inbox.store.rows(page)))
            if not self._page:
                return None
            self._left -= len(self._page)
            self._search = replace(self._search, after=self._page[-1].id)
        return self._page.pop(0)


def _patience_ms(handler: Handler) -> int:
    assert isinstance(handler.order, InSequence)
    return int(handler.order.gap_timeout * 1000)


def as_search(ids: Any, search: dict[str, Any]) -> Search:
    """One row id, several, or a filter; at least one of them, so that nobody replays everything by mistake."""
    if ids is not None:
        ids = tuple(ids) if isinstance(ids, (list, tuple, set, frozenset)) else (ids,)
        search = {"limit": max(1, len(ids))} | search
    if ids is None and not search:
        raise UsageError("say which rows: an id, several ids, or a filter such as source=…, status=…, received_from=…")
    if "status" in search and search["status"] is not None:
        search["status"] = Status(search["status"])
    return Search(ids=ids, **{"limit": 1_000_000} | search)
