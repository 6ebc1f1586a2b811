"""Kinds of events in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.event_type import EventType
from hooklane.store.revision import step
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox.running import RunsFlows
from hooklane.store.sql.outbox.steps import Flow, sql


class SqlTypes(RunsFlows):
    """`TypeStore`."""

    async def save_type(self, one: EventType, *, act: Act) -> None:
        await self._write(lambda: _save(one, act))

    async def remove_type(self, tenant: str, type: str, *, act: Act) -> bool:
        return await self._write(lambda: _remove(tenant, type, act))

    async def event_types(self, tenant: str) -> Sequence[EventType]:
        return await self._ask(lambda: _types(sql("event_types", tenant=tenant)))

    async def event_type(self, tenant: str, type: str) -> EventType | None:
        found = await self._ask(lambda: _types(sql("event_type", tenant=tenant, type=type)))
        return found[0] if found else None

    async def type_revision(self) -> int:
        return await self._read(_revision)

    async def enforced_types(self) -> tuple[int, Sequence[EventType]]:
        return await self._read(_enforced)


def _save(one: EventType, act: Act) -> Flow[None]:
    yield sql("next_type_rev", step=step())
    columns = ("tenant", "type", "created_at", "changed_at", "description", "schema", "enforce")
    yield sql("save_type", **{name: getattr(one, name) for name in columns})
    yield from audit.append(act)


def _remove(tenant: str, type: str, act: Act) -> Flow[bool]:
    yield sql("next_type_rev", step=step())
    if not (yield sql("remove_type", tenant=tenant, type=type)):
        return False
    yield from audit.append(act)
    return True


def _revision() -> Flow[int]:
    ((rev,),) = yield sql("type_rev")
    return int(rev)


def _enforced() -> Flow[tuple[int, Sequence[EventType]]]:
    rev = yield from _revision()
    return rev, (yield from _types(sql("enforced_types")))


def _types(statement: Any) -> Flow[list[EventType]]:
    rows = yield statement
    return [
        EventType(
            tenant=tenant,
            type=type,
            created_at=Instant(created_at),
            changed_at=Instant(changed_at),
            description=description,
            schema=None if schema is None else bytes(schema),
            enforce=bool(enforce),
        )
        for tenant, type, created_at, changed_at, description, schema, enforce in rows
    ]
