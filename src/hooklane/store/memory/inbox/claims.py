"""Claims, in memory: taken, renewed, completed, failed."""

from __future__ import annotations

from collections.abc import Sequence

from hooklane.model.clock import Instant
from hooklane.model.inbox import OPEN, Claimed, HandlingFailure, RowId
from hooklane.model.message import Status
from hooklane.store.memory.inbox.session import MemorySession
from hooklane.store.memory.inbox.tables import CLAIMABLE, Entry, Memory, verb


class Claims(Memory):
    @verb
    def claim(
        self,
        session: MemorySession,
        handlers: Sequence[tuple[str, str]],
        *,
        expired: bool,
        now: Instant,
        lease_ms: int,
        limit: int,
    ) -> list[Claimed]:
        wanted = set(handlers)
        due = [
            entry
            for entry in self.tables.handlings.values()
            if entry.status in ((Status.IN_PROGRESS,) if expired else CLAIMABLE)
            and entry.due_at <= now
            and (self._row(entry).message.source, entry.new.handler) in wanted
            and self._is_free(session, entry)
        ]
        due.sort(key=lambda entry: (entry.due_at, entry.row))
        taken = [self._take(session, entry, now, lease_ms) for entry in due[:limit]]
        return sorted(taken, key=lambda each: (each.received_at, each.id))

    @verb
    def claim_one(
        self, session: MemorySession, id: RowId, handler: str, *, now: Instant, lease_ms: int
    ) -> Claimed | None:
        entry = self.tables.handlings.get((int(id), handler))
        if entry is None or entry.status not in OPEN or not self._is_free(session, entry):
            return None
        if entry.status is Status.IN_PROGRESS and entry.due_at > now:
            return None
        return self._take(session, entry, now, lease_ms)

    def _take(self, session: MemorySession, entry: Entry, now: Instant, lease_ms: int) -> Claimed:
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
    def fail(self, session: MemorySession, id: RowId, handler: str, fence: int, failure: HandlingFailure) -> bool:
        entry = self._held(id, handler, fence)
        if entry is None:
            return False
        session.must_hold(("handling", int(id), handler))
        session.change(
            entry,
            status=failure.status,
            due_at=failure.due_at,
            error=failure.error,
            traceback=failure.traceback,
            attempts=entry.attempts if failure.attempts is None else failure.attempts,
            settled_at=failure.now if failure.status is Status.DEAD else None,
        )
        return True
