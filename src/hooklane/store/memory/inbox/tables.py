"""The tables in memory, and what all verbs do with them; called with the lock held."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import OPEN, Handling, Heartbeat, Identity, NewHandling, Row, RowId, Track
from hooklane.model.message import Status
from hooklane.store.inbox import Capabilities, Flow
from hooklane.store.memory.inbox.session import AsyncMemorySession, Do, MemorySession

T = TypeVar("T")

CLAIMABLE = (Status.PENDING, Status.FAILED)
KEPT = (*OPEN, Status.DEAD)
"""Handlings in these are never pruned."""


@dataclass(slots=True)
class Entry:
    """A handling in the tables."""

    new: NewHandling
    row: int
    track: Track | None
    status: Status
    due_at: Instant
    attempts: int
    fence: int = 0
    was: Status | None = None
    error: str | None = None
    traceback: str | None = None
    settled_at: Instant | None = None


@dataclass(slots=True)
class Cursor:
    seq: int = 0
    at: int | None = None
    tie: str = ""
    token: str | None = None


@dataclass(slots=True)
class Tables:
    rows: dict[int, Row] = field(default_factory=dict)
    by_identity: dict[Identity, int] = field(default_factory=dict)
    handlings: dict[tuple[int, str], Entry] = field(default_factory=dict)
    cursors: dict[Track, Cursor] = field(default_factory=dict)
    digests: dict[tuple[str, str, bytes], tuple[str, Instant]] = field(default_factory=dict)
    heartbeat: Heartbeat | None = None
    clock: Instant = START
    last_id: int = 0
    data: dict[Any, Any] = field(default_factory=dict)


def verb(function: Callable[..., T]) -> Callable[..., Flow[T]]:
    """A method `(store, session, …)` as a flow of one step."""

    @wraps(function)
    def flow(store: Any, *arguments: Any, **options: Any) -> Flow[T]:
        result: T = yield Do(lambda session: function(store, session, *arguments, **options))
        return result

    return flow


class Memory:
    """Tables, locks and sessions; the verbs are added by the classes that inherit from it."""

    capabilities = Capabilities(
        name="memory", atomic=True, durable=False, survives_failover=False, native_async=True, locks=True
    )

    def __init__(self) -> None:
        self.tables = Tables()
        self.lock = threading.RLock()
        self.freed = threading.Condition(self.lock)
        self.locks: dict[Any, MemorySession] = {}

    @property
    def data(self) -> dict[Any, Any]:
        """What handlers wrote through their `tx`."""
        return self.tables.data

    def begin(self, *, wait_ms: int | None = None) -> MemorySession:
        return MemorySession(self, 5_000 if wait_ms is None else wait_ms)

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncMemorySession:
        # An event loop must not wait for a lock that one of its own tasks holds.
        return AsyncMemorySession(MemorySession(self, 0))

    def close(self) -> None:
        pass  # nothing is open

    async def aclose(self) -> None:
        pass  # as above

    def _row(self, entry: Entry) -> Row:
        return self.tables.rows[entry.row]

    def _held(self, id: RowId, handler: str, fence: int) -> Entry | None:
        entry = self.tables.handlings.get((int(id), handler))
        ours = entry is not None and entry.fence == fence and entry.status is Status.IN_PROGRESS
        return entry if ours else None

    def _is_free(self, session: MemorySession, entry: Entry) -> bool:
        identity = identity_of(self._row(entry))
        things = (identity, ("handling", entry.row, entry.new.handler))
        return all(self.locks.get(thing, session) is session for thing in things)

    def _cursor(self, session: MemorySession, track: Track, baseline: int = 0) -> Cursor:
        session.must_hold(track)
        if track not in self.tables.cursors:
            session.put(self.tables.cursors, track, Cursor(baseline))
        return self.tables.cursors[track]

    def _on(self, track: Track) -> list[Entry]:
        return [entry for entry in self.tables.handlings.values() if entry.track == track]

    def _handlings(self, id: int) -> tuple[Handling, ...]:
        entries = [entry for (row, _), entry in self.tables.handlings.items() if row == id]
        return tuple(
            Handling(
                handler=entry.new.handler,
                status=entry.status,
                attempts=entry.attempts,
                due_at=entry.due_at,
                fence=entry.fence,
                key=entry.new.key,
                seq=entry.new.seq,
                prev_seq=entry.new.prev_seq,
                error=entry.error,
                traceback=entry.traceback,
                settled_at=entry.settled_at,
            )
            for entry in sorted(entries, key=lambda entry: entry.new.handler)
        )

    def _whole(self, row: Row) -> Row:
        return replace(row, handlings=self._handlings(int(row.id)))

    def _old(self, before: Instant, source: str | None) -> list[Row]:
        old = [
            self._whole(row)
            for row in self.tables.rows.values()
            if row.received_at < before and source in (None, row.message.source) and row.status is not Status.DEAD
        ]
        return [row for row in old if not any(each.status in KEPT for each in row.handlings)]

    def _attach(self, session: MemorySession, row: Row, new: NewHandling) -> None:
        message = row.message
        entry = Entry(
            new=new,
            row=int(row.id),
            track=None if new.key is None else Track(message.source, message.account, new.handler, new.key),
            status=new.status,
            due_at=new.due_at,
            attempts=new.attempts,
            error=new.error,
            traceback=new.traceback,
            settled_at=new.settled_at,
        )
        session.put(self.tables.handlings, (int(row.id), new.handler), entry)


def identity_of(row: Row) -> Identity:
    message = row.message
    return Identity(message.source, message.account, message.event_id, row.variant)
