"""The sender's store in one SQLite file: the embedded default."""

from hooklane.store.sqlite.outbox.store import SqliteOutbox

__all__ = ["SqliteOutbox"]
