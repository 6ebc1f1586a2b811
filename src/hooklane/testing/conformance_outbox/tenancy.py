"""Tenants of an outbox store: created, never made by use, held while suspended, deleted with all that they own."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.attempt import DELIVERED, Cancel
from hooklane.model.endpoint import EndpointState
from hooklane.model.lane import LaneState
from hooklane.model.tenant import Quota, Tenant, TenantState
from hooklane.store.outbox import Published, Refused
from hooklane.testing.conformance_outbox.kit import (
    T0,
    Outbox,
    OutboxKit,
    Owner,
    add_tenants,
    draft,
    endpoint,
    event,
    published,
)

ACME = Tenant(id="acme", created_at=T0)


class Tenancy(OutboxKit):
    async def test_the_tenant_default_is_there_from_the_start(self, store: Outbox) -> None:
        default = await store.tenant("default")

        assert default is not None
        assert default.state is TenantState.ACTIVE
        assert [default] == list((await store.tenants(None, 10)).items)
        assert await store.tenant("acme") is None

    async def test_a_tenant_is_changed_only_as_long_as_it_is_as_expected(self, store: Outbox) -> None:
        assert await store.save_tenant(ACME, expect=None)
        assert not await store.save_tenant(ACME, expect=None), "it is there already"
        named = replace(ACME, name="Acme", quota=Quota(events_per_s=2.5, endpoints=3, bytes=10**12))
        assert await store.save_tenant(named, expect=ACME)
        assert not await store.save_tenant(ACME, expect=ACME), "it is another by now"
        assert await store.tenant("acme") == named

    async def test_a_name_that_two_tenants_use_stands_for_each_ones_own_event(self, store: Outbox) -> None:
        await add_tenants(store, "a", "b")
        drafts = [draft(event(f"of-{tenant}", tenant=tenant), "order-7") for tenant in ("a", "b")]
        for one in drafts:
            await store.publish([one])

        again = [(await store.publish([one])).results[0] for one in drafts]

        assert [(one.event_id, one.repeated) for one in again if isinstance(one, Published)] == [
            ("of-a", True),
            ("of-b", True),
        ]

    async def test_tenants_are_listed_by_id_in_pages(self, store: Outbox) -> None:
        await add_tenants(store, "b", "a-1", "a", "B", "a.1")

        first = await store.tenants(None, 4)
        rest = await store.tenants(first.next, 4)

        assert [one.id for one in (*first.items, *rest.items)] == ["B", "a", "a-1", "a.1", "b", "default"]
        assert rest.next is None

    async def test_what_changed_since_a_revision_is_told_once(self, store: Outbox) -> None:
        start = await store.tenants_since(-1)
        assert [one.id for one in start.tenants] == ["default"]
        await store.save_tenant(ACME, expect=None)
        suspended = replace(ACME, state=TenantState.SUSPENDED)
        await store.save_tenant(suspended, expect=ACME)

        news = await store.tenants_since(start.rev)

        assert list(news.tenants) == [suspended]
        assert list((await store.tenants_since(news.rev)).tenants) == []

    async def test_a_tenant_that_was_not_created_gets_nothing_in_and_stops_no_other(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        drafts = [draft(event("e1", tenant="nobody"), "n"), draft(event("e2")), draft(event("e3", tenant="nobody"))]

        for _ in range(2):
            report = await store.publish(drafts)
            assert [type(one) for one in report.results] == [Refused, Published, Refused]
            assert isinstance(first := report.results[0], Refused)
            assert first.code == "unknown_tenant"
            drafts = [drafts[0], draft(event("e4")), drafts[2]]
        assert await store.tenant("nobody") is None
        assert await store.event("nobody", "e1") is None
        assert not await store.save_endpoint(endpoint("ep_n", tenant="nobody"), expect=None)
        assert list(await store.endpoints("nobody")) == []

    async def test_a_batch_for_an_unknown_tenant_is_refused_whole(self, store: Outbox) -> None:
        report = await store.publish_all([draft(event("e1")), draft(event("e2", tenant="nobody"))])

        assert [isinstance(one, Refused) for one in report.results] == [True, True]
        assert await store.event("default", "e1") is None

    async def test_ids_of_events_are_each_tenants_own(self, store: Outbox) -> None:
        await add_tenants(store, "one", "two")
        for tenant in ("one", "two"):
            await store.save_endpoint(endpoint(f"ep_{tenant}", tenant=tenant), expect=None)

        report = await store.publish([draft(event("e1", tenant=tenant), "id:e1") for tenant in ("one", "two")])

        stamps = [[stamp.endpoint_id for stamp in one.stamps] for one in report.results if isinstance(one, Published)]
        assert stamps == [["ep_one"], ["ep_two"]]

    async def test_an_endpoint_that_was_just_saved_gets_the_next_event_of_its_tenant(self, store: Outbox) -> None:
        await add_tenants(store, "one", "two")
        await published(store, event("e0", tenant="one"), event("e0", tenant="two"))
        await store.save_endpoint(endpoint("ep_1", tenant="one"), expect=None)
        first = await published(store, event("e1", tenant="one"), event("e1", tenant="two"))
        await store.save_endpoint(endpoint("ep_2", tenant="two"), expect=None)
        second = await published(store, event("e2", tenant="one"), event("e2", tenant="two"))

        assert [one.endpoint_id for one in first.grown] == ["ep_1"]
        assert sorted(one.endpoint_id for one in second.grown) == ["ep_1", "ep_2"]

    async def test_the_endpoints_of_a_suspended_tenant_are_held_and_go_on_as_they_were(self, store: Outbox) -> None:
        await add_tenants(store, "acme")
        mine, paused = endpoint("ep_1", tenant="acme"), endpoint("ep_2", tenant="acme", state=EndpointState.PAUSED)
        other = endpoint("ep_3")
        for one in (mine, paused, other):
            await store.save_endpoint(one, expect=None)
        owner = await Owner.of(store)
        load = await owner.load()
        suspended = replace(ACME, state=TenantState.SUSPENDED)

        assert await store.save_tenant(suspended, expect=ACME)
        await store.save_endpoint(endpoint("ep_4", tenant="acme"), expect=None)
        news = await store.poll(owner.worker, list(owner.epochs), load.mark)
        held = {one.id: one.suspended for one in await store.endpoints()}
        await published(store, event("e1", tenant="acme"))
        lane = await store.lane("acme", "ep_1", "k")

        assert held == {"ep_1": True, "ep_2": True, "ep_3": False, "ep_4": True}
        assert {one.id for one in news.endpoints if one.suspended} == {"ep_1", "ep_2", "ep_4"}
        assert lane is not None
        assert lane.state is LaneState.PAUSED
        assert (await store.lane_counts("acme"))[LaneState.PAUSED] == 3

        assert await store.save_tenant(ACME, expect=suspended)
        assert await store.endpoint("acme", "ep_1") == mine
        assert await store.endpoint("acme", "ep_2") == paused

    async def test_a_deleted_tenant_takes_nothing_and_is_gone_once_nothing_is_owed(self, store: Outbox) -> None:
        await add_tenants(store, "acme")
        await store.save_endpoint(endpoint("ep_1", tenant="acme"), expect=None)
        grown = (await published(store, event("e1", tenant="acme"))).grown
        owner = await Owner.of(store)
        deleted = replace(ACME, state=TenantState.DRAINING)

        assert await store.save_tenant(deleted, expect=ACME, endpoints=EndpointState.DRAINING)
        (refused,) = (await store.publish([draft(event("e2", tenant="acme"))])).results
        await store.tidy()

        assert isinstance(refused, Refused)
        assert refused.code == "unknown_tenant"
        assert [one.state for one in await store.endpoints("acme")] == [EndpointState.DRAINING]
        assert not await store.save_endpoint(endpoint("ep_2", tenant="acme"), expect=None)
        assert await store.tenant("acme") == deleted, "something is still owed"
        await owner.settle(grown[0].lane_id, DELIVERED)
        assert (await store.ledger("acme"))["delivered"] == 1

    async def test_an_endpoint_whose_backlog_was_cancelled_is_not_drained_with_its_tenant(self, store: Outbox) -> None:
        await add_tenants(store, "acme")
        await store.save_endpoint(endpoint("ep_1", tenant="acme"), expect=None)
        await store.save_endpoint(endpoint("ep_2", tenant="acme"), expect=None)
        await published(store, event("e1", tenant="acme"))
        one = await store.endpoint("acme", "ep_1")
        assert one is not None
        await store.save_endpoint(replace(one, state=EndpointState.CANCELLING), expect=one)

        deleted = replace(ACME, state=TenantState.DRAINING)
        assert await store.save_tenant(deleted, expect=ACME, endpoints=EndpointState.DRAINING)

        states = {one.id: one.state for one in await store.endpoints("acme")}
        assert states == {"ep_1": EndpointState.CANCELLING, "ep_2": EndpointState.DRAINING}

    async def test_what_was_cancelled_with_an_endpoint_or_a_tenant_stays_cancelled(self, store: Outbox) -> None:
        await add_tenants(store, "acme")
        await store.save_endpoint(endpoint("ep_1", tenant="acme"), expect=None)
        await published(store, event("e1", tenant="acme"))
        cancelling = replace(ACME, state=TenantState.CANCELLING)
        await store.save_tenant(cancelling, expect=ACME, endpoints=EndpointState.CANCELLING)
        one = await store.endpoint("acme", "ep_1")
        assert one is not None

        for state in (EndpointState.ACTIVE, EndpointState.DRAINING):
            assert not await store.save_endpoint(replace(one, state=state), expect=one)
        draining = replace(ACME, state=TenantState.DRAINING)
        assert not await store.save_tenant(draining, expect=cancelling, endpoints=EndpointState.DRAINING)

        assert await store.endpoint("acme", "ep_1") == one
        assert await store.tenant("acme") == cancelling

    async def test_a_tenant_without_endpoints_is_gone_at_once_and_its_id_is_never_given_again(
        self, store: Outbox
    ) -> None:
        await add_tenants(store, "acme")
        await published(store, event("e1", tenant="acme"))
        await store.save_tenant(replace(ACME, state=TenantState.CANCELLING), expect=ACME)

        await store.tidy()

        gone = replace(ACME, state=TenantState.DELETED)
        assert await store.tenant("acme") == gone
        assert [one.id for one in (await store.tenants(None, 10)).items] == ["default"]
        assert not await store.save_tenant(ACME, expect=None)

    async def test_the_ledger_holds_for_each_tenant_alone(self, store: Outbox, owner: Owner) -> None:
        await add_tenants(store, "one", "two")
        for tenant in ("one", "two"):
            await store.save_endpoint(endpoint(f"ep_{tenant}", tenant=tenant), expect=None)
        events = [event(f"e{n}", f"k{n % 3}", tenant=tenant) for tenant in ("one", "two") for n in range(6)]
        lanes = {(one.endpoint_id, one.key): one.lane_id for one in (await published(store, *events)).grown}
        await owner.deliver(lanes["ep_one", "k0"], 2)
        await owner.kill(lanes["ep_one", "k1"])
        row = await owner.row(lanes["ep_two", "k2"])
        await owner.commit(Cancel(row.id, row.pid, row.head, row.tail, row.rev))

        one, two = await store.ledger("one"), await store.ledger("two")

        assert (one["accepted"], one["delivered"], one["dead"], one["queued"]) == (6, 2, 1, 3)
        assert (two["accepted"], two["cancelled"], two["queued"]) == (6, 2, 4)
        for ledger in (one, two):
            assert ledger["accepted"] == sum(many for state, many in ledger.items() if state != "accepted")

    async def test_stored_bytes_are_those_of_a_tenants_own_events(self, store: Outbox) -> None:
        await add_tenants(store, "acme")
        mine = [event(f"e{n}", tenant="acme") for n in range(3)]
        await published(store, *mine, event("e9"))

        assert await store.stored_bytes("acme") == sum(len(one.data) for one in mine)
        assert await store.stored_bytes("nobody") == 0

    async def test_servers_that_take_publishes_are_counted_until_they_fall_silent(self, store: Outbox) -> None:
        assert await store.greet("s1", 60_000) == 1
        assert await store.greet("s2", 60_000) == 2
        assert await store.greet("s1", 60_000) == 2
        assert await store.greet("s2", -1) == 1
