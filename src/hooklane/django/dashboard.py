"""The dashboard in Django: `path("hooklane/", include(dashboard("postgresql://…")))`, for the staff by default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import re_path
from django.views.decorators.csrf import csrf_exempt

from hooklane.errors import needing


def is_staff(request: HttpRequest) -> bool:
    """Who may come in: an active member of the staff, as in the admin."""
    user = getattr(request, "user", None)
    return bool(user is not None and user.is_active and user.is_staff)


def dashboard(
    where: str,
    *,
    may: Callable[[HttpRequest], Any] = is_staff,
    login_url: str | None = None,
    deliver: bool = False,
    playground: bool = False,
    behind_proxy: bool = False,
    egress_allow: Sequence[str] = (),
    tenant: str | Callable[[HttpRequest], str | None] | None = None,
) -> tuple[list[Any], str]:
    """Patterns for `include`. *where* is the URL of hooklane's database, which need not be one of `DATABASES`.

    The page asks for news every two seconds: a Django view, under WSGI and ASGI alike, has no room for a live stream.
    """
    with needing("server"):
        from hooklane.dashboard import made
        from hooklane.dashboard_wsgi import BODY_BYTES_MAX, WsgiDashboard, raw_below
    from hooklane.django.views import BrokenOff, raw_body, response_of  # which needs the settings of the project

    inner = WsgiDashboard(
        made(
            where,
            may,
            login_url=login_url,
            deliver=deliver,
            playground=playground,
            behind_proxy=behind_proxy,
            egress_allow=egress_allow,
            tenant=tenant,
        )
    )

    # Calls of other sites are refused by the dashboard itself, from what the browser says of their origin.
    @csrf_exempt
    def show(request: HttpRequest, rest: str) -> HttpResponse:
        headers = list(request.headers.items())
        method = request.method or ""
        is_in, customer = inner.lets_in(request)
        if not is_in:
            return response_of(inner.turn_away(method, headers))
        try:
            body = raw_body(request, BODY_BYTES_MAX)
        except BrokenOff:
            return HttpResponse(status=400)
        if body is None:
            return HttpResponse(status=413)
        path = f"/{rest}"
        depth = request.path.rstrip("/").count("/") - path.rstrip("/").count("/")
        raw = raw_below(_raw_target(request), path, depth)
        query = request.META.get("QUERY_STRING", "")
        return response_of(inner.answer(method, path, raw, query, headers, body, customer))

    return [re_path(r"^(?P<rest>.*)$", show, name="show")], "hooklane_dashboard"


def _raw_target(request: HttpRequest) -> str | None:
    scope = getattr(request, "scope", None)
    if scope is not None:
        raw: bytes = scope.get("raw_path") or b""
        return raw.decode("latin-1") or None
    target: str | None = request.META.get("REQUEST_URI") or request.META.get("RAW_URI")
    return target
