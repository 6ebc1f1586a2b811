"""The resources of the API, one file each; `ROUTES` is the whole table."""

from __future__ import annotations

from hooklane.server.api import (
    attempts,
    audit,
    breakers,
    dead_letters,
    documents,
    endpoint_check,
    endpoints,
    events,
    health,
    inbox,
    jobs,
    keys,
    lanes,
    overview,
    plans,
    portal,
    secrets,
    series,
    session,
    stream,
    tenants,
    types,
)
from hooklane.server.call import Route

ROUTES: tuple[Route, ...] = (
    *events.routes,
    *attempts.routes,
    *endpoints.routes,
    *endpoint_check.routes,
    *breakers.routes,
    *lanes.routes,
    *dead_letters.routes,
    *inbox.routes,
    *plans.routes,
    *jobs.routes,
    *audit.routes,
    *overview.routes,
    *series.routes,
    *stream.routes,
    *tenants.routes,
    *keys.routes,
    *session.routes,
    *secrets.routes,
    *types.routes,
    *portal.routes,
    *health.routes,
    *documents.routes,
)
