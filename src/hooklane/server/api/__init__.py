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
    *events.ROUTES,
    *attempts.ROUTES,
    *endpoints.ROUTES,
    *endpoint_check.ROUTES,
    *breakers.ROUTES,
    *lanes.ROUTES,
    *dead_letters.ROUTES,
    *inbox.ROUTES,
    *plans.ROUTES,
    *jobs.ROUTES,
    *audit.ROUTES,
    *overview.ROUTES,
    *series.ROUTES,
    *stream.ROUTES,
    *tenants.ROUTES,
    *keys.ROUTES,
    *session.ROUTES,
    *secrets.ROUTES,
    *types.ROUTES,
    *portal.ROUTES,
    *health.ROUTES,
    *documents.ROUTES,
)
