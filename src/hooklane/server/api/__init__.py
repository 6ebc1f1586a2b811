"""The resources of the API, one file each; `ROUTES` is the whole table."""

from __future__ import annotations

from hooklane.server.api import (
    audit,
    dead_letters,
    documents,
    endpoint_check,
    endpoints,
    events,
    health,
    inbox,
    jobs,
    lanes,
    overview,
    plans,
    stream,
    tenants,
)
from hooklane.server.call import Route

ROUTES: tuple[Route, ...] = (
    *events.ROUTES,
    *endpoints.ROUTES,
    *endpoint_check.ROUTES,
    *lanes.ROUTES,
    *dead_letters.ROUTES,
    *inbox.ROUTES,
    *plans.ROUTES,
    *jobs.ROUTES,
    *audit.ROUTES,
    *overview.ROUTES,
    *stream.ROUTES,
    *tenants.ROUTES,
    *health.ROUTES,
    *documents.ROUTES,
)
