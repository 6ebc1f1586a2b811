"""What the sender's store keeps about kinds of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hooklane.model.audit import Act
from hooklane.model.event_type import EventType


class TypeStore(Protocol):
    """A process that takes publishes reads those that are enforced, and again when the revision has changed."""

    async def save_type(self, one: EventType, *, act: Act) -> None:
        """Create or replace; *act* goes on record in the same commit."""

    async def remove_type(self, tenant: str, type: str, *, act: Act) -> bool:
        """False when there is none."""

    async def event_types(self, tenant: str) -> Sequence[EventType]:
        """Those of a tenant, by name."""

    async def event_type(self, tenant: str, type: str) -> EventType | None: ...

    async def type_revision(self) -> int:
        """Changes with every type that is saved or removed; never the same number twice."""

    async def enforced_types(self) -> tuple[int, Sequence[EventType]]:
        """The revision, and what is enforced, of all tenants, on one snapshot."""
