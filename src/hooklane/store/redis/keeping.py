"""Keeping and reading on Redis: replay, pruning, searches, counts. For people and maintenance."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from hooklane.model.clock import START, Instant
from hooklane.model.inbox import Count, Heartbeat, NewHandling, Row, RowId, Search
from hooklane.model.jumps import JUMP_MS, NOTE_MS
from hooklane.model.message import Status
from hooklane.store.inbox import Flow
from hooklane.store.redis import pack
from hooklane.store.redis.base import Base
from hooklane.store.redis.doctor import examine
from hooklane.store.redis.session import Call, Command
from hooklane.store.without_tx.buffer import Buffer, State
from hooklane.store.without_tx.names import text_of
from hooklane.store.without_tx.search import CLAIMABLE, matches

PAGE = 500
ENTRIES = 20
"""So many entries of the stream are looked at in one script; an entry has up to a hundred rows or so."""
SLACK_US = 86_400_000_000
"""A row's place follows its time of arrival, and clocks of hosts differ: pruning looks a day further."""


class Keeping(Base):
    """The verbs that are not on the path of an event."""

    def reopen(self, id: RowId, handler: str, *, now: Instant, was: Status | None = None) -> Flow[bool]:
        rows = yield from self._load([str(id)])
        handlings = () if not rows or rows[0].purged else rows[0].handlings
        found = next((each for each in handlings if each.handler == handler), None)
        if (
            found is None
            or was not in (None, found.status)
            or (found.status is Status.IN_PROGRESS and found.due_at > now)
        ):
            return False
        yield from self._later(id, "reopen", handler, now, was or "")
        return True

    def attach(self, id: RowId, handling: NewHandling) -> Flow[None]:
        found = yield from self._load([str(id)])
        if found and not found[0].purged and all(each.handler != handling.handler for each in found[0].handlings):
            message = found[0].message
            packed = pack.handling_line(message.source, message.account, handling)
            yield from self._later(id, "attach", handling.handler, packed)

    def restate(self, id: RowId, status: Status, reason: str, now: Instant, *, was: Status) -> Flow[bool]:
        found = yield from self._load([str(id)])
        if not found or found[0].status is not was:
            return False
        yield from self._later(id, "restate", status.value, text_of(reason), was.value)
        return True

    def settle(
        self, id: RowId, handler: str, status: Status, note: str, now: Instant, *, was: Status | None = None
    ) -> Flow[bool]:
        found = yield from self._handling(id, handler)
        if found is None or was not in (None, found.status):
            return False
        if found.status not in (*CLAIMABLE, Status.DEAD, Status.HELD):
            return False
        yield from self._later(id, "settle", handler, status.value, text_of(note), now, was or "")
        buffer: Buffer = yield State()
        buffer.given_up.add((str(id), handler))
        return True

    def heartbeat(self) -> Flow[Heartbeat | None]:
        found = yield Command(("HMGET", f"{self._prefixes[0]}:beat", "seen", "down", "until"))
        if found[0] is None:
            return None
        return Heartbeat(Instant(int(found[0])), int(found[1]), Instant(int(found[2])))

    def beat(self, heartbeat: Heartbeat) -> Flow[None]:
        values = ("seen", heartbeat.seen_at, "down", heartbeat.down_ms, "until", heartbeat.down_until)
        yield Command(("HSET", f"{self._prefixes[0]}:beat", *values))

    def keep_clock(self, now: Instant, said: Instant = START) -> Flow[int]:
        # Times are those of many hosts here, and a host that is behind the others was not set back: each has its note.
        by = 0
        for prefix in self._prefixes:
            args = (text_of(socket.gethostname()), now, JUMP_MS, NOTE_MS)
            by = max(by, (yield Call("keep_clock", prefix, pack.pack(args))))
        return by

    def prune(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return (yield from self._sweep("prune", before, source, limit))

    def purge(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return (yield from self._sweep("purge", before, source, limit))

    def forget(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return (yield from self._sweep("forget", before, source, limit))

    def _sweep(self, verb: str, before: Instant, source: str | None, limit: int) -> Flow[int]:
        """Walk the stream from its oldest entry in short scripts, so that no other client waits for long."""
        gone = 0
        stop = str(max(0, before * 1000) + SLACK_US)
        for prefix in self._prefixes:
            last, done = "0-0", False
            while not done and gone < limit:
                args = (before, source or "", limit - gone, last, ENTRIES, stop)
                removed, last_seen, is_done = yield Call(verb, prefix, pack.pack(args))
                gone, last, done = gone + int(removed), last_seen.decode(), bool(is_done)
        return gone

    def rows(self, search: Search) -> Flow[list[Row]]:
        if search.ids is not None:
            found = yield from self._load([str(id) for id in search.ids])
            return sorted((row for row in found if matches(row, search)), key=lambda row: str(row.id))[: search.limit]
        if search.status in (*CLAIMABLE, Status.IN_PROGRESS, Status.HELD, Status.DEAD):
            rows = yield from self._in_status(search)
        else:
            rows = yield from self._walk(search)
        return sorted(rows, key=lambda row: str(row.id))[: search.limit]

    def _in_status(self, search: Search) -> Flow[list[Row]]:
        """Rows by the index of what is owed or dead, which is short where all goes well."""
        assert search.status is not None
        kind = _CLASSES[search.status]
        members: set[str] = set()
        for each in (yield from self.counts()):
            if each.status is not search.status:
                continue
            for prefix in self._prefixes:
                # Rows that are dead themselves, because they could not be read, stand under no handler.
                found = yield Command(("ZRANGE", f"{prefix}:{kind}:{each.source}\x1f{each.handler or ''}", 0, -1))
                members.update(member.decode() for member in found)
        rows: list[Row] = []
        chosen = sorted(member for member in members if search.after is None or member > str(search.after))
        for start in range(0, len(chosen), PAGE):
            page = yield from self._load(chosen[start : start + PAGE])
            rows += [row for row in page if matches(row, search)]
            if len(rows) >= search.limit:
                break
        return rows

    def _walk(self, search: Search) -> Flow[list[Row]]:
        """Rows in the order of their arrival."""
        rows: list[Row] = []
        for prefix in self._prefixes:
            key, begin, found = f"{prefix}:rows", "-", 0
            if search.after is not None:
                # The entry that holds the row to begin after may hold later ones too.
                place = str(search.after)[: pack.PLACE_DIGITS]
                entries = yield Command(("XREVRANGE", key, place, "-", "COUNT", 1))
                begin = entries[0][0].decode() if entries else "-"
            while found < search.limit:
                entries = yield Command(("XRANGE", key, begin, "+", "COUNT", ENTRIES))
                members = [member for entry, fields in entries for member in _members(entry, fields)]
                for start in range(0, len(members), PAGE):
                    page = yield from self._load(members[start : start + PAGE])
                    chosen = [row for row in page if matches(row, search)]
                    rows += chosen
                    found += len(chosen)
                if len(entries) < ENTRIES:
                    break
                begin = f"({entries[-1][0].decode()}"
        return rows

    def counts(self) -> Flow[list[Count]]:
        groups: dict[tuple[str, str | None, Status], tuple[int, Instant]] = {}
        for prefix in self._prefixes:
            for group, number, oldest in (yield Call("counts", prefix, pack.pack(()))):
                source, status, handler = group.decode().split("\x1f", 2)
                name = (source, handler or None, Status(status))
                rows, since = groups.get(name, (0, Instant(int(oldest))))
                groups[name] = (rows + int(number), Instant(min(since, int(oldest))))
        return [Count(*name, rows, since) for name, (rows, since) in sorted(groups.items(), key=str)]

    def examine(self) -> Flow[list[str]]:
        """What an operator should mend about this server."""
        return examine()


_CLASSES = {
    Status.PENDING: "due",
    Status.FAILED: "due",
    Status.IN_PROGRESS: "lease",
    Status.HELD: "held",
    Status.DEAD: "dead",
}


def _members(entry: bytes, fields: Any) -> Iterator[str]:
    """The rows of an entry of the stream."""
    flat = fields if isinstance(fields, (list, tuple)) else [part for pair in fields.items() for part in pair]
    first, names = int(entry.partition(b"-")[0]), flat[1].decode()
    for at in range(0, len(names), pack.NAME_CHARS):
        place = first + at // pack.NAME_CHARS
        yield f"{place:0{pack.PLACE_DIGITS}d}-{names[at : at + pack.NAME_CHARS]}"
