"""How does each endpoint do? Shares and times of the last hour, what it is owed, and when its certificate ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hooklane.core.figures import merged, quantile_ms
from hooklane.model.clock import Instant
from hooklane.model.lane import LaneState
from hooklane.server.kept import Kept
from hooklane.server.series import Series, since_for
from hooklane.server.totals import Totals
from hooklane.store.open import Outbox

HOUR_S = 3_600
RATE_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFacts:
    """Figures of one endpoint; None where nothing was sent to it."""

    success: float | None = None
    """The share of attempts that were answered 2xx in the last hour."""
    p95_ms: float | None = None
    backlog: int = 0
    blocked: int = 0
    rate: float = 0.0
    """Attempts a second, over the last minute or two."""
    tls_expires_at: Instant | None = None


class FactsOfEndpoints:
    """The figures of all endpoints of a tenant, a few seconds old at most."""

    def __init__(self, store: Outbox, series: Series, totals: Totals, certificates: Mapping[str, Instant]) -> None:
        self._store = store
        self._series = series
        self._totals = totals
        self.certificates: dict[str, Instant] = {}
        """Those that workers have seen."""
        self._ours = certificates
        self._kept = Kept(self._ask, "figures of endpoints")

    async def of(self, tenant: str) -> Mapping[str, EndpointFacts]:
        return (await self._kept.of(tenant)).value

    async def _ask(self, tenant: str) -> Mapping[str, EndpointFacts]:
        ids = [one.id for one in await self._store.endpoints(tenant)]
        now = self._series.now()
        hour = await self._series.read(tenant, ids, 600, since_for(now, HOUR_S, 600))
        since = since_for(now, RATE_S, 60)
        lately = await self._series.read(tenant, ids, 60, since)
        counted = await self._totals.of(tenant)
        found: dict[str, EndpointFacts] = {}
        for id in ids:
            figures = merged(hour[id].values())
            standing = counted.standing.get(id)
            found[id] = EndpointFacts(
                success=figures.success,
                p95_ms=quantile_ms(figures.attempt, 0.95),
                backlog=standing.backlog if standing else 0,
                blocked=standing.lanes.get(LaneState.BLOCKED, 0) if standing else 0,
                rate=round(merged(lately[id].values()).attempts / max(1.0, (now - since) / 1000), 2),
                tls_expires_at=self._ours.get(id) or self.certificates.get(id),
            )
        return found
