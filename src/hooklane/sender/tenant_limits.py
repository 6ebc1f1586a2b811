"""What may a tenant still publish over HTTP? Its quotas, judged in memory: no row is written for any event.

A rate is kept by a token bucket in each process, for the process's share: all servers together keep the quota. Stored
bytes are counted from the rows now and then, and between two counts by what this process let through.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex

from hooklane.core.admission.rate import Bucket
from hooklane.core.tenant import RATE_MIN
from hooklane.model.clock import Instant
from hooklane.model.size import size_text
from hooklane.model.tenant import Tenant, TenantState
from hooklane.sender.tenant_directory import TenantDirectory
from hooklane.store.outbox import Draft, Refused
from hooklane.store.tenants import TenantStore

QUOTA_EXCEEDED = "quota_exceeded"
GREET_MS = 5_000
GREETING_MS = 15_000
COUNT_S_MIN = 10.0
COUNT_SHARE = 20
"""Bytes are counted for at most a twentieth of the time, however many there are."""
BYTES_RETRY_S = 60
BURST_S = 1.0


@dataclass(slots=True)
class _Limit:
    """One tenant that is bound by something."""

    tenant: Tenant
    bucket: Bucket | None = None
    stored: int = 0
    """Bytes as of the last count, and what was let through since."""
    since: int = 0
    count_at: float = 0.0


class TenantLimits:
    """The tenants that are suspended, or going, or have a quota; the others have no limit."""

    def __init__(self, store: TenantStore, directory: TenantDirectory) -> None:
        self._store = store
        self._directory = directory
        self.reached: Callable[[Tenant, str], None] | None = None
        """Told of each refusal for want of a quota: the tenant and the quota's name."""
        self._server = token_hex(8)
        self._servers = 1
        self._greet_at = 0.0
        self._changes = -1
        self._limits: dict[str, _Limit] = {}

    def __bool__(self) -> bool:
        """Whether any tenant is bound by anything."""
        return bool(self._limits) or self._changes != self._directory.changes

    async def look(self) -> None:
        """Count anew what must be counted."""
        self._follow()
        now = time.monotonic()
        if now >= self._greet_at and any(limit.bucket is not None for limit in self._limits.values()):
            servers = await self._store.greet(self._server, GREETING_MS)
            self._greet_at = now + GREET_MS / 1000
            if servers != self._servers:
                self._servers = servers
                for limit in self._limits.values():
                    limit.bucket = self._bucket(limit.tenant)
        for limit in list(self._limits.values()):
            if limit.tenant.quota.bytes is not None and now >= limit.count_at:
                await self._count(limit)

    async def _count(self, limit: _Limit) -> None:
        before, began = limit.since, time.monotonic()
        limit.stored = await self._store.stored_bytes(limit.tenant.id)
        limit.since -= before  # what came meanwhile may count twice, never not at all
        took = time.monotonic() - began
        limit.count_at = time.monotonic() + max(COUNT_S_MIN, COUNT_SHARE * took)

    def _follow(self) -> None:
        """The tenants have changed: those that are bound by something are known anew, their counts go on."""
        if self._changes == self._directory.changes:
            return
        self._changes = self._directory.changes
        before, self._limits = self._limits, {}
        for tenant in self._directory.values():
            if tenant.state is TenantState.ACTIVE and tenant.quota.is_free:
                continue
            limit = before.get(tenant.id)
            if limit is None:
                limit = _Limit(tenant, self._bucket(tenant))
            elif limit.tenant != tenant:
                rate_is_old = limit.tenant.quota.events_per_s == tenant.quota.events_per_s
                limit.tenant, limit.bucket = tenant, limit.bucket if rate_is_old else self._bucket(tenant)
            self._limits[tenant.id] = limit

    def _bucket(self, tenant: Tenant) -> Bucket | None:
        rate = tenant.quota.events_per_s
        if rate is None:
            return None
        mine = max(rate, RATE_MIN) / self._servers  # a row may be older than the bound
        return Bucket(mine, max(1.0, mine * BURST_S))

    def used_up(self, tenant_id: str, many: int = 1) -> Refused | None:
        """Why *many* events of a tenant may not come in now, whatever they are; None where that depends on them."""
        self._follow()
        limit = self._limits.get(tenant_id)
        if limit is None:
            return None
        tenant = limit.tenant
        if tenant.state is TenantState.SUSPENDED:
            return Refused("tenant_suspended", "this tenant is suspended: nothing is taken for it, and nothing is sent")
        if not tenant.is_there:
            return Refused("wrong_state", "this tenant is being deleted: nothing is taken for it any more")
        after_s = None if limit.bucket is None else limit.bucket.wait(_now(), many)
        if after_s is None:
            return None
        detail = f"the quota is {tenant.quota.events_per_s:g} a second: send more slowly"
        return self._refused(tenant, "events_per_s", detail, after_s)

    def refusal(self, *drafts: Draft) -> Refused | None:
        """Why *drafts*, of one tenant, may not come in together; None when they may, and only then they count."""
        tenant_id = drafts[0].event.tenant
        if (refused := self.used_up(tenant_id, len(drafts))) is not None:
            return refused
        limit = self._limits.get(tenant_id)
        if limit is None:
            return None
        tenant, quota = limit.tenant, limit.tenant.quota
        size = sum(len(draft.event.data) for draft in drafts)
        if quota.bytes is not None and limit.stored + limit.since + size > quota.bytes:
            detail = f"the events that are kept would be larger than {size_text(quota.bytes)}, which is the quota"
            return self._refused(tenant, "bytes", detail, BYTES_RETRY_S)
        if limit.bucket is not None:
            limit.bucket.take(_now(), len(drafts))  # there is room, as was seen above
        limit.since += size
        return None

    def _refused(self, tenant: Tenant, quota: str, detail: str, after_s: int) -> Refused:
        if self.reached is not None:
            self.reached(tenant, quota)
        return Refused(QUOTA_EXCEEDED, detail, after_s)


def _now() -> Instant:
    return Instant(int(time.monotonic() * 1000))
