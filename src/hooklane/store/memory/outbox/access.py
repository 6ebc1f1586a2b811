"""API keys, sessions and portal links in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hooklane.model.api_key import ApiKey, Session
from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.store.memory.outbox.tables import Tables


class MemoryAccess:
    """`AccessStore` over plain dictionaries."""

    tables: Tables

    async def add_key(self, key: ApiKey, *, act: Act) -> None:
        self.tables.api_keys[key.id] = key
        self.tables.key_rev += 1
        self.tables.record(act)

    async def key_revision(self) -> int:
        return self.tables.key_rev

    async def api_keys(self) -> tuple[int, Sequence[ApiKey]]:
        keys = sorted(self.tables.api_keys.values(), key=lambda key: (key.created_at, key.id))
        return self.tables.key_rev, keys

    async def remove_key(self, id: str, *, act: Act) -> bool:
        tables = self.tables
        tables.key_rev += 1
        if tables.api_keys.pop(id, None) is None:
            return False
        tables.sessions = {key: one for key, one in tables.sessions.items() if one.made_with != id}
        tables.record(act)
        return True

    async def note_keys_used(self, ids: Sequence[str], at: Instant) -> None:
        for id in ids:
            if (key := self.tables.api_keys.get(id)) is not None:
                self.tables.api_keys[id] = replace(key, last_used_at=max(at, key.last_used_at or at))

    async def add_session(self, session: Session, *, act: Act | None = None) -> None:
        alive = {id: one for id, one in self.tables.sessions.items() if one.expires_at > session.created_at}
        self.tables.sessions = {**alive, session.id: session}
        if act is not None:
            self.tables.record(act)

    async def session(self, digest: bytes) -> Session | None:
        return next((one for one in self.tables.sessions.values() if one.digest == digest), None)

    async def extend_session(self, id: str, until: Instant) -> None:
        if (one := self.tables.sessions.get(id)) is not None:
            self.tables.sessions[id] = replace(one, expires_at=max(one.expires_at, until))

    async def remove_session(self, id: str) -> bool:
        return self.tables.sessions.pop(id, None) is not None
