"""What the sender's store keeps about callers: API keys, and the sessions and portal links that were made with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hooklane.model.api_key import ApiKey, Session
from hooklane.model.audit import Act
from hooklane.model.clock import Instant


class AccessStore(Protocol):
    """Keys are read whole by each process that answers calls, and again when their revision has changed."""

    async def add_key(self, key: ApiKey, *, act: Act) -> None:
        """Keep a key; *act* goes on record in the same commit."""

    async def key_revision(self) -> int:
        """Changes with every key that is added or removed; never the same number twice."""

    async def api_keys(self) -> tuple[int, Sequence[ApiKey]]:
        """The revision and all keys, oldest first, on one snapshot. Expired ones are among them."""

    async def remove_key(self, id: str, *, act: Act) -> bool:
        """Forget a key and all sessions that it opened; False when there is none."""

    async def note_keys_used(self, ids: Sequence[str], at: Instant) -> None:
        """These keys were used at *at*; the revision stays."""

    async def add_session(self, session: Session, *, act: Act | None = None) -> None:
        """Keep a session, and forget those that had expired when it was made."""

    async def session(self, digest: bytes) -> Session | None:
        """The session that a cookie or a link names by its digest."""

    async def extend_session(self, id: str, until: Instant) -> None:
        """A session is in use: it lasts until *until*, or longer where it would have. One that is gone stays gone."""

    async def remove_session(self, id: str) -> bool:
        """Forget a session; False when there is none."""
