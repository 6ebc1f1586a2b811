"""What has happened in our partitions? Polls from a mark on; what this process published itself needs no poll."""

from __future__ import annotations

from collections import deque
from typing import Any

from hooklane.core.worker.effects import Call
from hooklane.core.worker.state import WorkerState
from hooklane.model.clock import FOREVER, START, Instant
from hooklane.model.lane import PARTITIONS
from hooklane.model.owning import ALWAYS, Span
from hooklane.model.owning import News as Told
from hooklane.model.session import Session

SPANS_MAX = 1_000


class News:
    """The mark up to which all news are known, and the poll that is under way."""

    def __init__(self, state: WorkerState, poll_ms: int) -> None:
        self._state = state
        self._poll_ms = poll_ms
        self._call: Call | None = None
        self._due: Instant = START
        self._nudged = False
        self._begun = 0
        self.heard = 0
        """How many polls have begun, and which of them was believed last."""
        self._spans: deque[Span] = deque(maxlen=SPANS_MAX)
        self.mark: Any = None
        self.session: Session = ALWAYS
        """On which the mark was read."""
        self.is_loading = False

    # --- loads and polls take turns ---

    def may_load(self) -> bool:
        """Whether no poll is under way.

        The older of two reads would be believed last about an endpoint, and a poll that does not ask for partitions
        which are being loaded would move the mark past their news.
        """
        return self._call is None

    def may_poll(self) -> bool:
        return not self.is_loading

    def loaded(self, mark: Any, session: Session) -> None:
        """Partitions were read. Later loads keep the older mark: it reports some news twice, and misses none."""
        if self.mark is None:
            self.mark, self.session = mark, session

    def forget(self) -> None:
        """Nothing is ours any more; the next load brings a new mark."""
        self.mark = None
        self._spans.clear()

    # --- polls ---

    def nudge(self) -> int:
        """Something changed in the store: do not wait for the next poll. Which poll will surely tell of it."""
        self._nudged = True
        return self._begun + 1

    def wake_at(self) -> Instant:
        return self._due if self._call is None else FOREVER

    def go_on(self, boot: Instant) -> None:
        if self._call is not None or not (self._nudged or boot >= self._due):
            return
        self._due = Instant(boot + self._poll_ms)
        if self.mark is not None and self.may_poll():
            self._nudged = False  # one that comes while partitions are loaded is kept: the load may be older
            self._begun += 1
            name, pids = self._state.name, list(self._state.epochs)
            self._call = self._state.ask("poll", boot, (name, pids, self.mark))

    def ended(self, boot: Instant) -> None:
        """The poll is over. Where it has failed, the lease decides how long we may go on without the store."""
        self._call = None
        self._due = Instant(boot + self._poll_ms)

    def answered(self, call: Call, told: Told, boot: Instant) -> bool:
        """Whether *told* is to be believed; the mark moves behind it."""
        self.ended(boot)
        if call.worker != self._state.name:
            return False  # everything was lost and loaded anew meanwhile: this mark belongs to what was before
        if not self.holds(told):
            return False
        self.mark, self.session = told.mark, told.session
        self.heard = self._begun
        self._pass()
        return True

    def holds(self, told: Told) -> bool:
        """Whether the mark from which *told* was read is one on the session that read it."""
        return still_holds(self.session, told.session, mark_lives=told.mark_lives)

    # --- what this process published ---

    def fed(self, span: Span | None) -> None:
        """The engine was told of what this process published itself: the next poll need not read it again.

        Only while every partition is ours and loaded: the engine does not listen for others.
        """
        if span is not None and len(self._state.epochs) == PARTITIONS:
            self._spans.append(span)
            if self._call is None:
                self._pass()

    def _pass(self) -> None:
        while self._spans:
            mark = self._spans[0].past(self.mark)
            if mark is None:
                return  # another process published in between: the poll finds that, and goes on from there
            self.mark = mark
            self._spans.popleft()


def still_holds(mark: Session, here: Session, *, mark_lives: bool) -> bool:
    """Whether a mark that was read on the session *mark* may be used on the session *here*.

    A crash, a failover and a restored backup let a database give out transaction numbers once more: what commits under
    one of those is below the mark, and would never be found. None of the three is survived by a session. So a mark
    holds where it was read, and elsewhere as long as that session lives (*mark_lives*): then the server has not
    been down since.

    A pooler ends sessions as it likes. Behind one, a session that is older than the mark has seen it being read, and
    says as much; the timeline says the rest, since clocks of two servers may differ.
    """
    if mark.server != here.server:
        return False
    if mark.id == here.id or mark_lives:
        return True
    return here.began_at is not None and here.began_at < mark.read_at
