"""The inbox in Redis or Valkey: quick, leased and fenced, but never one commit with the application's database.

Rows and claims are written at once by one script each; what settles them waits for the commit, which is one script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from hooklane.errors import LeaseLost, Overtaken, StoreBusy, StoreRefused
from hooklane.model.clock import Instant
from hooklane.model.inbox import Claimed, HandlingFailure, Identity, Known, NewRow, RowId
from hooklane.model.message import Status
from hooklane.store.inbox import Capabilities, Flow
from hooklane.store.redis import pack
from hooklane.store.redis.address import Address, address_of
from hooklane.store.redis.keeping import Keeping
from hooklane.store.redis.ordering import Ordering
from hooklane.store.redis.session import (
    TX,
    AsyncRedisSession,
    Call,
    Command,
    Insert,
    Inserts,
    RedisSession,
    faults_named,
)
from hooklane.store.without_tx.buffer import Buffer, Claim, State, new_buffer
from hooklane.store.without_tx.names import digest_name, identity_name, text_of, track_name

LAYOUT = 1


class RedisInbox(Keeping, Ordering):
    """Verbs; see `scripts/bucket.lua` for what is kept where."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._is_checked = False
        self._inserts: WeakKeyDictionary[Any, Inserts] = WeakKeyDictionary()
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

    def begin(self, *, wait_ms: int | None = None) -> RedisSession:
        with faults_named():
            client = self._address.client()
        session = RedisSession(self, client, new_buffer(TX, wait_ms))
        if not self._is_checked:
            self._check(session.perform(self._meta()))
        return session

    async def abegin(self, *, wait_ms: int | None = None) -> AsyncRedisSession:
        with faults_named():
            client = await self._address.async_client()
        inserts = self._inserts.get(client)
        if inserts is None:
            inserts = self._inserts[client] = Inserts(client, self.keeping)
        session = AsyncRedisSession(self, client, inserts, new_buffer(TX, wait_ms))
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
                        pack.raw(pack.pack((track.source, track.account, track.handler, track.key))),
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
                overtaken = Overtaken if verb in ("reopen", "attach", "settle", "restate") else StoreBusy
                raise overtaken(f"another session changed the same thing ({verb}) meanwhile; nothing was recorded")

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

    def remember(self, source: str, account: str, digest: bytes, event_id: str, now: Instant) -> Flow[str | None]:
        buffer: Buffer = yield State()
        if (source, account, digest) in buffer.digests:
            return buffer.digests[source, account, digest]
        name = digest_name(source, account, digest)
        earlier = yield Command(("GET", f"{self._prefix(name)}:digest:{name}"))
        if earlier is not None:
            return str(pack.unpack(earlier)[0])
        buffer.digests[source, account, digest] = event_id
        tombstone = pack.raw(pack.pack((event_id, now)))
        buffer.later.append((name, "remember", name, tombstone, self._settings.tombstone_ms, source, now))
        return None

    def count_copies(self, copies: Iterable[tuple[RowId, int]]) -> Flow[None]:
        for prefix, group in self._by_bucket(list(copies), lambda pair: pack.member_name(pair[0])):
            yield Call("copies", prefix, pack.pack((group,)))

    def claim(
        self, handlers: Sequence[tuple[str, str]], *, expired: bool, now: Instant, lease_ms: int, limit: int
    ) -> Flow[list[Claimed]]:
        buffer: Buffer = yield State()
        taken: list[Claimed] = []
        for prefix in self._in_turn():
            args = ("lease" if expired else "due", now, now + lease_ms, limit - len(taken), handlers)
            answers = yield Call("claim", prefix, pack.pack(args))
            taken += [self._taken(buffer, answer) for answer in answers]
            if len(taken) >= limit:
                break
        return sorted(taken, key=lambda each: (each.received_at, each.id))

    def claim_one(self, id: RowId, handler: str, *, now: Instant, lease_ms: int) -> Flow[Claimed | None]:
        buffer: Buffer = yield State()
        args = (id, handler, now, now + lease_ms)
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

    def fail(self, id: RowId, handler: str, fence: int, failure: HandlingFailure) -> Flow[bool]:
        attempts = False if failure.attempts is None else failure.attempts
        story = (text_of(failure.error), text_of(failure.traceback), failure.now, attempts)
        write = ("fail", id, handler, fence, failure.status.value, failure.due_at, *story)
        return (yield from self._settle_claim(id, handler, fence, write))

    def _settle_claim(self, id: RowId, handler: str, fence: int, write: tuple[Any, ...]) -> Flow[bool]:
        buffer: Buffer = yield State()
        if not buffer.holds(id, handler, fence):
            found = yield from self._handling(id, handler)
            if found is None or found.fence != fence or found.status is not Status.IN_PROGRESS:
                return False
        buffer.later.append((pack.member_name(id), *write))
        return True


def by_url(url: str) -> RedisInbox:
    """The inbox at *url*."""
    return RedisInbox(address_of(url))


def _bytes(text: str) -> Any:
    return pack.raw(text.encode("utf-8", "surrogatepass"))
