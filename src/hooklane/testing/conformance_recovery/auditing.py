"""Who did what: on record in the commit of the act, and sealed."""

from __future__ import annotations

from hooklane.core.lost import mend
from hooklane.model.attempt import Dead
from hooklane.model.clock import Instant
from hooklane.model.lane import DeliveryState
from hooklane.model.lost import KnownPlace
from hooklane.store.recovery import AuditFilter, Cutoffs, Wanted
from hooklane.testing.conformance_outbox.kit import (
    T0,
    OutboxKit,
    Owner,
    endpoint,
)
from hooklane.testing.conformance_recovery.kit import (
    LATER,
    NOW,
    Store,
    act,
    all_members,
    broken_line,
    lane_with,
    pruned,
)


class Auditing(OutboxKit):
    async def test_an_act_is_on_record_with_who_when_what_and_why(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 2)
        letter = await owner.kill(lane_id)
        await store.set_note("default", letter.id, "look", act=act("dead_letter.noted", "look", subject=letter.id))
        await store.replay("default", letter.id, actor="ann", now=NOW)
        await owner.kill(lane_id)
        await store.skip("default", letter.id, note="given up", actor="bob", now=NOW)
        await store.record(act())

        lines = (await store.audit("default", AuditFilter(), None, 10)).items

        assert [(one.act.actor, one.act.action, one.act.subject, one.act.note) for one in lines] == [
            ("me", "secret.shown", "ep_a", ""),
            ("bob", "dead_letter.skipped", letter.id, "given up"),
            ("ann", "dead_letter.replayed", letter.id, ""),
            ("me", "dead_letter.noted", letter.id, "look"),
        ]
        assert {NOW} == {one.act.at for one in lines}
        assert await broken_line(store) is None
        assert (await store.audit("other", AuditFilter(), None, 10)).items == []

    async def test_what_is_lost_is_on_record_once(self, store: Store) -> None:
        await lane_with(store, 2)
        places = [KnownPlace("default", "ep_a", None, 7, 1, "gone")]

        for _ in range(2):
            await store.account_for(places, mend, NOW)

        (line,) = (await store.audit("default", AuditFilter(), None, 10)).items
        assert (line.act.actor, line.act.action, line.act.subject) == ("failover", "lane.jumped", "ep_a")
        assert "gone" in line.act.note

    async def test_an_act_that_was_not_done_is_not_on_record(self, store: Store) -> None:
        await store.save_endpoint(endpoint(), expect=None, act=act("endpoint.created"))

        assert not await store.save_endpoint(endpoint(name="x"), expect=None, act=act("endpoint.created"))
        assert not await store.set_note("default", "dlv_none", "x", act=act("dead_letter.noted"))
        assert await store.replay("default", "dlv_none", actor="me", now=NOW) is None

        lines = (await store.audit("default", AuditFilter(), None, 10)).items
        assert [one.act.action for one in lines] == ["endpoint.created"]

    async def test_a_letter_of_one_tenant_is_nothing_to_another(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 1)
        letter = await owner.kill(lane_id)

        assert await store.dead_letter("acme", letter.id) is None
        assert not await store.set_note("acme", letter.id, "x", act=act("dead_letter.noted", tenant="acme"))
        assert await store.replay("acme", letter.id, actor="them", now=NOW) is None
        assert await store.skip("acme", letter.id, note="x", actor="them", now=NOW) is None

        assert letter == await store.dead_letter("default", letter.id)
        assert (await store.audit("acme", AuditFilter(), None, 10)).items == []

    async def test_a_skip_by_policy_is_on_record_like_one_by_a_person(self, store: Store, owner: Owner) -> None:
        lane_id = await lane_with(store, 2)
        settlement = await owner.settle(lane_id, Dead("422", skip=True))
        await owner.commit(settlement)  # its reply was lost

        (line,) = (await store.audit("default", AuditFilter(), None, 10)).items

        assert (line.act.actor, line.act.action, line.act.note) == (
            "policy",
            "dead_letter.skipped",
            "policy on_dead=skip: 422",
        )
        (member,) = await all_members(store, Wanted(state=DeliveryState.SKIPPED))
        assert (member.event_id, member.dead_letter_id) == ("e1", line.act.subject)

    async def test_the_audit_log_is_listed_newest_first_in_pages(self, store: Store) -> None:
        for n in range(5):
            await store.record(act(note=str(n)))

        first = await store.audit("default", AuditFilter(), None, 3)
        second = await store.audit("default", AuditFilter(), first.next, 3)

        assert [one.act.note for one in first.items] == ["4", "3", "2"]
        assert ([one.act.note for one in second.items], second.next) == (["1", "0"], None)

    async def test_old_audit_lines_go_and_the_chain_stays_whole(self, store: Store) -> None:
        for n in range(5):
            await store.record(act(note=str(n), at=Instant(T0 + n)))

        removed = await pruned(store, Cutoffs(audit=Instant(T0 + 3)))

        assert removed["audit"] == 3
        assert [one.act.note for one in (await store.audit("default", AuditFilter(), None, 10)).items] == ["4", "3"]
        assert await broken_line(store) is None
        await pruned(store, Cutoffs(audit=LATER))
        await store.record(act())
        assert await broken_line(store) is None
