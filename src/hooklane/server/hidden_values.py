"""An endpoint's header values and query are shown masked. What if a client sends the mask back, as a form does?

The stored value is kept, and it is never sent to another host than the one that it was given for.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from hooklane.core.api_key import permits
from hooklane.model.api_key import Scope
from hooklane.model.endpoint import Endpoint
from hooklane.server import views
from hooklane.server.call import Call
from hooklane.server.problem import Problem


def with_hidden(headers: tuple[tuple[str, str], ...], old: Endpoint) -> tuple[tuple[str, str], ...]:
    """*headers*, with the stored value in place of each mask: a client that changes one header keeps the others."""
    present = {name.lower(): value for name, value in old.headers}
    return tuple(
        (name, present.get(name.lower(), value) if value == views.HIDDEN else value) for name, value in headers
    )


def with_hidden_query(url: str, old: Endpoint) -> str:
    """*url*, with the stored query in place of a masked one, as long as it goes to the same host."""
    base, _, query = url.partition("?")
    _, mark, kept = old.url.partition("?")
    return f"{base}?{kept}" if query == views.HIDDEN and mark and _host(url) == _host(old.url) else url


def must_stay(call: Call, url: str, old: Endpoint, hidden: list[str]) -> None:
    """Header values that a caller may not see are not sent to another host by it: there it could read them."""
    if _host(url) == _host(old.url) or permits(call.caller.scopes, Scope.ADMIN):
        return
    detail = f"the URL goes to another host: give the values of {', '.join(hidden)[:200]} anew, or leave them out"
    raise Problem("invalid_endpoint", detail, errors=[{"field": "headers", "detail": detail}])


def _host(url: str) -> tuple[str, str] | None:
    """Where *url* leads to: scheme, and host with port."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None  # no URL at all, as the guard will say
    return parts.scheme, parts.netloc.lower()


def hidden_faults(endpoint: Endpoint) -> list[tuple[str, str]]:
    stands_for = f"{views.HIDDEN}, which stands for a hidden value: give"
    faults = [
        ("headers", f"{name[:60]} is {stands_for} the value itself")
        for name, value in endpoint.headers
        if value == views.HIDDEN
    ]
    if endpoint.url.partition("?")[2] == views.HIDDEN:
        faults.append(("url", f"its query is {stands_for} the query itself"))
    return faults
