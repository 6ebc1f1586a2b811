"""The shapes of answers about callers: keys, sessions, portal links."""

from __future__ import annotations

from typing import Any, Literal

from hooklane.model.api_key import Scope
from hooklane.server.shapes import Shape, Time


class ApiKeyShape(Shape, kw_only=True):
    """An API key; the key itself is shown once, when it is made."""

    id: str
    name: str
    scopes: list[Scope]
    tenant: str | None
    created_at: Time
    expires_at: Time | None
    last_used_at: Time | None


class NewApiKeyShape(ApiKeyShape, kw_only=True):
    key: str


class Look(Shape, kw_only=True):
    """How the page is to look: the operator's settings."""

    accent: str | None
    logo: str | None


class SessionShape(Shape, kw_only=True):
    """Who the caller is."""

    name: str
    role: Literal["viewer", "operator", "admin", "publisher", "portal"]
    scopes: list[Scope]
    tenant: str | None
    expires_at: Time | None
    asks_key: bool
    look: Look


class PortalLink(Shape, kw_only=True):
    url: str
    expires_at: Time


class Seals(Shape, kw_only=True):
    """Endpoints by the key that seals their secrets; `plain` are not sealed."""

    key: str | None
    endpoints: dict[str, int]
    plain: int


class Resealed(Shape, kw_only=True):
    key: str
    sealed: int
    left: int


class EventTypeShape(Shape, kw_only=True):
    """A type of events; `schema` is JSON Schema 2020-12."""

    type: str
    description: str
    schema: dict[str, Any] | bool | None
    enforce: bool
    created_at: Time
    changed_at: Time
