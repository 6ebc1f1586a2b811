"""Keeping and reading, in memory: replay, retention, search, figures."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import OPEN, Count, Heartbeat, NewHandling, Row, RowId, Search
from hooklane.model.jumps import set_back
from hooklane.model.message import Status
from hooklane.store.memory.inbox.session import MemorySession
from hooklane.store.memory.inbox.tables import Memory, identity_of, verb
from hooklane.store.without_tx.search import matches


class Keeping(Memory):
    @verb
    def reopen(
        self, session: MemorySession, id: RowId, handler: str, *, now: Instant, was: Status | None = None
    ) -> bool:
        entry = self.tables.handlings.get((int(id), handler))
        if (
            entry is None
            or was not in (None, entry.status)
            or (entry.status is Status.IN_PROGRESS and entry.due_at > now)
            or self._row(entry).purged
        ):
            return False
        session.change(entry, status=Status.PENDING, due_at=now, attempts=0, fence=entry.fence + 1, settled_at=None)
        return True

    @verb
    def attach(self, session: MemorySession, id: RowId, handling: NewHandling) -> None:
        row = self.tables.rows.get(int(id))
        if row is not None and not row.purged and (int(id), handling.handler) not in self.tables.handlings:
            self._attach(session, row, handling)
            if row.status is not Status.PENDING:
                session.put(self.tables.rows, int(id), replace(row, status=Status.PENDING))

    @verb
    def restate(
        self, session: MemorySession, id: RowId, status: Status, reason: str, now: Instant, *, was: Status
    ) -> bool:
        row = self.tables.rows.get(int(id))
        if row is None or row.status is not was:
            return False
        session.put(self.tables.rows, int(id), replace(row, status=status, reason=reason))
        return True

    @verb
    def settle(
        self,
        session: MemorySession,
        id: RowId,
        handler: str,
        status: Status,
        note: str,
        now: Instant,
        *,
        was: Status | None = None,
    ) -> bool:
        entry = self.tables.handlings.get((int(id), handler))
        if entry is None or was not in (None, entry.status):
            return False
        if entry.status not in (Status.DEAD, Status.HELD, Status.FAILED, Status.PENDING):
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
    def keep_clock(self, session: MemorySession, now: Instant, said: Instant = START) -> int:
        by = set_back(max(self.tables.clock, said), now)
        for entry in self.tables.handlings.values():
            if by and entry.status in OPEN and entry.due_at > now:
                session.change(entry, due_at=Instant(entry.due_at - by))
        session.change(self.tables, clock=now)
        return by

    @verb
    def prune(self, session: MemorySession, *, before: Instant, source: str | None, limit: int) -> int:
        old = self._old(before, source)[:limit]
        for row in old:
            for handling in row.handlings:
                session.drop(self.tables.handlings, (int(row.id), handling.handler))
            session.drop(self.tables.by_identity, identity_of(row))
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

    @verb
    def rows(self, session: MemorySession, search: Search) -> list[Row]:
        after, wanted = int(search.after or 0), replace(search, after=None)  # ids are numbers here, elsewhere texts
        found = [self._whole(row) for row in self.tables.rows.values() if int(row.id) > after]
        return sorted((row for row in found if matches(row, wanted)), key=lambda row: int(row.id))[: search.limit]

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
