"""Keeping and reading, in memory: replay, retention, search, figures."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.clock import Instant
from hooklane.model.inbox import Count, Heartbeat, NewHandling, Row, RowId, Search
from hooklane.model.message import Status
from hooklane.store.memory.inbox.session import MemorySession
from hooklane.store.memory.inbox.tables import Memory, identity_of, verb


class Keeping(Memory):
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
