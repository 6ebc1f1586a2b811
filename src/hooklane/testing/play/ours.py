"""The fourth receiver is hooklane's own: a real inbox that verifies, claims, and applies in one transaction."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

from hooklane.core.admission.failures import RetryPolicy
from hooklane.model.clock import Instant
from hooklane.receiver.event import Event
from hooklane.receiver.inbox import Inbox
from hooklane.telemetry.inbox_log import InboxLog
from hooklane.testing.play.samples import Copy, Poisoned
from hooklane.testing.play.weather import Crash

SOURCE = "hooklane"
APPLIED = "applied"
_POINTS: dict[Crash, str] = {"between": "after_handler", "after": "after_commit"}


_UNHEARD = logging.Logger("hooklane.play", level=logging.CRITICAL + 1)
"""A handler that fails on purpose is no news for the log of a server."""


class Died(BaseException):
    """The consumer's process ended here, as by kill -9."""


class Ours:
    """Two workers of one consumer: two inboxes on one store, memory or SQLite. *told* hears of committed effects."""

    def __init__(self, where: str, secret: str, clock: Callable[[], Instant], told: Callable[[Copy], None]) -> None:
        self._told = told
        self._crash_at: str | None = None
        self._in_hand: list[Copy] = []
        self._beside: list[Copy] = []
        self._read = 0
        self.verdicts: dict[int, tuple[int, str, str | None]] = {}
        """Status, verdict and `Retry-After` of what was answered, by the number of the copy."""
        # Nothing in it may ask a clock or a chance of this process: the same seed tells the same story.
        make = partial(
            Inbox,
            mode="inline",
            clock=clock,
            roll=lambda: 0.5,
            inline_wait_ms=0,
            failpoint=self._reached,
            emit=InboxLog(_UNHEARD),
        )
        first = make(where)
        self._inboxes = (first, make(first.store))
        for inbox in self._inboxes:
            source = inbox.source(SOURCE, secrets=[secret], breaker=None, retry=RetryPolicy(backoff_ms=1_000))
            source.on("*", name="apply")(self._apply)
        if where.startswith("sqlite:"):
            with sqlite3.connect(where.removeprefix("sqlite:///")) as conn:
                conn.execute("CREATE TABLE applied (n INTEGER PRIMARY KEY, copy INTEGER NOT NULL)")
        self._where = where

    def receive(self, copy: Copy, beside: list[Copy], crash: Crash | None) -> None:
        """Take *copy*; copies *beside* it of the same id reach the other worker while this one is at work."""
        self._crash_at = _POINTS.get(crash) if crash else None
        self._beside = beside
        self._answer(copy)
        self._crash_at = None
        for late in self._beside:
            self._answer(late)
        self._beside = []

    def close(self) -> None:
        for inbox in self._inboxes:
            inbox.close()

    def _answer(self, copy: Copy) -> None:
        inbox = self._inboxes[len(self._in_hand) % 2]
        self._in_hand.append(copy)
        try:
            reply = inbox.receive(copy.request, SOURCE)
        except Died:
            pass
        else:
            headers = dict(reply.headers)
            self.verdicts[copy.number] = (reply.status, headers["hooklane-outcome"], headers.get("retry-after"))
        finally:
            self._in_hand.pop()
        self._tell_committed(copy)

    def _apply(self, event: Event, tx: Any) -> None:
        """The application's work, in the inbox's transaction; the other worker's copy comes in the middle of it."""
        copy = self._in_hand[-1]
        if isinstance(tx, sqlite3.Connection):
            tx.execute("INSERT INTO applied (copy) VALUES (?)", (copy.number,))
        else:
            tx[APPLIED] = (*tx.get(APPLIED, ()), copy.number)
            beside, self._beside = self._beside, []  # a writer of SQLite waits for the other, and is second in any case
            for other in beside:
                self._answer(other)
        if event.data.get("poison"):
            raise Poisoned(event.id)

    def _reached(self, point: str) -> None:
        if point == self._crash_at and len(self._in_hand) == 1:
            self._crash_at = None
            raise Died

    def _tell_committed(self, copy: Copy) -> None:
        if self._in_hand:
            return  # another worker's transaction is open: what it wrote may still be taken back
        for number in self._committed()[self._read :]:
            self._read += 1
            assert number == copy.number or number in self.verdicts
            self._told(copy)

    def _committed(self) -> list[int]:
        if self._where.startswith("sqlite:"):
            with sqlite3.connect(self._where.removeprefix("sqlite:///")) as conn:
                return [number for (number,) in conn.execute("SELECT copy FROM applied ORDER BY n")]
        data: dict[Any, Any] = self._inboxes[0].store.tables.data  # type: ignore[attr-defined]
        return list(data.get(APPLIED, ()))
