"""Receiving, in memory: the dedup, what is known, tombstones and states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hooklane.model.clock import Instant
from hooklane.model.inbox import Identity, Known, NewRow, Row, RowId, Track
from hooklane.store.memory.inbox.session import MemorySession
from hooklane.store.memory.inbox.tables import Memory, verb


class Receiving(Memory):
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

    @verb
    def known(self, session: MemorySession, identities: Sequence[Identity]) -> list[Known | None]:
        return [self._known(identity) for identity in identities]

    def _known(self, identity: Identity) -> Known | None:
        id = self.tables.by_identity.get(identity)
        if id is None:
            return None
        row = self.tables.rows[id]
        return Known(
            id=id,
            status=row.status,
            fingerprint=row.message.fingerprint,
            type=row.message.type,
            handlings=self._handlings(id),
        )

    @verb
    def try_lock(self, session: MemorySession, identity: Identity) -> bool:
        return session.hold(identity)

    @verb
    def remember(
        self, session: MemorySession, source: str, account: str, digest: bytes, event_id: str, now: Instant
    ) -> str | None:
        session.must_hold((source, account, digest))
        earlier = self.tables.digests.get((source, account, digest))
        if earlier is None:
            session.put(self.tables.digests, (source, account, digest), (event_id, now))
        return None if earlier is None else earlier[0]

    @verb
    def turn(self, session: MemorySession, track: Track, token: str) -> tuple[int, bool]:
        cursor = self._cursor(session, track)
        if cursor.token == token:
            return cursor.seq, False
        session.change(cursor, token=token, seq=cursor.seq + 1)
        return cursor.seq, True

    @verb
    def count_copies(self, session: MemorySession, copies: Iterable[tuple[RowId, int]]) -> None:
        for id, number in copies:
            row = self.tables.rows.get(int(id))
            if row is not None:
                session.put(self.tables.rows, row.id, replace(row, copies=row.copies + number))
