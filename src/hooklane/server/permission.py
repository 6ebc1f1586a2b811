"""Which scope does a call need, and may this caller make it?"""

from __future__ import annotations

from collections.abc import Mapping

from hooklane.core.api_key import permits
from hooklane.model.api_key import Scope
from hooklane.server.call import Call, Response, Route
from hooklane.server.caller import Caller
from hooklane.server.problem import Problem

_ADMIN = ("/api/v1/keys", "/api/v1/tenants", "/api/v1/secrets")
"""Whatever lies below these paths is for admins, and of the second only what is about its own tenant is for a key
with a tenant."""
_ANY = ("/api/v1/session",)
"""Every caller may ask who it is, and leave."""
_OF_ALL_TENANTS = ("/metrics", "/api/v1/audit/verify", "/api/v1/inbox", "/api/v1/secrets")
"""What these answer is about all tenants together."""

PORTAL = frozenset(
    {
        "GET /api/v1/attempts",
        "GET /api/v1/dead-letters",
        "GET /api/v1/dead-letters/causes",
        "GET /api/v1/dead-letters/{id}",
        "GET /api/v1/endpoints",
        "GET /api/v1/endpoints/last-hour",
        "GET /api/v1/endpoints/{id}",
        "GET /api/v1/events",
        "GET /api/v1/events/{id}",
        "GET /api/v1/events/{id}/attempts",
        "GET /api/v1/events/{id}/story",
        "GET /api/v1/events/{id}/why",
        "GET /api/v1/lanes",
        "GET /api/v1/lanes/{endpoint}/{key}",
        "GET /api/v1/lanes/{endpoint}/{key}/why",
        "GET /api/v1/overview",
        "GET /api/v1/series",
        "GET /api/v1/stream",
        "GET /api/v1/types",
        "GET /api/v1/types/{type}",
        "PATCH /api/v1/endpoints/{id}",
        "POST /api/v1/dead-letters/{id}/replay",
        "POST /api/v1/endpoints",
        "POST /api/v1/endpoints/{id}/pause",
        "POST /api/v1/endpoints/{id}/probe",
        "POST /api/v1/endpoints/{id}/resume",
        "POST /api/v1/endpoints/{id}/rotate",
        "POST /api/v1/endpoints/{id}/test",
    }
)
"""All that a customer may do behind a portal link, besides asking who it is.

No delete: `backlog=cancel` would drop what is owed.
"""


def scope_of(route: Route) -> Scope | None:
    """The scope that a call of *route* needs; None where any caller may make it."""
    if _is_below(route.path, _ANY):
        return None
    if route.scope is not None:
        return route.scope
    if _is_below(route.path, _ADMIN):
        return Scope.ADMIN
    return Scope.READ if route.method == "GET" else Scope.OPERATE


def may_read(caller: Caller, path: str) -> bool:
    """Whether *caller* may `GET` *path*, which has no parameters."""
    try:
        require(caller, Route("GET", path, _never, "", tag=""), {})
    except Problem:
        return False
    return True


async def _never(call: Call) -> Response:
    raise AssertionError(call)


def require(caller: Caller, route: Route, params: Mapping[str, str]) -> None:
    """Refuse a call that *caller* may not make. What it says depends on the route alone, never on what exists."""
    scope = scope_of(route)
    if scope is None:
        return
    if caller.in_portal:
        if f"{route.method} {route.path}" not in PORTAL:
            raise Problem("forbidden", "this is not part of the customer portal")
    elif not permits(caller.scopes, scope):
        has = ", ".join(sorted(caller.scopes)) or "none"
        raise Problem("forbidden", f"this call needs the scope {scope}; the key has: {has}")
    if caller.tenant is not None and not _is_about(caller.tenant, route, params):
        raise Problem("forbidden", "this call is about all tenants; the key is for one of them")


def _is_about(tenant: str, route: Route, params: Mapping[str, str]) -> bool:
    if _is_below(route.path, _OF_ALL_TENANTS):
        return False
    if not _is_below(route.path, ("/api/v1/tenants",)):
        return True
    return tenant in params.values() and (route.method == "GET" or route.path.endswith("/portal"))


def _is_below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)
