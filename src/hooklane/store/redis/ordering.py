"""Order on Redis: a track is held by a key that expires, and written under its version by the commit."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from hooklane.model.clock import Instant
from hooklane.model.inbox import Count, Gap, RowId, Track
from hooklane.model.message import Status
from hooklane.store.inbox import Flow
from hooklane.store.redis import pack
from hooklane.store.redis.base import Base
from hooklane.store.redis.session import Call, Command
from hooklane.store.without_tx.buffer import TrackState, Waiting
from hooklane.store.without_tx.names import track_name
from hooklane.store.without_tx.order_cursors import TrackVerbs, gap_of

LOCK_MS = 60_000
HELD_PAGE = 500
HELD_PAGES_MAX = 40
"""So many held events are looked at for gaps, in so many pages: one key that waits does not hide the others."""


class Ordering(Base, TrackVerbs):
    """How a track is held and read; the commit writes it."""

    @abstractmethod
    def counts(self) -> Flow[list[Count]]:
        """How much is in which status: that also says of whom something is held."""

    def _take_track(self, track: Track, token: str) -> Flow[TrackState | None]:
        name = track_name(track)
        answer = yield Call("hold", self._prefix(name), pack.pack((name, token, LOCK_MS)))
        return None if answer is None else pack.track_of(track, answer)

    def _read_track(self, track: Track) -> Flow[TrackState | None]:
        return (yield from self._take_track(track, ""))

    def _free(self, track: Track, waiting: Waiting, now: Instant) -> Any:
        return (pack.member_name(waiting.id), "free", waiting.id, track.handler, now)

    def _cover(self, track: Track, waiting: Waiting, now: Instant) -> Any:
        return (pack.member_name(waiting.id), "cover", waiting.id, track.handler, now)

    def _place(self, until: RowId, waiting: Waiting) -> bool:
        return str(waiting.id) <= str(until)

    def latest_row(self) -> Flow[RowId]:
        last = 0
        for prefix in self._prefixes:
            last = max(last, int((yield Command(("GET", f"{prefix}:clock"))) or 0))
        return f"{last:0{pack.PLACE_DIGITS}d}-{pack.LATEST}"

    def gaps(self, before: Instant, limit: int) -> Flow[list[Gap]]:
        found: dict[Track, Gap] = {}
        counts = yield from self.counts()
        for source, handler in {(each.source, each.handler) for each in counts if each.status is Status.HELD}:
            if handler is not None:
                for prefix in self._prefixes:
                    key = f"{prefix}:held:{source}\x1f{handler}"
                    yield from self._gaps_in(key, handler, before, limit, found)
        return sorted(found.values(), key=lambda gap: gap.since)[:limit]

    def _gaps_in(self, key: str, handler: str, before: Instant, limit: int, found: dict[Track, Gap]) -> Flow[None]:
        """The gaps before what is held under *key*, into *found*; each track is looked at once."""
        seen: set[Track] = set()
        for page in range(HELD_PAGES_MAX):
            command = ("ZRANGEBYSCORE", key, "-inf", before, "LIMIT", page * HELD_PAGE, HELD_PAGE)
            members = yield Command(command)
            for row in (yield from self._load([member.decode() for member in members])):
                handling = next((each for each in row.handlings if each.handler == handler), None)
                if handling is None or handling.key is None:
                    continue
                track = Track(row.message.source, row.message.account, handler, handling.key)
                if track in seen:
                    continue
                seen.add(track)
                gap = gap_of((yield from self._read_track(track)), before)
                if gap is not None:
                    found[track] = gap
            if len(members) < HELD_PAGE or len(found) >= limit:
                return
