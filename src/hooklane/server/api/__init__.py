"""The resources of the API, one file each; `ROUTES` is the whole table."""

from __future__ import annotations

from hooklane.server.api import dead_letters, documents, endpoints, events, health, lanes, overview, stream, trial
from hooklane.server.call import Route

ROUTES: tuple[Route, ...] = (
    *events.ROUTES,
    *endpoints.ROUTES,
    *trial.ROUTES,
    *lanes.ROUTES,
    *dead_letters.ROUTES,
    *overview.ROUTES,
    *stream.ROUTES,
    *health.ROUTES,
    *documents.ROUTES,
)
