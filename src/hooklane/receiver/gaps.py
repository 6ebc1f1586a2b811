"""Keys that wait for an event which never came: when they go on without it, and who is told when they do not."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hooklane.batching.locks import open_in_forks
from hooklane.core.admission.turns import OnGap
from hooklane.errors import StoreError
from hooklane.model.clock import Instant
from hooklane.model.inbox import Gap, Track
from hooklane.receiver.failure import text_of
from hooklane.receiver.flows.maintain import close_gap
from hooklane.receiver.order import InSequence
from hooklane.receiver.runner import Plan, Run
from hooklane.receiver.search import PAGE
from hooklane.receiver.source import Handler
from hooklane.receiver.steps import HandlerFailed, transaction
from hooklane.telemetry.events import GapClosed, GapStopped, WorkerTroubled

if TYPE_CHECKING:
    from hooklane.receiver.inbox import Inbox


class Gaps:
    """The gaps in the sequences of one inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._page = PAGE
        self._told: dict[tuple[Track, int], str] = {}
        """What was said of the gaps that are open."""
        self._lock = open_in_forks(threading.Lock())

    def close(self) -> Plan[int]:
        """Keys that wait for what never came go on, where their handler's policy says so; how many did."""
        inbox = self._inbox
        ordered = {
            (handler.source, handler.name): handler
            for source in inbox.sources.values()
            for handler in source.handlers.values()
            if isinstance(handler.order, InSequence)
        }
        if not ordered:
            return 0
        now = inbox.clock()
        patience_ms = min(_patience_ms(handler) for handler in ordered.values())
        gaps = yield Run(transaction(inbox.store.gaps(Instant(now - patience_ms), self._page)))
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
        if len(gaps) < self._page:  # all that there are
            self._forget_told({(gap.track, gap.prev_seq) for gap in gaps})
        # The oldest come first. When all gaps of a page stay open, the next look takes a larger page.
        self._page = PAGE if closed or len(gaps) < self._page else self._page * 2
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
            is_news = self._told.get(name) != said
            self._told[name] = said
        return is_news

    def _forget_told(self, still_open: set[tuple[Track, int]]) -> None:
        with self._lock:
            self._told = {name: said for name, said in self._told.items() if name in still_open}


def _patience_ms(handler: Handler) -> int:
    assert isinstance(handler.order, InSequence)
    return int(handler.order.gap_timeout * 1000)
