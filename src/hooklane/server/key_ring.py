"""Which keys are known? All of them, in memory, and read again when their revision in the store has changed.

A key is found by the SHA-256 of what the client sent, and a publisher's that came before by the header itself. What the
timing of these tells is about the hash of a guess (a dictionary's is seeded by chance), not about a key.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass
from time import monotonic

from hooklane.core.api_key import is_alive, permits
from hooklane.errors import StoreError, StoreUnavailable
from hooklane.model.api_key import ApiKey, Scope
from hooklane.model.clock import FOREVER, Instant, wall_now
from hooklane.server.caller import Caller
from hooklane.server.repeating import repeat
from hooklane.store.access import AccessStore

LOOK_S = 0.25
"""How often the revision is read while there are keys: a key that another process revoked works so long at most."""
TRUST_S = 15.0
"""Keys that could not be compared with the store for so long are not trusted any more: calls with them get a 503."""
FLUSH_S = 60.0
"""How often it is written which keys were used."""
_BEARER = b"Bearer "


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key as it is remembered."""

    key: ApiKey
    caller: Caller


class KeyRing:
    """The keys of one process. `run` keeps them fresh."""

    def __init__(self, store: AccessStore) -> None:
        self._store = store
        self._rev: int | None = None
        self._known: dict[bytes, KnownKey] = {}
        self._publishers: dict[bytes, KnownKey] = {}
        self._seen: dict[bytes, KnownKey] = {}
        """Publishers by the very header they sent, so that it need not be hashed again."""
        self._used: set[str] = set()
        self._trusted_until = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._flushed = 0.0

    def expiry_of(self, key_id: str | None) -> Instant | None:
        """When the key with this id ends; None where that is never, or there is no such key."""
        return next((one.key.expires_at for one in self._known.values() if one.key.id == key_id), None)

    def end_of(self, key_id: str) -> Instant:
        """Until when calls with the key of this id are let in: 1970 where there is no such key."""
        if all(one.key.id != key_id for one in self._known.values()):
            return Instant(0)
        return self.expiry_of(key_id) or FOREVER

    # --- asking ---

    def publisher(self, authorization: bytes | None) -> Caller | None:
        """The caller of a publish whose header is *authorization*, for the fast path; None where it is not known."""
        if not self._publishers or authorization is None:
            return None
        known = self._seen.get(authorization)
        if known is None:
            if not authorization.startswith(_BEARER):
                return None
            known = self._publishers.get(hashlib.sha256(authorization[7:]).digest())
            if known is None:
                return None
            self._seen[authorization] = known  # only what is a key: there are not more of these than of keys
        if not self._is_good(known) or monotonic() > self._trusted_until:
            return None
        self._used.add(known.key.id)
        return known.caller

    async def caller(self, digest: bytes) -> Caller | None:
        """The caller whose key has *digest*; None where there is no such key, or not any more."""
        if digest not in self._known or monotonic() > self._trusted_until:
            await self.look_anew()  # it may have been made a moment ago, by another process
        known = self._known.get(digest)
        if known is None or not self._is_good(known):
            return None
        self._used.add(known.key.id)
        return known.caller

    def _is_good(self, known: KnownKey) -> bool:
        return known.key.expires_at is None or is_alive(known.key, wall_now())

    # --- staying fresh ---

    async def look(self) -> None:
        """Compare the revision with the store's, and read the keys where it differs. Those who ask at once share it."""
        task = self._looking
        if task is None or task.done():
            task = self._looking = asyncio.ensure_future(self._look())
            task.add_done_callback(lambda one: one.cancelled() or one.exception())  # told to those who still wait
        await asyncio.shield(task)

    async def look_anew(self) -> None:
        """Read the keys after a change: a `look` that began before the change may not have seen it."""
        if self._looking is not None and not self._looking.done():
            await asyncio.wait([self._looking])
        await self.look()

    async def _look(self) -> None:
        began = monotonic()
        try:
            async with asyncio.timeout(TRUST_S):
                rev = await self._store.key_revision()
                if rev != self._rev:
                    rev, keys = await self._store.api_keys()
                    self._remember(rev, list(keys))
        except TimeoutError:
            raise StoreUnavailable("the keys could not be read in time") from None
        self._trusted_until = began + TRUST_S

    def _remember(self, rev: int, keys: list[ApiKey]) -> None:
        known = {
            key.digest: KnownKey(key, Caller(f"{key.name} ({key.id})", frozenset(key.scopes), key.tenant, key.id))
            for key in keys
        }
        self._publishers = {digest: one for digest, one in known.items() if permits(one.key.scopes, Scope.PUBLISH)}
        self._known, self._rev, self._seen = known, rev, {}

    async def run(self) -> None:
        """Look again and again until `stop`."""
        self._flushed = monotonic()
        await repeat(self._round, LOOK_S, self._stopping, "API keys cannot be compared with the database")
        with contextlib.suppress(StoreError):  # when a key was last used is not worth more
            await self.flush()

    async def _round(self) -> None:
        if self._known or self._rev is None:  # without keys there is nothing to revoke
            await self.look()
        if monotonic() - self._flushed >= FLUSH_S:
            self._flushed = monotonic()
            await self.flush()

    def stop(self) -> None:
        self._stopping.set()

    async def flush(self) -> None:
        """Write which keys were used since the last time."""
        used, self._used = self._used, set()
        if used:
            await self._store.note_keys_used(sorted(used), wall_now())
