"""The inbox in this process's memory: the reference of what the verbs mean, for tests and for trying things out.

A transaction changes the tables at once and keeps how to undo it; what it touched is locked until it ends, and
others are told so instead of waiting. Nothing outlives the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar

from hooklane.errors import StoreBusy
from hooklane.model.clock import Instant
from hooklane.model.inbox import (
    OPEN,
    Claimed,
    Count,
    Gap,
    Handling,
    Heartbeat,
    Identity,
    Known,
    NewHandling,
    NewRow,
    Row,
    RowId,
    Search,
    Track,
)
from hooklane.model.message import Status
from hooklane.store.inbox import Capabilities, Flow

T = TypeVar("T")

_CLAIMABLE = (Status.PENDING, Status.FAILED)
_KEEP = (*OPEN, Status.DEAD)


@dataclass(frozen=True, slots=True)
class Do:
    """A step: call *change* with the transaction, all tables to oneself."""

    change: Callable[[MemorySession], Any]


@dataclass(slots=True)
class _Entry:
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
class _Cursor:
    seq: int = 0
    at: int | None = None
    tie: str = ""
    token: str | None = None


@dataclass(slots=True)
class _Tables:
    rows: dict[int, Row] = field(default_factory=dict)
    by_identity: dict[Identity, int] = field(default_factory=dict)
    handlings: dict[tuple[int, str], _Entry] = field(default_factory=dict)
    cursors: dict[Track, _Cursor] = field(default_factory=dict)
    digests: dict[tuple[str, str, bytes], tuple[str, Instant]] = field(default_factory=dict)
    heartbeat: Heartbeat | None = None
    last_id: int = 0
    data: dict[Any, Any] = field(default_factory=dict)


def verb(function: Callable[..., T]) -> Callable[..., Flow[T]]:
    """A method `(store, session, …)` as a flow of one step."""

    @wraps(function)
    def flow(store: MemoryInbox, *arguments: Any, **options: Any) -> Flow[T]:
        result: T = yield Do(lambda session: function(store, session, *arguments, **options))
        return result

    return flow


class MemoryTx(MutableMapping[Any, Any]):
    """What a handler gets: a dictionary that is part of the transaction."""

    def __init__(self, session: MemorySession) -> None:
        self._session = session

    def __getitem__(self, key: Any) -> Any:
        with self._session.store.lock:
            return self._session.store.tables.data[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._session.store.lock:
            self._session.put(self._session.store.tables.data, key, value)

    def __delitem__(self, key: Any) -> None:
        with self._session.store.lock:
            self._session.drop(self._session.store.tables.data, key)

    def __iter__(self) -> Iterator[Any]:
        with self._session.store.lock:
            return iter(list(self._session.store.tables.data))

    def __len__(self) -> int:
        return len(self._session.store.tables.data)


class MemorySession:
    """One transaction; the same object serves sync code, and async code through `AsyncMemorySession`."""

    def __init__(self, store: MemoryInbox, wait_ms: int) -> None:
        self.store = store
        self.tx = MemoryTx(self)
        self.wait_ms = wait_ms
        self._undo: list[Callable[[], None]] = []
        self._held: set[Any] = set()

    def perform(self, step: Do) -> Any:
        with self.store.lock:
            return step.change(self)

    def handing_over(self) -> None:
        pass  # there is nothing that a handler could commit

    def taking_back(self, error: BaseException | None = None) -> None:
        pass

    def commit(self) -> None:
        with self.store.lock:
            self._undo.clear()
            self._free()

    def rollback(self) -> None:
        with self.store.lock:
            while self._undo:
                self._undo.pop()()
            self._free()

    def close(self) -> None:
        self.rollback()

    def hold(self, thing: Any) -> bool:
        """Lock *thing* for this transaction; False when another has it."""
        owner = self.store.locks.setdefault(thing, self)
        if owner is self:
            self._held.add(thing)
        return owner is self

    def must_hold(self, thing: Any) -> None:
        """Lock *thing*, waiting for the other transaction a little."""
        if not self.store.freed.wait_for(lambda: self.hold(thing), timeout=self.wait_ms / 1000):
            raise StoreBusy("another transaction of this process holds what is needed")

    def put(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        had, before = key in table, table.get(key)
        self._undo.append(lambda: table.__setitem__(key, before) if had else table.pop(key, None))
        table[key] = value

    def drop(self, table: dict[Any, Any], key: Any) -> None:
        before = table[key]
        self._undo.append(lambda: table.__setitem__(key, before))
        del table[key]

    def change(self, entry: Any, **values: Any) -> None:
        before = {name: getattr(entry, name) for name in values}

        def undo() -> None:
            for name, value in before.items():
                setattr(entry, name, value)

        self._undo.append(undo)
        for name, value in values.items():
            setattr(entry, name, value)

    def _free(self) -> None:
        for thing in self._held:
            self.store.locks.pop(thing, None)
        self._held.clear()
        self.store.freed.notify_all()


class AsyncMemorySession:
    def __init__(self, session: MemorySession) -> None:
        self._session = session

    @property
    def tx(self) -> MemoryTx:
        return self._session.tx

    async def perform(self, step: Do) -> Any:
        return self._session.perform(step)

    async def handing_over(self) -> None:
        pass

    async def taking_back(self, error: BaseException | None = None) -> None:
        pass

    async def commit(self) -> None:
        self._session.commit()

    async def rollback(self) -> None:
        self._session.rollback()

    async def close(self) -> None:
        self._session.close()


class MemoryInbox:
    """Tables in memory. Handlers get a transactional dictionary."""

    capabilities = Capabilities(
        name="memory", atomic=True, durable=False, survives_failover=False, native_async=True, locks=True
    )

    def __init__(self) -> None:
        self.tables = _Tables()
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
        pass

    async def aclose(self) -> None:
        pass

    # Receiving

    @verb
    def insert(self, session: MemorySession, rows: Sequence[NewRow]) -> list[RowId | None]:
        return [self._insert(session, row) for row in rows]

    def _insert(self, session: MemorySession, new: NewRow) -> RowId | None:
        tables = self.tables
        if new.identity in tables.by_identity:
            return None
        session.must_hold(new.identity)
        if new.identity in tables.by_identity:
            return None
        tables.last_id += 1
        id = tables.last_id
        session.put(tables.by_identity, new.identity, id)
        row = Row(
            id=id,
            message=new.message,
            status=new.status,
            received_at=new.received_at,
            variant=new.variant,
            reason=new.reason,
            headers=new.headers,
        )
        session.put(tables.rows, id, row)
        for each in new.handlings:
            self._attach(session, row, each)
        return id

    def _attach(self, session: MemorySession, row: Row, new: NewHandling) -> None:
        message = row.message
        entry = _Entry(
            new=new,
            row=int(row.id),
            track=None if new.key is None else Track(message.source, message.tenant, new.handler, new.key),
            status=new.status,
            due_at=new.due_at,
            attempts=new.attempts,
            error=new.error,
            traceback=new.traceback,
            settled_at=new.settled_at,
        )
        session.put(self.tables.handlings, (int(row.id), new.handler), entry)

    @verb
    def known(self, session: MemorySession, identities: Sequence[Identity]) -> list[Known | None]:
        return [self._known(session, identity) for identity in identities]

    def _known(self, session: MemorySession, identity: Identity) -> Known | None:
        id = self.tables.by_identity.get(identity)
        if id is None:
            return None
        row = self.tables.rows[id]
        return Known(
            id=id,
            status=row.status,
            fingerprint=row.message.fingerprint,
            handlings=self._handlings(id),
            locked=self.locks.get(identity, session) is not session,
        )

    @verb
    def try_lock(self, session: MemorySession, identity: Identity) -> bool:
        return session.hold(identity)

    @verb
    def remember(
        self, session: MemorySession, source: str, tenant: str, digest: bytes, event_id: str, now: Instant
    ) -> str | None:
        session.must_hold((source, tenant, digest))
        earlier = self.tables.digests.get((source, tenant, digest))
        if earlier is None:
            session.put(self.tables.digests, (source, tenant, digest), (event_id, now))
        return None if earlier is None else earlier[0]

    @verb
    def turn(self, session: MemorySession, track: Track, token: str) -> int | None:
        cursor = self._cursor(session, track)
        if cursor.token == token:
            return None
        session.change(cursor, token=token, seq=cursor.seq + 1)
        return cursor.seq

    @verb
    def count_copies(self, session: MemorySession, copies: Iterable[tuple[RowId, int]]) -> None:
        for id, number in copies:
            row = self.tables.rows.get(int(id))
            if row is not None:
                session.put(self.tables.rows, row.id, replace(row, copies=row.copies + number))

    # Handling

    @verb
    def claim(
        self,
        session: MemorySession,
        handlers: Sequence[tuple[str, str]],
        *,
        expired: bool,
        owner: str,
        now: Instant,
        lease_ms: int,
        limit: int,
    ) -> list[Claimed]:
        wanted = set(handlers)
        due = [
            entry
            for entry in self.tables.handlings.values()
            if entry.status in ((Status.IN_PROGRESS,) if expired else _CLAIMABLE)
            and entry.due_at <= now
            and (self._row(entry).message.source, entry.new.handler) in wanted
            and self._is_free(session, entry)
        ]
        due.sort(key=lambda entry: (entry.due_at, entry.row))
        taken = [self._take(session, entry, now, lease_ms) for entry in due[:limit]]
        return sorted(taken, key=lambda each: (each.received_at, each.id))

    @verb
    def claim_one(
        self, session: MemorySession, id: RowId, handler: str, *, owner: str, now: Instant, lease_ms: int
    ) -> Claimed | None:
        entry = self.tables.handlings.get((int(id), handler))
        if entry is None or entry.status not in OPEN or not self._is_free(session, entry):
            return None
        if entry.status is Status.IN_PROGRESS and entry.due_at > now:
            return None
        return self._take(session, entry, now, lease_ms)

    def _take(self, session: MemorySession, entry: _Entry, now: Instant, lease_ms: int) -> Claimed:
        session.hold(("handling", entry.row, entry.new.handler))
        session.change(
            entry,
            was=entry.status,
            status=Status.IN_PROGRESS,
            fence=entry.fence + 1,
            attempts=entry.attempts + 1,
            due_at=Instant(now + lease_ms),
        )
        row = self._row(entry)
        return Claimed(
            id=row.id,
            handler=entry.new.handler,
            fence=entry.fence,
            attempts=entry.attempts,
            message=row.message,
            received_at=row.received_at,
            variant=row.variant,
            key=entry.new.key,
            seq=entry.new.seq,
            prev_seq=entry.new.prev_seq,
            taken_over=entry.was is Status.IN_PROGRESS,
            headers=row.headers,
        )

    @verb
    def renew(
        self, session: MemorySession, id: RowId, handler: str, fence: int, *, now: Instant, lease_ms: int
    ) -> bool:
        entry = self._held(id, handler, fence)
        if entry is not None:
            session.change(entry, due_at=Instant(now + lease_ms))
        return entry is not None

    @verb
    def complete(
        self, session: MemorySession, id: RowId, handler: str, fence: int, status: Status, now: Instant
    ) -> bool:
        entry = self._held(id, handler, fence)
        if entry is None:
            return False
        session.must_hold(("handling", int(id), handler))
        session.change(entry, status=status, settled_at=now, error=None, traceback=None)
        return True

    @verb
    def fail(
        self,
        session: MemorySession,
        id: RowId,
        handler: str,
        fence: int,
        *,
        status: Status,
        due_at: Instant,
        error: str,
        traceback: str,
        now: Instant,
        attempts: int | None = None,
    ) -> bool:
        entry = self._held(id, handler, fence)
        if entry is None:
            return False
        session.must_hold(("handling", int(id), handler))
        session.change(
            entry,
            status=status,
            due_at=due_at,
            error=error,
            traceback=traceback,
            attempts=entry.attempts if attempts is None else attempts,
            settled_at=now if status is Status.DEAD else None,
        )
        return True

    # Order

    @verb
    def cursor(self, session: MemorySession, track: Track, baseline: int) -> int:
        return self._cursor(session, track, baseline).seq

    @verb
    def applied(self, session: MemorySession, track: Track) -> int | None:
        cursor = self.tables.cursors.get(track)
        return None if cursor is None else cursor.seq

    @verb
    def advance(self, session: MemorySession, track: Track, *, prev_seq: int, seq: int) -> bool:
        session.must_hold(track)
        cursor = self.tables.cursors.get(track)
        if cursor is None or not prev_seq <= cursor.seq < seq:
            return False
        session.change(cursor, seq=seq)
        return True

    @verb
    def release(self, session: MemorySession, track: Track, seq: int, now: Instant) -> int:
        waiting = [
            entry
            for entry in self._on(track)
            if entry.status is Status.HELD and entry.new.prev_seq is not None and entry.new.prev_seq <= seq
        ]
        for entry in waiting:
            session.change(entry, status=Status.PENDING, due_at=now)
        return len(waiting)

    @verb
    def arrived(self, session: MemorySession, track: Track, seq: int) -> bool:
        return any(entry.new.seq == seq and entry.status in _KEEP for entry in self._on(track))

    @verb
    def newer(self, session: MemorySession, track: Track, at: int, tie: str) -> bool:
        cursor = self._cursor(session, track)
        if cursor.at is not None and (cursor.at, cursor.tie) >= (at, tie):
            return False
        session.change(cursor, at=at, tie=tie)
        return True

    @verb
    def mark(self, session: MemorySession, track: Track) -> tuple[int, str] | None:
        cursor = self._cursor(session, track)
        return None if cursor.at is None else (cursor.at, cursor.tie)

    @verb
    def touch(self, session: MemorySession, track: Track) -> None:
        self._cursor(session, track)

    @verb
    def coalesce(self, session: MemorySession, track: Track, until: RowId, now: Instant) -> int:
        covered = [
            entry
            for entry in self._on(track)
            if entry.status in (Status.PENDING, Status.FAILED) and entry.row <= int(until)
        ]
        for entry in covered:
            session.change(entry, status=Status.COMPLETED, settled_at=now, error=None, traceback=None)
        return len(covered)

    @verb
    def latest_row(self, session: MemorySession) -> RowId:
        return self.tables.last_id

    @verb
    def gaps(self, session: MemorySession, before: Instant, limit: int) -> list[Gap]:
        tracks = {entry.track for entry in self.tables.handlings.values() if entry.status is Status.HELD}
        found: list[Gap] = []
        for track in tracks:
            assert track is not None
            entries = self._on(track)
            held = [entry for entry in entries if entry.status is Status.HELD and entry.due_at <= before]
            others = [entry for entry in entries if entry.status in _KEEP and entry.status is not Status.HELD]
            if held and not others:
                first = min(entry.new.prev_seq or 0 for entry in held)
                since = min(entry.due_at for entry in held)
                found.append(Gap(track, self.tables.cursors[track].seq, first, since))
        return sorted(found, key=lambda gap: gap.since)[:limit]

    # Keeping

    @verb
    def reopen(self, session: MemorySession, id: RowId, handler: str, *, now: Instant) -> bool:
        entry = self.tables.handlings.get((int(id), handler))
        if entry is None or (entry.status is Status.IN_PROGRESS and entry.due_at > now):
            return False
        session.change(entry, status=Status.PENDING, due_at=now, attempts=0, fence=entry.fence + 1, settled_at=None)
        return True

    @verb
    def attach(self, session: MemorySession, id: RowId, handling: NewHandling) -> None:
        row = self.tables.rows.get(int(id))
        if row is not None and (int(id), handling.handler) not in self.tables.handlings:
            self._attach(session, row, handling)

    @verb
    def settle(self, session: MemorySession, id: RowId, handler: str, status: Status, note: str, now: Instant) -> bool:
        entry = self.tables.handlings.get((int(id), handler))
        if entry is None or entry.status not in (Status.DEAD, Status.HELD, Status.FAILED, Status.PENDING):
            return False
        session.change(entry, status=status, error=note, settled_at=now, fence=entry.fence + 1)
        return True

    @verb
    def heartbeat(self, session: MemorySession) -> Heartbeat | None:
        return self.tables.heartbeat

    @verb
    def beat(self, session: MemorySession, heartbeat: Heartbeat) -> None:
        session.change(self.tables, heartbeat=heartbeat)

    @verb
    def prune(self, session: MemorySession, *, before: Instant, source: str | None, limit: int) -> int:
        old = self._old(before, source)[:limit]
        for row in old:
            for handling in row.handlings:
                session.drop(self.tables.handlings, (int(row.id), handling.handler))
            session.drop(self.tables.by_identity, _identity(row))
            session.drop(self.tables.rows, row.id)
        return len(old)

    @verb
    def purge(self, session: MemorySession, *, before: Instant, source: str | None, limit: int) -> int:
        old = [row for row in self._old(before, source) if not row.purged][:limit]
        for row in old:
            bare = replace(row, message=replace(row.message, body=b""), headers=(), purged=True, handlings=())
            session.put(self.tables.rows, row.id, bare)
        return len(old)

    @verb
    def forget(self, session: MemorySession, *, before: Instant, source: str | None, limit: int) -> int:
        old = [
            key for key, (_, seen_at) in self.tables.digests.items() if seen_at < before and source in (None, key[0])
        ][:limit]
        for key in old:
            session.drop(self.tables.digests, key)
        return len(old)

    # Reading

    @verb
    def rows(self, session: MemorySession, search: Search) -> list[Row]:
        found = [self._whole(row) for row in self.tables.rows.values()]
        return sorted((row for row in found if _matches(row, search)), key=lambda row: int(row.id))[: search.limit]

    @verb
    def counts(self, session: MemorySession) -> list[Count]:
        groups: dict[tuple[str, str | None, Status], list[Instant]] = {}
        for row in self.tables.rows.values():
            if row.status is not Status.PENDING:
                groups.setdefault((row.message.source, None, row.status), []).append(row.received_at)
        for entry in self.tables.handlings.values():
            row = self._row(entry)
            group = (row.message.source, entry.new.handler, entry.status)
            groups.setdefault(group, []).append(row.received_at)
        return [Count(*group, len(times), min(times)) for group, times in groups.items()]

    # Helpers, called with the lock held

    def _row(self, entry: _Entry) -> Row:
        return self.tables.rows[entry.row]

    def _held(self, id: RowId, handler: str, fence: int) -> _Entry | None:
        entry = self.tables.handlings.get((int(id), handler))
        ours = entry is not None and entry.fence == fence and entry.status is Status.IN_PROGRESS
        return entry if ours else None

    def _is_free(self, session: MemorySession, entry: _Entry) -> bool:
        identity = _identity(self._row(entry))
        things = (identity, ("handling", entry.row, entry.new.handler))
        return all(self.locks.get(thing, session) is session for thing in things)

    def _cursor(self, session: MemorySession, track: Track, baseline: int = 0) -> _Cursor:
        session.must_hold(track)
        if track not in self.tables.cursors:
            session.put(self.tables.cursors, track, _Cursor(baseline))
        return self.tables.cursors[track]

    def _on(self, track: Track) -> list[_Entry]:
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
        return [row for row in old if not any(each.status in _KEEP for each in row.handlings)]


def _identity(row: Row) -> Identity:
    message = row.message
    return Identity(message.source, message.tenant, message.event_id, row.variant)


def _matches(row: Row, search: Search) -> bool:
    message = row.message
    exact = (
        (search.source, message.source),
        (search.tenant, message.tenant),
        (search.type, message.type),
        (search.key, message.key),
        (search.event_id, message.event_id),
    )
    if any(wanted is not None and wanted != found for wanted, found in exact):
        return False
    if search.ids is not None and row.id not in search.ids:
        return False
    if search.received_from is not None and row.received_at < search.received_from:
        return False
    if search.received_until is not None and row.received_at >= search.received_until:
        return False
    if search.after is not None and int(row.id) <= int(search.after):
        return False
    handlings = [each for each in row.handlings if search.handler in (None, each.handler)]
    if search.handler is not None and not handlings:
        return False
    if search.status is None:
        return True
    own = row.status if row.status is not Status.PENDING else None
    return search.status is own or any(each.status is search.status for each in handlings)


__all__ = ["MemoryInbox", "MemoryTx"]
