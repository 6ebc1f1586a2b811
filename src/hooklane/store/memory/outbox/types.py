"""Kinds of events in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hooklane.model.audit import Act
from hooklane.model.event_type import EventType
from hooklane.store.memory.outbox.tables import Tables


class MemoryTypes:
    """`TypeStore` over a dictionary."""

    tables: Tables

    async def save_type(self, one: EventType, *, act: Act) -> None:
        old = self.tables.types.get((one.tenant, one.type), one)
        self.tables.types[one.tenant, one.type] = replace(one, created_at=old.created_at)
        self.tables.type_rev += 1
        self.tables.record(act)

    async def remove_type(self, tenant: str, type: str, *, act: Act) -> bool:
        self.tables.type_rev += 1
        if self.tables.types.pop((tenant, type), None) is None:
            return False
        self.tables.record(act)
        return True

    async def event_types(self, tenant: str) -> Sequence[EventType]:
        return [one for _, one in sorted(self.tables.types.items()) if one.tenant == tenant]

    async def event_type(self, tenant: str, type: str) -> EventType | None:
        return self.tables.types.get((tenant, type))

    async def type_revision(self) -> int:
        return self.tables.type_rev

    async def enforced_types(self) -> tuple[int, Sequence[EventType]]:
        found = [one for _, one in sorted(self.tables.types.items()) if one.enforce and one.schema is not None]
        return self.tables.type_rev, found
