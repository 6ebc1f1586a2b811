"""Order, in memory: cursors, the newest, and hints that are covered by one fetch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hooklane.model.clock import Instant
from hooklane.model.inbox import Gap, RowId, Track
from hooklane.model.message import Status
from hooklane.store.memory.inbox.session import MemorySession
from hooklane.store.memory.inbox.tables import KEPT, Memory, verb
from hooklane.store.without_tx.buffer import TrackState, Waiting
from hooklane.store.without_tx.order_cursors import gap_of


class Order(Memory):
    @verb
    def cursor(self, session: MemorySession, track: Track, baseline: int) -> int:
        return self._cursor(session, track, baseline).seq

    @verb
    def cursors(self, session: MemorySession, tracks: Mapping[Track, int]) -> dict[Track, int]:
        ordered = sorted(tracks, key=lambda track: (track.source, track.account, track.handler, track.key))
        return {track: self._cursor(session, track, tracks[track]).seq for track in ordered}

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
    def arrived(self, session: MemorySession, places: Sequence[tuple[Track, int]]) -> list[bool]:
        return [
            any(entry.new.seq == seq and entry.status in KEPT for entry in self._on(track)) for track, seq in places
        ]

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
        found = [gap_of(self._state(track), before) for track in tracks if track is not None]
        return sorted((gap for gap in found if gap is not None), key=lambda gap: gap.since)[:limit]

    def _state(self, track: Track) -> TrackState:
        waiting: dict[RowId, Waiting] = {
            entry.row: Waiting(entry.row, entry.status, entry.due_at, entry.new.seq, entry.new.prev_seq)
            for entry in self._on(track)
            if entry.status in KEPT
        }
        return TrackState(track, self.tables.cursors[track].seq, waiting=waiting)
