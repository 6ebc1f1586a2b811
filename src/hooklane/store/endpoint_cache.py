"""Which endpoints does a tenant have? Remembered by each tenant's revision, so that a busy publisher decodes them once.

A change of one tenant's endpoints makes no publisher read those of another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hooklane.errors import InvalidEvent
from hooklane.model.endpoint import Endpoint
from hooklane.store.outbox import Draft
from hooklane.store.tenants import UNKNOWN_TENANT

TENANTS_MAX = 10_000
"""The endpoints of so many tenants are remembered; beyond that all are forgotten, and read again when asked for."""


class EndpointCache:
    """The endpoints of tenants, each as of a revision. Threads may share it: what is kept is replaced as a whole."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, Sequence[Endpoint]]] = {}

    def of(self, tenant: str, rev: int) -> Sequence[Endpoint] | None:
        """The endpoints of *tenant* as of *rev*, if those are known."""
        known = self.known.get(tenant)
        return known[1] if known is not None and known[0] == rev else None

    def last(self, tenant: str) -> Sequence[Endpoint]:
        """The endpoints of *tenant* as last read, whether or not they are still the same."""
        known = self.known.get(tenant)
        return () if known is None else known[1]

    def keep(self, tenant: str, rev: int, endpoints: Sequence[Endpoint]) -> Sequence[Endpoint]:
        if len(self.known) >= TENANTS_MAX:
            self.known.clear()
        self.known[tenant] = rev, endpoints
        return endpoints

    def forget(self) -> None:
        """A transaction was rolled back, and perhaps an endpoint with it whose revision another will get."""
        self.known.clear()


def of_tenant(endpoints: Mapping[str, Sequence[Endpoint]], draft: Draft) -> Sequence[Endpoint]:
    """The endpoints of the draft's tenant; InvalidEvent where that is not there."""
    try:
        return endpoints[draft.event.tenant]
    except KeyError:
        raise unknown_tenant(draft.event.tenant) from None


def unknown_tenant(tenant: str) -> InvalidEvent:
    return InvalidEvent(
        UNKNOWN_TENANT,
        f"there is no tenant {tenant[:80]!r}: create it first (`hooklane tenants add`, POST /api/v1/tenants)",
    )
