"""Kinds of events in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooklane.model.audit import Act
from hooklane.model.clock import Instant
from hooklane.model.event_type import EventType
from hooklane.store.revision import step
from hooklane.store.sql.outbox import audit
from hooklane.store.sql.outbox.running import RunsFlows, asking, reading, writing
from hooklane.store.sql.outbox.steps import Flow, sql


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


def _event_types(tenant: str) -> Flow[Sequence[EventType]]:
    return (yield from _types(sql("event_types", tenant=tenant)))


def _event_type(tenant: str, type: str) -> Flow[EventType | None]:
    found = yield from _types(sql("event_type", tenant=tenant, type=type))
    return found[0] if found else None


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


class SqlTypes(RunsFlows):
    """`TypeStore`."""

    save_type = writing(_save)
    remove_type = writing(_remove)
    event_types = asking(_event_types)
    event_type = asking(_event_type)
    type_revision = reading(_revision)
    enforced_types = reading(_enforced)
