"""What an inbox keeps, and for how long: its heartbeat says whether it received meanwhile, and pruning goes by that."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from hooklane.core.admission.retention import RETENTION_MS, STILL_FUNCTION_MS, STILL_MS, cutoff
from hooklane.core.verify.profile import Dedup
from hooklane.errors import StoreError
from hooklane.model.clock import START, Instant, boot_now, wall_now
from hooklane.model.inbox import Count, Heartbeat, Search
from hooklane.model.jumps import Believed
from hooklane.receiver.flows.maintain import heartbeat
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.source import Rules
from hooklane.receiver.steps import transaction
from hooklane.store.inbox import Flow
from hooklane.telemetry.events import Pruned

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox

BEAT_MS = 60_000
SETTLE_MS = 3_600_000
"""After a downtime nothing is pruned for so long: senders are about to repeat what they could not deliver."""
PRUNE_ROWS = 500
PRUNE_BATCHES_MAX = 1_000


class Retention:
    """The heartbeat of one inbox, and the pruning of what is old."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._beaten_at = START
        # A clock of the caller's own goes as the caller wants; the host's can be compared with one that nobody sets.
        self._believed = Believed() if inbox.clock.clock is wall_now else None
        self._up_since = self._time()
        self.receives = False
        """Whether this process has received, or was told to: only then its heartbeat counts."""
        self.is_function = False
        """Whether the platform starts a process when a request comes, as AWS Lambda does."""
        self._claimed_sources: set[str] = set()

    def _time(self) -> Instant:
        """What time it is, as far as that can be believed: what is pruned is gone when the clock is right again."""
        now = self._inbox.clock()
        return now if self._believed is None else self._believed.at(now, boot_now())

    def is_silent(self, now: Instant) -> bool:
        """Whether it is time for another `beat`."""
        return is_time(self._beaten_at, now, BEAT_MS)

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
        is_regular = self.receives and self._inbox.worker.is_running
        now = self._time()
        if self._believed is not None and self._believed.was_set:
            is_regular = False  # nor is what lies between the old time and the new one
        self.receives = True
        up_since = None if is_regular else self._up_since
        still_ms = STILL_FUNCTION_MS if self.is_function else STILL_MS
        return heartbeat(self._inbox.context, now, self._retention_ms(), up_since, still_ms)

    def note_trouble(self) -> None:
        """The store was away: from now on, at the earliest, this process can receive again."""
        self._up_since, self._beaten_at, self.receives = self._time(), START, False

    def leave(self) -> Plan[None]:
        """A last heartbeat: the silence before a process was closed is no downtime, what follows may be."""
        if not self.receives:
            return
        flow, self.receives = self._beat(), False
        with suppress(StoreError):  # then it counts as downtime, and rows are kept longer
            yield Run(flow)

    def prune(self, retention_ms: int = RETENTION_MS) -> Plan[Pruned]:
        """Remove what is older than its source's retention, in batches; see `core.admission.retention`."""
        inbox, store = self._inbox, self._inbox.store
        # A process that only prunes, or only works, is no sign that any process receives.
        flow = self._beat() if self.receives else transaction(store.heartbeat())
        now = self._time()
        seen: Heartbeat = (yield Run(flow)) or Heartbeat(now)
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


def is_time(last: Instant, now: Instant, every_ms: int) -> bool:
    """Whether it was long enough ago, or the clock was set back since."""
    return not 0 <= now - last < every_ms
