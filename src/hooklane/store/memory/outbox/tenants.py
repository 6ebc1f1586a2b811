"""The tenants in memory."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.model.tenant import Tenant, TenantState
from hooklane.store.memory.outbox.tables import Tables
from hooklane.store.reads import Page
from hooklane.store.tenants import TenantNews


class MemoryTenants:
    """`TenantStore` over plain dictionaries."""

    tables: Tables

    async def tenant(self, tenant_id: str) -> Tenant | None:
        return self.tables.tenants.get(tenant_id)

    async def tenants(self, cursor: str | None, limit: int) -> Page[Tenant]:
        known = sorted(self.tables.tenants.values(), key=lambda one: one.id.encode())
        after = (cursor or "").encode()
        found = [one for one in known if one.id.encode() > after and one.state is not TenantState.DELETED]
        return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)

    async def tenants_since(self, rev: int) -> TenantNews:
        changed = dict.fromkeys(self.tables.tenant_changes[max(0, rev) :])
        return TenantNews([self.tables.tenants[one] for one in changed], len(self.tables.tenant_changes))

    async def save_tenant(
        self, tenant: Tenant, *, expect: Tenant | None, endpoints: EndpointState | None = None, act: Act | None = None
    ) -> bool:
        tables = self.tables
        if tables.tenants.get(tenant.id) != expect:
            return False
        if expect is not None and expect.state.to(tenant.state) is not tenant.state:
            return False
        self._write(tenant)
        for endpoint in [one for one in tables.endpoints.values() if one.tenant == tenant.id]:
            suspended = tenant.state is TenantState.SUSPENDED
            state = endpoint.state.to(endpoints or endpoint.state)
            held = replace(endpoint, suspended=suspended, state=state)
            if held != endpoint:
                tables.endpoints[endpoint.id] = held
                tables.changes.append(endpoint.id)
        return True

    async def stored_bytes(self, tenant_id: str) -> int:
        return sum(len(event.data) for event in self.tables.events.values() if event.tenant == tenant_id)

    async def greet(self, server: str, until_ms: int) -> int:
        now = self.tables.clock()
        self.tables.servers[server] = Instant(now + until_ms)
        return sum(until > now for until in self.tables.servers.values())

    def finish_deletions(self) -> None:
        """A deleted tenant that has no endpoint left is gone; its id stays taken."""
        used = {endpoint.tenant for endpoint in self.tables.endpoints.values()}
        for tenant in [one for one in self.tables.tenants.values() if not one.is_there and one.id not in used]:
            if tenant.state is not TenantState.DELETED:
                self._write(replace(tenant, state=TenantState.DELETED))

    def _write(self, tenant: Tenant) -> None:
        self.tables.tenants[tenant.id] = tenant
        self.tables.tenant_changes.append(tenant.id)
