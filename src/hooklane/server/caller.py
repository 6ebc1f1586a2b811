"""Who makes a call: the name for the audit log, what it may do, and whose data it reaches."""

from __future__ import annotations

from dataclasses import dataclass

from hooklane.model.api_key import Scope, Session, SessionKind


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
