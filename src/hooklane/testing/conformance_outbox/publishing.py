"""Publishing and endpoints: what is accepted, where it stands, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hooklane.model.endpoint import EndpointState, Order
from hooklane.model.lane import GLOBAL_KEY
from hooklane.store.outbox import BUSY, Draft, Published, Refused, Stamp
from hooklane.testing.conformance_outbox.kit import (
    Outbox,
    OutboxKit,
    Owner,
    add_tenants,
    draft,
    endpoint,
    event,
    published,
    tails,
)


async def patiently(store: Outbox, one: Draft) -> Published:
    """Publish again while another publisher holds the lane, as a publisher does."""
    for _ in range(200):
        (result,) = (await store.publish([one])).results
        if isinstance(result, Published):
            return result
        assert result.code == BUSY, result
        await asyncio.sleep(0.01)
    raise AssertionError("the lane stayed busy")


class Publishing(OutboxKit):
    async def test_seqs_of_a_lane_are_1_2_3_without_a_gap(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)

        first = await published(store, event("e1", "a"), event("e2", "b"), event("e3", "a"))
        second = await published(store, event("e4", "a"))

        stamps = [one.stamps for report in (first, second) for one in report.results if isinstance(one, Published)]
        assert [(Stamp("ep_a", 1),), (Stamp("ep_a", 1),), (Stamp("ep_a", 2),), (Stamp("ep_a", 3),)] == stamps

    async def test_concurrent_publishes_into_one_lane_leave_no_gap_and_no_double(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)

        results = await asyncio.gather(*(patiently(store, draft(event(f"e{n}", "a"))) for n in range(20)))

        assert list(range(1, 21)) == sorted(one.stamps[0].seq or 0 for one in results)

    async def test_the_report_tells_the_lanes_what_grew_with_the_event(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)

        report = await published(store, event("e1", "a"), event("e2", "a"))

        assert [(one.seq, one.key, one.event.id) for one in report.grown if one.event is not None] == [
            (1, "a", "e1"),
            (2, "a", "e2"),
        ]
        assert len({(one.lane_id, one.pid, one.endpoint_id) for one in report.grown}) == 1

    async def test_an_event_goes_to_every_endpoint_whose_filter_it_passes(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint("ep_all"), expect=None)
        await store.save_endpoint(endpoint("ep_orders", types=("order.*",)), expect=None)
        await store.save_endpoint(endpoint("ep_users", types=("user.created",)), expect=None)

        report = await published(store, event("e1", type="order.paid"))

        (result,) = report.results
        assert isinstance(result, Published)
        assert {Stamp("ep_all", 1), Stamp("ep_orders", 1)} == set(result.stamps)

    async def test_each_endpoint_counts_its_own_seqs(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint("ep_orders", types=("order.*",)), expect=None)
        await store.save_endpoint(endpoint("ep_all"), expect=None)

        report = await published(store, event("e1", "a", type="user.created"), event("e2", "a", type="order.paid"))

        last = report.results[-1]
        assert isinstance(last, Published)
        assert {Stamp("ep_orders", 1), Stamp("ep_all", 2)} == set(last.stamps)

    async def test_an_event_that_nobody_wants_is_kept_all_the_same(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(types=("order.*",)), expect=None)
        one = event("e1", type="user.created")

        report = await published(store, one)

        (result,) = report.results
        assert isinstance(result, Published)
        assert result.stamps == ()
        assert one == await store.event("default", "e1")

    async def test_explicit_endpoints_bypass_the_filters(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint("ep_all"), expect=None)
        await store.save_endpoint(endpoint("ep_users", types=("user.*",)), expect=None)

        report = await store.publish([draft(event("e1", type="order.paid"), asked=["ep_users"])])

        (result,) = report.results
        assert isinstance(result, Published)
        assert (Stamp("ep_users", 1),) == result.stamps

    async def test_an_unknown_endpoint_refuses_that_event_and_no_other(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        bad = draft(event("e2"), "name", asked=["ep_nobody"])

        report = await store.publish([draft(event("e1")), bad, draft(event("e3"))])
        again = await store.publish([draft(event("e4"), "name")])

        first, second, third = report.results
        assert isinstance(second, Refused)
        assert second.code == "unknown_endpoint"
        assert isinstance(first, Published)
        assert isinstance(third, Published)
        assert [Stamp("ep_a", 1), Stamp("ep_a", 2)] == [*first.stamps, *third.stamps]
        assert await store.event("default", "e2") is None
        assert isinstance(again.results[0], Published), "a refused event does not use up its name"

    async def test_events_reach_only_endpoints_of_their_own_tenant(self, store: Outbox) -> None:
        await add_tenants(store, "one", "two")
        await store.save_endpoint(endpoint("ep_a", tenant="one"), expect=None)
        await store.save_endpoint(endpoint("ep_b", tenant="two"), expect=None)

        report = await published(store, event("e1", tenant="two"))

        (result,) = report.results
        assert isinstance(result, Published)
        assert (Stamp("ep_b", 1),) == result.stamps
        assert await store.event("one", "e1") is None

    async def test_a_paused_endpoint_takes_events_and_a_deleted_one_does_not(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint("ep_paused", state=EndpointState.PAUSED), expect=None)
        await store.save_endpoint(endpoint("ep_gone", state=EndpointState.DISABLED), expect=None)
        await store.save_endpoint(endpoint("ep_draining", state=EndpointState.DRAINING), expect=None)

        report = await published(store, event("e1"))

        (result,) = report.results
        assert isinstance(result, Published)
        assert {"ep_paused", "ep_gone"} == {stamp.endpoint_id for stamp in result.stamps}

    async def test_events_without_a_key_are_loose_and_have_no_seq(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)

        report = await published(store, event("e1", None), event("e2", None))

        assert [(Stamp("ep_a", None),)] * 2 == [one.stamps for one in report.results if isinstance(one, Published)]
        assert all(one.lane_id < 0 and one.key is None and one.seq == 1 for one in report.grown)
        assert len({one.lane_id for one in report.grown}) == 2

    async def test_an_endpoint_with_order_none_gets_loose_deliveries(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(order=Order.NONE), expect=None)

        report = await published(store, event("e1", "a"))

        (grown,) = report.grown
        assert grown.lane_id < 0
        assert grown.key is None

    async def test_an_endpoint_with_order_global_is_one_lane(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(order=Order.GLOBAL), expect=None)

        report = await published(store, event("e1", "a"), event("e2", None), event("e3", "b"))

        assert [(one.key, one.seq) for one in report.grown] == [(GLOBAL_KEY, 1), (GLOBAL_KEY, 2), (GLOBAL_KEY, 3)]
        assert len({one.lane_id for one in report.grown}) == 1

    async def test_the_payload_comes_back_byte_for_byte(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint("ep_a"), expect=None)
        await store.save_endpoint(endpoint("ep_b"), expect=None)
        one = replace(event("e1", "schlüssel/☃"), data='{"n":1.0e2,  "s":"\\u00e9é"}'.encode(), replay_of="e0")

        report = await published(store, one)

        events = await store.fetch([(grown.lane_id, 1, 1) for grown in report.grown])
        assert [one, one] == [event for _, _, event in events]
        assert one == await store.event("default", "e1")

    async def test_a_batch_of_its_own_is_stored_whole_or_not_at_all(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        good, bad = draft(event("e1"), "id:e1"), draft(event("e2"), asked=["ep_nobody"])
        loose = draft(event("e3", None), "id:e3")

        refused = await store.publish_all([good, bad, loose])
        accepted = await store.publish_all([good, loose])
        repeated = await store.publish_all([good, draft(event("e4"))])

        assert [one.code for one in refused.results if isinstance(one, Refused)] == [
            "batch_refused",
            "unknown_endpoint",
            "batch_refused",
        ]
        assert list(refused.grown) == []
        first, last = accepted.results[0], repeated.results[1]
        assert isinstance(first, Published)
        assert (Stamp("ep_a", 1), False) == (first.stamps[0], first.repeated)
        assert isinstance(last, Published)
        assert last.stamps == (Stamp("ep_a", 2),)
        assert await store.event("default", "e2") is None

    async def test_an_endpoint_is_created_once(self, store: Outbox) -> None:
        one = endpoint("ep_a", name="first", headers=(("x-a", "1"),), types=("a.*", "b"), rate_limit=2.5)

        assert await store.save_endpoint(one, expect=None)
        assert not await store.save_endpoint(endpoint("ep_a", name="second"), expect=None)
        assert one == await store.endpoint("default", "ep_a")
        assert await store.endpoint("other", "ep_a") is None

    async def test_an_endpoint_is_replaced_only_while_it_is_as_expected(self, store: Outbox) -> None:
        one = endpoint("ep_a")
        await store.save_endpoint(one, expect=None)
        paused = replace(one, state=EndpointState.PAUSED)
        renamed = replace(one, name="renamed")

        assert await store.save_endpoint(paused, expect=one)
        assert not await store.save_endpoint(renamed, expect=one)
        assert not await store.save_endpoint(endpoint("ep_b"), expect=one)
        assert [paused] == list(await store.endpoints())

    async def test_endpoints_are_listed_oldest_first_and_by_tenant(self, store: Outbox) -> None:
        young = endpoint("ep_a", created_at=endpoint().created_at + 2)
        await add_tenants(store, "other")
        old = endpoint("ep_b", tenant="other")
        for one in (young, old):
            await store.save_endpoint(one, expect=None)

        assert [old, young] == list(await store.endpoints())
        assert [old] == list(await store.endpoints("other"))

    async def test_what_was_published_is_owed(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", "a"), event("e2", "a"), event("e3", "b"), event("e4", None))

        rows = await owner.loaded()

        assert tails(report.grown) == {row.id: row.tail for row in rows.values()}
        assert {1} == {row.head for row in rows.values()}
