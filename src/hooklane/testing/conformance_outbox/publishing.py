"""Publishing and endpoints: what is accepted, where it stands, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState, Order
from hooklane.model.lane import GLOBAL_KEY
from hooklane.store.outbox import BUSY, OTHER_CONTENT, Draft, Published, Refused, Stamp
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

    async def test_the_same_name_and_content_is_published_once(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        first = await store.publish([draft(event("e1"), "order-1")])

        again = await store.publish([draft(replace(event("e1", at=5_000), id="e2"), "order-1")])
        other_content = replace(draft(event("e9"), "order-1"), digest=b"other")
        conflict = await store.publish([other_content])

        (original,), (repeated,) = first.results, again.results
        assert isinstance(original, Published)
        assert not original.repeated
        # The id that the second one brought along is not used: the caller is told of the first event.
        assert replace(original, repeated=True) == repeated
        (refused,) = conflict.results
        assert isinstance(refused, Refused)
        assert refused.code == "idempotency_conflict"

    async def test_a_repeated_publish_stamps_nothing(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        one = draft(event("e1"), "id:e1", "key:order-1")
        first = await store.publish([one])

        again = await store.publish([one])
        following = await published(store, event("e2"))

        (original,), (repeated,), (next_one,) = first.results, again.results, following.results
        assert isinstance(original, Published)
        assert replace(original, repeated=True) == repeated
        assert list(again.grown) == []
        assert isinstance(next_one, Published)
        assert (Stamp("ep_a", 2),) == next_one.stamps

    async def test_any_one_of_several_names_is_enough_to_recognise_an_event(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        one = event("e1")
        first = await store.publish([draft(one, "id:e1", "key:order-1")])

        again = await store.publish([draft(one, "key:order-1")])
        conflict = await store.publish([replace(draft(one, "id:e1"), digest=b"other")])

        (original,), (repeated,), (refused,) = first.results, again.results, conflict.results
        assert isinstance(original, Published)
        assert replace(original, repeated=True) == repeated
        assert isinstance(refused, Refused)

    async def test_a_duplicate_inside_one_batch_is_published_once(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        one = draft(event("e1"), "id:e1")
        other = replace(draft(event("e1"), "id:e1"), digest=b"other")

        report = await store.publish([one, one, other, draft(event("e2"))])

        original, repeated, refused, last = report.results
        assert isinstance(original, Published)
        assert replace(original, repeated=True) == repeated
        assert isinstance(refused, Refused)
        assert refused.code == "idempotency_conflict"
        assert isinstance(last, Published)
        assert (Stamp("ep_a", 2),) == last.stamps
        assert len(report.grown) == 2

    async def test_an_id_that_the_sender_gave_is_the_id_of_that_event_for_everybody(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        given = event("e1", "a")  # without a name: nobody chose this id
        (original,) = (await published(store, given)).results
        same = draft(replace(given, created_at=Instant(given.created_at + 9)), "id:e1")
        other = draft(replace(given, data=b'{"other":1}'), "key:order-9", "id:e1")
        elsewhere = draft(given, "id:e1", asked=["ep_a", "ep_b"])
        await store.save_endpoint(endpoint("ep_b", types=("nothing",)), expect=None)

        report = await store.publish([other, draft(event("e2", "a")), same, elsewhere])
        whole = await store.publish_all([draft(event("e3", "a")), other])
        free = await store.publish([draft(event("e4", "a"), "key:order-9")])
        keyed = await store.publish([draft(given, "key:order-9", "id:e1"), draft(given, "key:order-8", "id:e1")])

        refused, neighbour, repeated, wider = report.results
        assert isinstance(original, Published)
        assert isinstance(refused, Refused)
        assert isinstance(wider, Refused)
        assert {"idempotency_conflict"} == {refused.code, wider.code}
        assert replace(original, repeated=True) == repeated
        assert isinstance(neighbour, Published)
        assert (Stamp("ep_a", 2),) == neighbour.stamps
        assert [one.code for one in whole.results if isinstance(one, Refused)] == [
            "batch_refused",
            "idempotency_conflict",
        ]
        (last,) = free.results
        assert isinstance(last, Published)
        assert (Stamp("ep_a", 3),) == last.stamps
        of_another, of_none = keyed.results
        assert isinstance(of_another, Refused), "its key is another event's"
        assert replace(original, repeated=True) == of_none
        assert given == await store.event("default", "e1")

    async def test_names_of_one_tenant_do_not_concern_another(self, store: Outbox) -> None:
        await add_tenants(store, "one", "two")
        for tenant in ("one", "two"):
            await store.save_endpoint(endpoint(f"ep_{tenant}", tenant=tenant), expect=None)

        await store.publish([draft(event("e1", tenant="one"), "order-1")])
        report = await store.publish([replace(draft(event("e2", tenant="two"), "order-1"), digest=b"other")])

        (result,) = report.results
        assert isinstance(result, Published)
        assert not result.repeated

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

    async def test_what_was_published_is_owed(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", "a"), event("e2", "a"), event("e3", "b"), event("e4", None))

        owner = await Owner.of(store)
        rows = await owner.loaded()

        assert tails(report.grown) == {row.id: row.tail for row in rows.values()}
        assert {1} == {row.head for row in rows.values()}

    async def test_a_repeat_is_the_same_event_though_an_endpoint_that_it_named_is_gone(self, store: Outbox) -> None:
        gone = endpoint("ep_gone")
        await store.save_endpoint(gone, expect=None)
        named = draft(event("e1"), "key:k", "id:e1", asked=["ep_gone"])
        first = (await store.publish([named])).results
        await store.save_endpoint(replace(gone, state=EndpointState.DRAINING), expect=gone)

        again = await store.publish([named])
        whole = await store.publish_all([named])
        fresh = await store.publish([draft(event("e2"), "id:e2", asked=["ep_gone"])])

        assert [replace(one, repeated=True) for one in first if isinstance(one, Published)] == again.results
        assert again.results == whole.results
        assert [one.code for one in fresh.results if isinstance(one, Refused)] == ["unknown_endpoint"]

    async def test_a_key_with_another_id_of_the_callers_own_is_a_conflict(self, store: Outbox) -> None:
        one, two = event("one"), replace(event("one"), id="two")
        await store.publish([draft(one, "key:k", "id:one")])

        other = await store.publish([draft(two, "key:k", "id:two")])
        together = await store.publish([draft(replace(one, id=id), "key:l", f"id:{id}") for id in ("three", "four")])

        assert [*other.results] == [OTHER_CONTENT]
        assert isinstance(together.results[0], Published)
        assert together.results[1] == OTHER_CONTENT
        assert await store.event("default", "two") is None

    async def test_names_of_two_events_are_no_repeat_of_either(self, store: Outbox) -> None:
        one, two = event("one"), replace(event("one"), id="two")
        await store.publish([draft(one, "key:k#0"), draft(two, "batch:k", "key:k#1")])

        shorter = await store.publish([draft(replace(one, id="three"), "batch:k", "key:k#0")])
        longer = await store.publish([draft(replace(one, id="three"), "batch:k", "key:k#2")])

        assert [*shorter.results, *longer.results] == [OTHER_CONTENT, OTHER_CONTENT]
        assert await store.event("default", "three") is None

    async def test_a_key_that_comes_with_an_id_that_was_published_is_that_events_key(self, store: Outbox) -> None:
        named, unnamed = event("named"), event("unnamed")
        await store.publish([draft(named, "id:named"), draft(unnamed)])

        repeats = await store.publish([draft(named, "key:k", "id:named"), draft(unnamed, "key:l", "id:unnamed")])
        others = await store.publish([draft(event("e2"), "key:k"), draft(event("e3"), "key:l")])
        again = await store.publish([draft(named, "key:k"), draft(unnamed, "key:l")])

        ids = [(one.event_id, one.repeated) for one in repeats.results if isinstance(one, Published)]
        assert ids == [("named", True), ("unnamed", True)]
        assert [one.code for one in others.results if isinstance(one, Refused)] == ["idempotency_conflict"] * 2
        assert repeats.results == again.results

    async def test_a_name_of_old_is_found_where_the_content_is_the_same(self, store: Outbox) -> None:
        await store.publish([draft(event("e1"), "key:order#1"), draft(event("e2"), "key:batch#0")])

        same = await store.publish([replace(draft(event("e1"), "key:order#1#"), former="key:order#1")])
        other = await store.publish([replace(draft(event("e3"), "key:batch#0#"), former="key:batch#0")])

        (repeat,), (new,) = same.results, other.results
        assert isinstance(repeat, Published)
        assert isinstance(new, Published)
        assert [(one.event_id, one.repeated) for one in (repeat, new)] == [("e1", True), ("e3", False)]
