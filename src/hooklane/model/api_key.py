"""What may a caller of the API do? Keys, the sessions and links made with them, and the scopes of all of these."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.model.clock import Instant


class Scope(StrEnum):
    """What a key may be used for. `admin` includes the other three."""

    PUBLISH = "publish"
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as a store keeps it: of the key itself only the digest."""

    id: str
    name: str
    digest: bytes = field(repr=False)
    scopes: tuple[Scope, ...]
    tenant: str | None
    """The one tenant whose data it reaches; None for all tenants."""
    created_at: Instant
    expires_at: Instant | None = None
    last_used_at: Instant | None = None
    """To the minute: a use is noted in memory and written now and then."""


class SessionKind(StrEnum):
    """What a session is for."""

    PAGE = "page"  # a person who logged in to the page with a key
    LINK = "link"  # a portal link: it can be exchanged for a session of the portal, and does nothing else
    PORTAL = "portal"  # a customer who opened a portal link


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a cookie or a portal link stands for, until it expires, is ended, or the key it was made with is revoked."""

    id: str
    kind: SessionKind
    digest: bytes = field(repr=False)
    made_with: str
    """The id of the key that opened it."""
    name: str
    scopes: tuple[Scope, ...]
    tenant: str | None
    created_at: Instant
    expires_at: Instant
