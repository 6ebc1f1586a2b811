"""Kinds of events."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.clock import Instant
from hooklane.model.event_type import EventType
from hooklane.store.recovery import AuditFilter
from hooklane.testing.conformance_access.kit import NOW, Store, act


def kind(type: str = "order.paid", **fields: object) -> EventType:
    told = {"tenant": "default", "created_at": NOW, "changed_at": NOW} | fields
    return EventType(type=type, **told)  # type: ignore[arg-type]


class Types:
    async def test_a_type_is_kept_replaced_and_removed_on_record(self, store: Store) -> None:
        first = kind(description="é", schema=b'{"type":"object"}', enforce=True)
        await store.save_type(first, act=act("type.set", "order.paid"))
        await store.save_type(kind("a", tenant="acme"), act=act("type.set", "a"))
        assert await store.event_type("default", "order.paid") == first

        later = replace(first, schema=None, created_at=Instant(NOW + 5), changed_at=Instant(NOW + 5))
        await store.save_type(later, act=act("type.set", "order.paid"))

        assert list(await store.event_types("default")) == [replace(later, created_at=NOW)]
        assert [one.type for one in await store.event_types("acme")] == ["a"]
        assert await store.remove_type("default", "order.paid", act=act("type.removed", "order.paid"))
        assert not await store.remove_type("default", "a", act=act("type.removed", "a"))
        assert await store.event_type("default", "order.paid") is None
        actions = [one.act.action for one in (await store.audit("default", AuditFilter(), None, 10)).items]
        assert actions == ["type.removed", "type.set", "type.set", "type.set"]

    async def test_publishers_hear_of_what_is_enforced_by_its_revision(self, store: Store) -> None:
        before = await store.type_revision()
        enforced = kind("b", schema=b"{}", enforce=True)
        for one in (kind("a", schema=b"{}"), kind("c", enforce=True), enforced):
            await store.save_type(one, act=act("type.set", one.type))

        rev, found = await store.enforced_types()

        assert (list(found), await store.type_revision()) == ([enforced], rev)
        assert rev != before
        await store.remove_type("default", "b", act=act("type.removed", "b"))
        assert (await store.enforced_types())[1] == []
        assert await store.type_revision() != rev
