"""The sender's store on PostgreSQL: any number of workers on any number of hosts share its lanes."""

from hooklane.store.postgres.outbox.store import PostgresOutbox

__all__ = ["PostgresOutbox"]
