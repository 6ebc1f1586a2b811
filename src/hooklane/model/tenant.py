"""Whose data it is: a customer, a team or an environment that shares a server with others and never meets them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hooklane.model.clock import Instant


class TenantState(StrEnum):
    """What may happen for a tenant; nothing of it is lost in the first two, nor in `draining`."""

    ACTIVE = "active"
    SUSPENDED = "suspended"  # nothing is taken over HTTP, nothing is sent; all is kept
    DRAINING = "draining"  # deleted; what is owed is still delivered
    CANCELLING = "cancelling"  # deleted; what is owed is cancelled
    DELETED = "deleted"  # nothing is owed any more; the id is never given again

    def to(self, state: TenantState) -> TenantState:
        """The state of a tenant that was in this one when *state* is asked for: nothing cancelled is sent later."""
        return self if self is TenantState.CANCELLING else state


TAKING = (TenantState.ACTIVE, TenantState.SUSPENDED)
"""The states in which a tenant is there; in the others it is gone, or going."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a tenant may use; None is without a bound."""

    events_per_s: float | None = None
    """Publishes over HTTP, over all servers together."""
    endpoints: int | None = None
    bytes: int | None = None
    """The data of all its events that are kept."""

    @property
    def is_free(self) -> bool:
        return self.events_per_s is None and self.endpoints is None and self.bytes is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant as the store keeps it; it exists only once it was created."""

    id: str
    created_at: Instant
    name: str = ""
    state: TenantState = TenantState.ACTIVE
    quota: Quota = field(default_factory=Quota)

    @property
    def is_there(self) -> bool:
        """Whether it was created and not deleted."""
        return self.state in TAKING
