"""Which store does a URL mean? Back-ends are imported only when they are asked for."""

from __future__ import annotations

from typing import Protocol

from hooklane.errors import UsageError, needing
from hooklane.model.database_url import shown
from hooklane.store.access import AccessStore
from hooklane.store.colocated_inbox import ColocatedInbox
from hooklane.store.dashboard import DashboardReads
from hooklane.store.outbox import OutboxStore, StoreOptions
from hooklane.store.reads import OutboxReads
from hooklane.store.recovery import RecoveryStore
from hooklane.store.tenants import TenantStore
from hooklane.store.types import TypeStore


class Outbox(
    OutboxStore,
    OutboxReads,
    RecoveryStore,
    TenantStore,
    DashboardReads,
    AccessStore,
    TypeStore,
    ColocatedInbox,
    Protocol,
):
    """Everything that a sender's store can do."""


def outbox_store(url: str, options: StoreOptions) -> Outbox:
    """The sender's store behind *url*, not opened yet."""
    scheme = url.partition("://")[0].lower()  # what else is wrong with it, the driver says
    if scheme == "sqlite":
        from hooklane.store.sqlite.database import path_of
        from hooklane.store.sqlite.outbox import SqliteOutbox

        return SqliteOutbox(path_of(url), options)
    if scheme.startswith("postgres"):
        with needing("postgres"):
            from hooklane.store.postgres.outbox import PostgresOutbox
        return PostgresOutbox(url, options)
    raise UsageError(f"events cannot be kept at {shown(url)!r}: give sqlite:///path/to/file.db or postgresql://…")
