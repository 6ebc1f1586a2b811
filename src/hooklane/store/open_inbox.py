"""Which store is meant? A URL or a user's engine becomes an inbox store; back-ends are imported lazily."""

from __future__ import annotations

from typing import Any

from hooklane.errors import ConfigError
from hooklane.store.inbox import InboxStore


def open_inbox(where: Any) -> InboxStore:
    """The inbox store at *where*."""
    if isinstance(where, str):
        return _by_url(where)
    if hasattr(where, "capabilities") and hasattr(where, "begin"):
        store: InboxStore = where
        return store
    raise ConfigError([f"an inbox cannot be kept in a {type(where).__module__}.{type(where).__qualname__}"])


def _by_url(url: str) -> InboxStore:
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from hooklane.store.sqlite.database import path_of
        from hooklane.store.sqlite.inbox.store import SqliteInbox

        return SqliteInbox(path_of(url))
    if scheme == "memory":
        from hooklane.store.memory.inbox import MemoryInbox

        return MemoryInbox()
    if scheme.partition("+")[0] in ("postgresql", "postgres"):
        from hooklane.store.postgres.inbox.store import by_url

        return by_url(url)
    raise ConfigError([f"an inbox is kept at sqlite:///…, postgresql://… or memory://, got {scheme}:"])
