"""Who makes a call: the name for the audit log, what it may do, and whose data it reaches."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Container
from dataclasses import dataclass

from hooklane.model.api_key import Scope, Session, SessionKind
from hooklane.model.event import DEFAULT_TENANT
from hooklane.server.problem import Problem


@dataclass(frozen=True, slots=True)
class Caller:
    """Everything that is known of a caller once it has shown its key or its session."""

    name: str
    scopes: frozenset[Scope] = frozenset()
    tenant: str | None = None
    """The one tenant whose data it reaches; None for all tenants."""
    key_id: str | None = None
    """The key with which it came in, or with which its session was opened."""
    session: Session | None = None
    has_pass: bool = False
    """Whether an application that mounts the dashboard vouches for it, as a customer of *tenant*."""

    @property
    def in_portal(self) -> bool:
        """Whether this is a customer, behind a portal link or in an application of the operator."""
        return self.has_pass or (self.session is not None and self.session.kind is SessionKind.PORTAL)


TENANT_HEADER = "hooklane-tenant"
"""By which a key for all tenants names the one that a call acts on."""
_PASS = "portal."

EVERYTHING = frozenset(Scope)
ADMIN = Caller("api", EVERYTHING)
"""`HOOKLANE_API_KEY`, or anyone on this machine where the server asks for no key."""
COMMAND_LINE = Caller("cli", EVERYTHING)
"""A command that opened the database itself."""
NOBODY = Caller("nobody")
"""No key at all, at a call that needs none."""


def customer_of(tenant: str) -> Caller:
    """A customer of *tenant*, who may do what the portal allows."""
    return Caller(f"portal of {tenant}", frozenset((Scope.READ, Scope.OPERATE)), tenant)


def of_session(session: Session) -> Caller:
    return Caller(session.name, frozenset(session.scopes), session.tenant, session.made_with, session)


def tenant_of_call(key_tenant: str | None, header: str | None, known: Container[str]) -> str:
    """On whose data a call acts: the tenant, or the Problem to answer.

    A key of one tenant learns nothing of others: whether or not the header names one that exists, it is unknown.
    """
    wanted = header if header is not None else key_tenant or DEFAULT_TENANT
    if wanted not in known or (key_tenant is not None and wanted != key_tenant):
        raise unknown_tenant()
    return wanted


def unknown_tenant() -> Problem:
    return Problem("unknown_tenant", "there is no tenant with this id")


def portal_pass(api_key: str, tenant: str) -> str:
    """What says that a holder of the server's own key lets a person in as a customer of one tenant.

    A dashboard that is mounted in portal mode makes one for each request. It lives within the process: who could make
    one holds the server's key, and may do everything anyway.
    """
    seal = hmac.new(api_key.encode(), f"{_PASS}{tenant}".encode(), hashlib.sha256).hexdigest()
    return f"{_PASS}{seal}.{tenant}"


def tenant_of_pass(api_key: str, text: str) -> str | None:
    """The tenant that *text* is a pass for; None where it is none."""
    if not text.startswith(_PASS):
        return None
    tenant = text[len(_PASS) :].partition(".")[2]
    expected = portal_pass(api_key, tenant).encode("utf-8", "surrogateescape")
    is_real = hmac.compare_digest(expected, text.encode("utf-8", "surrogateescape"))
    return tenant if is_real else None
