"""Names of events: an id or an idempotency key that is used again is the same event, or a conflict."""

from __future__ import annotations

from dataclasses import replace

from hooklane.model.clock import Instant
from hooklane.model.endpoint import EndpointState
from hooklane.store.outbox import OTHER_CONTENT, Published, Refused, Stamp
from hooklane.testing.conformance_outbox.kit import (
    Outbox,
    OutboxKit,
    add_tenants,
    draft,
    endpoint,
    event,
    published,
)


class Naming(OutboxKit):
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
        given = event("e1", "a")  # without a name: this id was not chosen by a caller
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
