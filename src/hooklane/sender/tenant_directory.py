"""The tenants as one process knows them: asked for by every call, read from the store only when something changed."""

from __future__ import annotations

import asyncio
import contextlib

from hooklane.errors import StoreError
from hooklane.model.tenant import Tenant, TenantState
from hooklane.store.tenants import TenantStore

LOOK_MS = 1_000


class TenantDirectory:
    """Tenants by id, as of the last look; a change of another process is seen at the next one."""

    def __init__(self, store: TenantStore) -> None:
        self._store = store
        self._rev = -1
        self._known: dict[str, Tenant] = {}
        self.changes = 0
        """Grows when a tenant was seen to have changed."""
        self._stopping = asyncio.Event()

    def __contains__(self, tenant_id: object) -> bool:
        return tenant_id in self._known

    def __len__(self) -> int:
        return len(self._known)

    def get(self, tenant_id: str) -> Tenant | None:
        return self._known.get(tenant_id)

    def values(self) -> list[Tenant]:
        return list(self._known.values())

    async def look(self) -> None:
        """Read what has changed."""
        news = await self._store.tenants_since(self._rev)
        if news.rev < self._rev:  # an older database was put in its place
            self._known, news = {}, await self._store.tenants_since(-1)
        for tenant in news.tenants:
            if tenant.state is TenantState.DELETED:
                self._known.pop(tenant.id, None)
            else:
                self._known[tenant.id] = tenant
        self.changes += bool(news.tenants)
        self._rev = news.rev

    async def look_for(self, tenant_id: str) -> None:
        """Look again where *tenant_id* is not known: it may have been created elsewhere a moment ago."""
        if tenant_id not in self._known:
            await self.look()

    async def run(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(StoreError):  # what is known holds until the store answers again
                await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_MS / 1000):
                    await self._stopping.wait()

    def stop(self) -> None:
        self._stopping.set()
