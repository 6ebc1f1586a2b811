"""The sender's store in one SQLite file: the embedded default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hooklane.store.sqlite.outbox.store import SqliteOutbox

__all__ = ["SqliteOutbox"]


def __getattr__(name: str) -> Any:
    """Load the store on first use: its writer process needs only some modules of this folder, and starts sooner."""
    if name == "SqliteOutbox":
        from hooklane.store.sqlite.outbox.store import SqliteOutbox

        return SqliteOutbox
    raise AttributeError(f"module 'hooklane.store.sqlite.outbox' has no attribute {name!r}")
