"""The inbox in Redis or Valkey: quick, leased and fenced, but never one commit with the application's database.

Rows and claims are written at once by one script each; what settles them waits for the commit, which is one script.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from hooklane.errors import LeaseLost, StoreBusy, StoreRefused
from hooklane.model.clock import Instant
from hooklane.model.inbox import (
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
from hooklane.store.leased.buffer import Buffer, Claim, State, TrackState, Waiting
from hooklane.store.leased.names import digest_name, identity_name, text_of, track_name
from hooklane.store.leased.search import CLAIMABLE, matches
from hooklane.store.leased.tracks import TrackVerbs, gap_of
from hooklane.store.redis import pack
from hooklane.store.redis.address import Address, address_of
from hooklane.store.redis.doctor import examine
from hooklane.store.redis.session import AsyncRedisSession, Call, Command, Insert, Inserts, RedisSession, faults_named

LAYOUT = 1
WAIT_MS = 5_000
LOCK_MS = 60_000
PAGE = 500
ENTRIES = 20
"""So many entries of the stream are looked at in one script; an entry has up to a hundred rows or so."""
SLACK_US = 86_400_000_000
"""A row's place follows its time of arrival, and clocks of hosts differ: pruning looks a day further."""


class RedisInbox(TrackVerbs):
    """Verbs; see `scripts/bucket.lua` for what is kept where."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._settings = address.settings
        self._prefixes = [f"{self._settings.prefix}:{{{number}}}" for number in range(self._settings.buckets)]
        self._is_checked = False
        self._next_bucket = 0
        self._inserts: WeakKeyDictionary[Any, Inserts] = WeakKeyDictionary()
        self.keeping = (self._settings.ttl_ms, int(self._settings.drops_payload))
        one_bucket = self._settings.buckets == 1
        self.capabilities = Capabilities(
            name="redis cluster" if address.is_cluster else "redis",
            atomic=False,
            durable=True,
            survives_failover=False,
            native_async=True,
            transactional=False,
            # Order needs the row and its key's cursor in one script, and so in one slot.
            orders=("none", "latest", "sequence", "refetch") if one_bucket else ("none",),
            state_tokens=one_bucket,
            mode="inline",
            expires_ms=self._settings.ttl_ms,
            caveat="may lose at failover what was acknowledged; the handler's own writes are not part of its commit",
        )

    # Sessions

    def begin(self, *, wait_ms: int | None = None) -> RedisSession:
        with faults_named():
            client = self._address.client()
        session = RedisSession(self, client, _buffer(wait_ms))
        if not self._is_checked:
            self._check(session.perform(self._meta()))
        return session

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncRedisSession:
        with faults_named():
            client = await self._address.async_client()
        inserts = self._inserts.get(client)
        if inserts is None:
            inserts = self._inserts[client] = Inserts(client, self.keeping)
        session = AsyncRedisSession(self, client, inserts, _buffer(wait_ms))
        if not self._is_checked:
            self._check(await session.perform(self._meta()))
        return session

    def _meta(self) -> Call:
        return Call("meta", self._prefixes[0], pack.pack((LAYOUT, self._settings.buckets)))

    def _check(self, found: Sequence[bytes]) -> None:
        layout, buckets = (int(part) for part in found)
        if layout != LAYOUT:
            raise StoreRefused(f"this Redis holds an inbox of layout {layout}, and this version knows {LAYOUT}")
        if buckets != self._settings.buckets:
            raise StoreRefused(
                f"this Redis holds an inbox of {buckets} buckets, and buckets={self._settings.buckets} would not find"
                f" its rows: say buckets={buckets}, or another prefix="
            )
        self._is_checked = True

    def close(self) -> None:
        self._address.close()

    async def aclose(self) -> None:
        await self._address.aclose()
        await asyncio.to_thread(self._address.close)

    # The end of a session

    def commit(self, buffer: Buffer) -> Flow[None]:
        """Write what was buffered: one script per bucket, so all or nothing where there is one."""
        writes = list(buffer.later)
        for state in buffer.tracks.values():
            name = track_name(state.track)
            if state.is_changed:
                track = state.track
                writes.append(
                    (
                        name,
                        "track",
                        name,
                        state.version,
                        pack.raw(pack.pack((track.source, track.tenant, track.handler, track.key))),
                        str(state.begin()),
                        False if state.at is None else str(state.at),
                        _bytes(state.tie),
                        False if state.token is None else _bytes(state.token),
                    )
                )
            writes.append((name, "unlock", name, buffer.token))
        for prefix, group in self._by_bucket(writes, lambda write: write[0]):
            failed = yield self._write(prefix, [write[1:] for write in group])
            if failed:
                verb = group[failed - 1][1]
                if verb in ("complete", "fail"):
                    raise LeaseLost(f"another worker took this over meanwhile: the {verb} was not recorded")
                raise StoreBusy(f"another session changed the same thing ({verb}) meanwhile; nothing was recorded")

    def roll_back(self, buffer: Buffer) -> Flow[None]:
        """Give back what this session took; what it buffered was never there."""
        writes: list[tuple[Any, ...]] = [(pack.member_name(id), "retract", id) for id in buffer.inserted]
        for (id, handler), claim in buffer.claims.items():
            if id not in buffer.inserted:
                again = (claim.fence, claim.status.value, claim.due_at)
                writes.append((pack.member_name(id), "unclaim", id, handler, *again))
        for track in buffer.tracks:
            name = track_name(track)
            writes.append((name, "unlock", name, buffer.token))
        for prefix, group in self._by_bucket(writes, lambda write: write[0]):
            yield self._write(prefix, [write[1:] for write in group])

    def _write(self, prefix: str, writes: Sequence[Any]) -> Call:
        return Call("commit", prefix, pack.pack((writes, self._settings.ttl_ms, self._settings.drops_payload)))

    # Receiving

    def insert(self, rows: Sequence[NewRow]) -> Flow[list[RowId | None]]:
        buffer: Buffer = yield State()
        ids: list[RowId | None] = [None] * len(rows)
        lines = [(number, pack.row_args(row, identity_name(row.identity))) for number, row in enumerate(rows)]
        for prefix, group in self._by_bucket(lines, lambda line: line[1][0]):
            answers = yield Insert(prefix, [line for _, line in group])
            for (number, line), place in zip(group, answers, strict=True):
                if place is None:
                    continue
                id = ids[number] = f"{place.decode()}-{line[0]}"
                buffer.inserted[id] = None
                for handling in rows[number].handlings:
                    if handling.fence:
                        buffer.claims[id, handling.handler] = Claim(handling.fence)
        return ids

    def known(self, identities: Sequence[Identity]) -> Flow[list[Known | None]]:
        found: list[Known | None] = [None] * len(identities)
        names = [(number, identity_name(identity)) for number, identity in enumerate(identities)]
        for prefix, group in self._by_bucket(names, lambda each: each[1]):
            answers = yield Call("known", prefix, pack.pack(([name for _, name in group],)))
            for (number, name), answer in zip(group, answers, strict=True):
                found[number] = pack.known_of(name, answer)
        return found

    def try_lock(self, identity: Identity) -> Flow[bool]:
        yield from ()
        return True  # copies are told apart by the claim that is written with the row

    def remember(self, source: str, tenant: str, digest: bytes, event_id: str, now: Instant) -> Flow[str | None]:
        buffer: Buffer = yield State()
        if (source, tenant, digest) in buffer.digests:
            return buffer.digests[source, tenant, digest]
        name = digest_name(source, tenant, digest)
        earlier = yield Command(("GET", f"{self._prefix(name)}:digest:{name}"))
        if earlier is not None:
            return str(pack.unpack(earlier)[0])
        buffer.digests[source, tenant, digest] = event_id
        tombstone = pack.raw(pack.pack((event_id, now)))
        buffer.later.append((name, "remember", name, tombstone, self._settings.tombstone_ms, source, now))
        return None

    def count_copies(self, copies: Iterable[tuple[RowId, int]]) -> Flow[None]:
        for prefix, group in self._by_bucket(list(copies), lambda pair: pack.member_name(pair[0])):
            yield Call("copies", prefix, pack.pack((group,)))

    # Handling

    def claim(
        self, handlers: Sequence[tuple[str, str]], *, expired: bool, owner: str, now: Instant, lease_ms: int, limit: int
    ) -> Flow[list[Claimed]]:
        buffer: Buffer = yield State()
        taken: list[Claimed] = []
        for prefix in self._in_turn():
            args = ("lease" if expired else "due", now, now + lease_ms, limit - len(taken), owner, handlers)
            answers = yield Call("claim", prefix, pack.pack(args))
            taken += [self._taken(buffer, answer) for answer in answers]
            if len(taken) >= limit:
                break
        return sorted(taken, key=lambda each: (each.received_at, each.id))

    def claim_one(self, id: RowId, handler: str, *, owner: str, now: Instant, lease_ms: int) -> Flow[Claimed | None]:
        buffer: Buffer = yield State()
        args = (id, handler, now, now + lease_ms, owner)
        answer = yield Call("claim_one", self._prefix(pack.member_name(id)), pack.pack(args))
        return None if answer is None else self._taken(buffer, answer)

    def _taken(self, buffer: Buffer, answer: Sequence[bytes]) -> Claimed:
        claimed, was, due_at = pack.claimed_of(answer)
        buffer.claims[claimed.id, claimed.handler] = Claim(claimed.fence, was, due_at)
        return claimed

    def renew(self, id: RowId, handler: str, fence: int, *, now: Instant, lease_ms: int) -> Flow[bool]:
        args = pack.pack((id, handler, fence, now + lease_ms))
        return bool((yield Call("renew", self._prefix(pack.member_name(id)), args)))

    def complete(self, id: RowId, handler: str, fence: int, status: Status, now: Instant) -> Flow[bool]:
        write = ("complete", id, handler, fence, status.value, now)
        return (yield from self._settle_claim(id, handler, fence, write))

    def fail(
        self,
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
    ) -> Flow[bool]:
        story = (text_of(error), text_of(traceback), now, False if attempts is None else attempts)
        write = ("fail", id, handler, fence, status.value, due_at, *story)
        return (yield from self._settle_claim(id, handler, fence, write))

    def _settle_claim(self, id: RowId, handler: str, fence: int, write: tuple[Any, ...]) -> Flow[bool]:
        buffer: Buffer = yield State()
        if not buffer.holds(id, handler, fence):
            found = yield from self._handling(id, handler)
            if found is None or found.fence != fence or found.status is not Status.IN_PROGRESS:
                return False
        buffer.later.append((pack.member_name(id), *write))
        return True

    def _handling(self, id: RowId, handler: str) -> Flow[Handling | None]:
        answer = yield Call("handling", self._prefix(pack.member_name(id)), pack.pack((id, handler)))
        return None if answer is None else pack.handling_of(handler, answer)

    # Order; see TrackVerbs

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
        for pair in {(each.source, each.handler) for each in counts if each.status is Status.HELD and each.handler}:
            for prefix in self._prefixes:
                key = f"{prefix}:held:{pair[0]}\x1f{pair[1]}"
                members = yield Command(("ZRANGEBYSCORE", key, "-inf", before, "LIMIT", 0, PAGE))
                for row in (yield from self._load([member.decode() for member in members])):
                    handling = next((each for each in row.handlings if each.handler == pair[1]), None)
                    if handling is None or handling.key is None:
                        continue
                    track = Track(row.message.source, row.message.tenant, handling.handler, handling.key)
                    gap = None if track in found else gap_of((yield from self._read_track(track)), before)
                    if gap is not None:
                        found[track] = gap
        return sorted(found.values(), key=lambda gap: gap.since)[:limit]

    # Keeping

    def reopen(self, id: RowId, handler: str, *, now: Instant) -> Flow[bool]:
        found = yield from self._handling(id, handler)
        if found is None or (found.status is Status.IN_PROGRESS and found.due_at > now):
            return False
        yield from self._later(id, "reopen", handler, now)
        return True

    def attach(self, id: RowId, handling: NewHandling) -> Flow[None]:
        found = yield from self._load([str(id)])
        if found and all(each.handler != handling.handler for each in found[0].handlings):
            message = found[0].message
            packed = pack.handling_line(message.source, message.tenant, handling)
            yield from self._later(id, "attach", handling.handler, packed)

    def settle(self, id: RowId, handler: str, status: Status, note: str, now: Instant) -> Flow[bool]:
        found = yield from self._handling(id, handler)
        if found is None or found.status not in (*CLAIMABLE, Status.DEAD, Status.HELD):
            return False
        yield from self._later(id, "settle", handler, status.value, text_of(note), now)
        return True

    def _later(self, id: RowId, verb: str, *args: Any) -> Flow[None]:
        buffer: Buffer = yield State()
        buffer.later.append((pack.member_name(id), verb, id, *args))

    def heartbeat(self) -> Flow[Heartbeat | None]:
        found = yield Command(("HMGET", f"{self._prefixes[0]}:beat", "seen", "down", "until"))
        if found[0] is None:
            return None
        return Heartbeat(Instant(int(found[0])), int(found[1]), Instant(int(found[2])))

    def beat(self, heartbeat: Heartbeat) -> Flow[None]:
        values = ("seen", heartbeat.seen_at, "down", heartbeat.down_ms, "until", heartbeat.down_until)
        yield Command(("HSET", f"{self._prefixes[0]}:beat", *values))

    def prune(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return (yield from self._sweep("prune", before, source, limit))

    def purge(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return (yield from self._sweep("purge", before, source, limit))

    def forget(self, *, before: Instant, source: str | None, limit: int) -> Flow[int]:
        return (yield from self._sweep("forget", before, source, limit))

    def _sweep(self, verb: str, before: Instant, source: str | None, limit: int) -> Flow[int]:
        """Walk the stream from its oldest entry in short scripts, so that nobody waits for long."""
        gone = 0
        stop = str(max(0, before * 1000) + SLACK_US)
        for prefix in self._prefixes:
            last, done = "0-0", False
            while not done and gone < limit:
                args = (before, source or "", limit - gone, last, ENTRIES, stop)
                removed, last_seen, is_done = yield Call(verb, prefix, pack.pack(args))
                gone, last, done = gone + int(removed), last_seen.decode(), bool(is_done)
        return gone

    # Reading

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
                # Rows that are dead themselves, because nobody could read them, stand under no handler.
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

    def _load(self, members: Sequence[str]) -> Flow[list[Row]]:
        rows: list[Row] = []
        for prefix, group in self._by_bucket(list(members), pack.member_name):
            answers = yield Call("rows", prefix, pack.pack((group,)))
            rows += [pack.row_of(answer) for answer in answers if answer is not None]
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
        return examine(self.capabilities.name)

    # Buckets

    def _prefix(self, name: str) -> str:
        return self._prefixes[pack.bucket_of(name, self._settings.buckets)]

    def _by_bucket(self, items: list[Any], name: Callable[[Any], str]) -> Iterator[tuple[str, list[Any]]]:
        """*items* in groups that may be one script: those of one bucket."""
        if len(self._prefixes) == 1:
            if items:
                yield self._prefixes[0], items
            return
        groups: dict[str, list[Any]] = {}
        for item in items:
            groups.setdefault(self._prefix(name(item)), []).append(item)
        yield from groups.items()

    def _in_turn(self) -> list[str]:
        """All buckets, beginning with another one each time, so that none is always last."""
        self._next_bucket = (self._next_bucket + 1) % len(self._prefixes)
        return self._prefixes[self._next_bucket :] + self._prefixes[: self._next_bucket]


_CLASSES = {
    Status.PENDING: "due",
    Status.FAILED: "due",
    Status.IN_PROGRESS: "lease",
    Status.HELD: "held",
    Status.DEAD: "dead",
}


def by_url(url: str) -> RedisInbox:
    """The inbox at *url*."""
    return RedisInbox(address_of(url))


def _buffer(wait_ms: int | None) -> Buffer:
    return Buffer(secrets.token_hex(8), WAIT_MS if wait_ms is None else wait_ms)


def _members(entry: bytes, fields: Any) -> Iterator[str]:
    """The rows of an entry of the stream."""
    flat = fields if isinstance(fields, (list, tuple)) else [part for pair in fields.items() for part in pair]
    first, names = int(entry.partition(b"-")[0]), flat[1].decode()
    for at in range(0, len(names), pack.NAME_CHARS):
        place = first + at // pack.NAME_CHARS
        yield f"{place:0{pack.PLACE_DIGITS}d}-{names[at : at + pack.NAME_CHARS]}"


def _bytes(text: str) -> Any:
    return pack.raw(text.encode("utf-8", "surrogatepass"))
