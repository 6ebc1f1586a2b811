"""What tenants need of the sender's store: rows, their changes, and what quotas count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hooklane.model.audit import Act
from hooklane.model.endpoint import EndpointState
from hooklane.model.tenant import Tenant
from hooklane.store.reads import Page

UNKNOWN_TENANT = "unknown_tenant"
"""The code with which a publish for a tenant that is not there is refused: a tenant is never made by use."""


@dataclass(frozen=True, slots=True)
class TenantNews:
    """Tenants that were created or changed since a revision, and the revision from which to ask the next time."""

    tenants: Sequence[Tenant]
    rev: int


class TenantStore(Protocol):
    """The tenants of one store. `default` is always among them."""

    async def tenant(self, tenant_id: str) -> Tenant | None:
        """One tenant, also one that is being deleted."""

    async def tenants(self, cursor: str | None, limit: int) -> Page[Tenant]:
        """All that are not wholly deleted, by id."""

    async def tenants_since(self, rev: int) -> TenantNews:
        """What was created or changed after revision *rev* (-1: ever), also what is deleted by now."""

    async def save_tenant(
        self, tenant: Tenant, *, expect: Tenant | None, endpoints: EndpointState | None = None, act: Act | None = None
    ) -> bool:
        """Create (*expect* None) or replace a tenant that is still as *expect* says; False when it is not.

        False also where it was `cancelling` and would not be: that is final. In the same commit all its endpoints are
        held, or not, as its state says, and get the state *endpoints* where one is given, unless they are `cancelling`;
        and *act* goes on record.
        """

    async def stored_bytes(self, tenant_id: str) -> int:
        """The data of all its events that are kept, counted from the rows."""

    async def greet(self, server: str, until_ms: int) -> int:
        """Say that *server* takes publishes for *until_ms* from now on; how many do, itself included."""
