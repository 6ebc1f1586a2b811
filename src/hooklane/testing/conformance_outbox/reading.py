"""What people see: deliveries, lanes, attempts, pages, and a ledger that always adds up."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from hooklane.model.attempt import DELIVERED, Dead, Retry, Settlement
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.exchange import Failure, NoAnswer, Timings
from hooklane.model.lane import DeliveryState, LaneState
from hooklane.store.reads import EventFilter, LaneFilter, LetterFilter
from hooklane.testing.conformance_outbox.kit import T0, Outbox, OutboxKit, Owner, answer, endpoint, event, published
from hooklane.testing.paging import all_pages

STATES = ("delivered", "queued", "in_flight", "retrying", "dead", "skipped", "cancelled")


async def mixed(store: Outbox) -> Owner:
    """One lane in each state at `ep_a`, and two loose deliveries at `ep_b`."""
    await store.save_endpoint(endpoint("ep_a", types=("order.*",)), expect=None)
    await store.save_endpoint(endpoint("ep_b", types=("user.*",)), expect=None)
    keyed = [event(f"{key}{n}", key, at=n) for key in ("done", "new", "sick", "dead") for n in (1, 2)]
    report = await published(store, *keyed, event("loose1", None, type="user.a"), event("loose2", None, type="user.b"))
    lanes = {one.key: one.lane_id for one in report.grown if one.key is not None}
    owner = await Owner.of(store)
    await owner.deliver(lanes["done"], 2)
    await owner.fail(lanes["sick"], at=60_000)
    await owner.kill(lanes["dead"])
    await owner.deliver(report.grown[-1].lane_id)
    return owner


class Reading(OutboxKit):
    async def test_every_delivery_tells_its_state(self, store: Outbox) -> None:
        await mixed(store)
        expected = {
            "done1": "delivered",
            "done2": "delivered",
            "new1": "queued",
            "new2": "queued",
            "sick1": "retrying",
            "sick2": "queued",
            "dead1": "dead",
            "dead2": "queued",
            "loose1": "queued",
            "loose2": "delivered",
        }

        for _ in range(2):
            found = await store.deliveries("default", list(expected))
            assert expected == {event_id: str(one.state) for event_id, (one,) in found.items()}
            await store.tidy()
        (retrying,), (dead,), (loose,) = found["sick1"], found["dead1"], found["loose1"]
        assert (retrying.attempts, retrying.next_at, retrying.reason) == (1, T0 + 60_000, "500")
        assert (dead.reason, dead.seq) == ("422", 1)
        assert dead.dead_letter_id is not None
        assert (loose.key, loose.seq, loose.endpoint_id) == (None, None, "ep_b")

    async def test_a_delivery_tells_how_often_it_was_tried(self, store: Outbox) -> None:
        """Also when it is settled, and its lane is at another event."""
        await store.save_endpoint(endpoint(), expect=None)
        await store.save_endpoint(endpoint("ep_b", order="none"), expect=None)
        report = await published(store, event("e1"), event("e2"))
        owner = await Owner.of(store)
        for lane_id in {grown.lane_id for grown in report.grown}:
            await owner.fail(lane_id)
            await owner.fail(lane_id)
            await owner.deliver(lane_id)

        for _ in range(2):
            found = await store.deliveries("default", ["e1"])
            assert {one.endpoint_id: one.attempts for one in found["e1"]} == {"ep_a": 3, "ep_b": 3}
            (lane_id,) = {one.lane_id for one in found["e1"] if one.endpoint_id == "ep_a"}
            assert [one.attempts for one in await store.lane_deliveries(lane_id, 1, 2)] == [3, 0]
            await store.tidy()

    async def test_deliveries_of_other_tenants_and_unknown_events_are_not_told(self, store: Outbox) -> None:
        await mixed(store)

        assert not any((await store.deliveries("other", ["done1"])).values())
        assert not any((await store.deliveries("default", ["nothing"])).values())

    async def test_an_event_has_one_delivery_per_endpoint(self, store: Outbox) -> None:
        for name in ("ep_a", "ep_b"):
            await store.save_endpoint(endpoint(name), expect=None)
        await published(store, event("e1"), event("e2"))

        found = await store.deliveries("default", ["e2"])

        assert {("ep_a", 2), ("ep_b", 2)} == {(one.endpoint_id, one.seq) for one in found["e2"]}

    async def test_the_ledger_adds_up_whatever_happened(self, store: Outbox) -> None:
        owner = await mixed(store)

        for endpoint_id, accepted in ((None, 10), ("ep_a", 8), ("ep_b", 2)):
            counts = await store.ledger("default", endpoint_id)
            assert accepted == counts["accepted"] == sum(counts.get(DeliveryState(state), 0) for state in STATES)
        whole = await store.ledger("default")
        assert tuple(whole[DeliveryState(state)] for state in ("delivered", "queued", "retrying", "dead")) == (
            3,
            5,
            1,
            1,
        )
        lane = await store.lane("default", "ep_a", "dead")
        assert lane is not None
        assert lane.dead_letter_id is not None
        await store.skip("default", lane.dead_letter_id, note="", actor="me", now=T0)
        await owner.settle(lane.lane_id, Dead("422", skip=True))
        whole = await store.ledger("default")
        assert (whole["accepted"], whole[DeliveryState.SKIPPED], whole[DeliveryState.DEAD]) == (10, 2, 0)
        assert sum(whole.get(DeliveryState(state), 0) for state in STATES) == 10
        assert (await store.ledger("other"))["accepted"] == 0

    async def test_a_lane_shows_where_it_stands_and_why(self, store: Outbox) -> None:
        await mixed(store)

        sick, dead = await store.lane("default", "ep_a", "sick"), await store.lane("default", "ep_a", "dead")

        assert sick is not None
        assert dead is not None
        assert (
            sick.state,
            sick.head,
            sick.tail,
            sick.attempts,
            sick.next_at,
            sick.reason,
            sick.head_event_id,
            sick.waiting,
        ) == (LaneState.RETRYING, 1, 2, 1, T0 + 60_000, "500", "sick1", 1)
        assert (
            dead.state,
            dead.reason,
            dead.head_event_id,
            dead.head_type,
        ) == (LaneState.BLOCKED, "422", "dead1", "order.created")
        assert await store.lane("other", "ep_a", "dead") is None
        assert await store.lane("default", "ep_a", "nobody") is None

    async def test_lanes_are_found_by_state_endpoint_and_text(self, store: Outbox) -> None:
        await mixed(store)

        async def found(**wanted: Any) -> set[str]:
            return {one.key for one in (await store.lanes("default", LaneFilter(**wanted), None, 100)).items}

        assert {"done", "new", "sick", "dead"} == await found()
        assert {"sick", "dead"} == await found(states=[LaneState.RETRYING, LaneState.BLOCKED])
        assert {"done"} == await found(states=[LaneState.IDLE])
        assert set() == await found(endpoint_id="ep_b")
        assert {"done", "dead"} == await found(text="d")
        other = await store.lanes("other", LaneFilter(), None, 100)
        assert list(other.items) == []

    async def test_paused_is_shown_and_not_stored(self, store: Outbox) -> None:
        owner = await mixed(store)
        (one,) = [found for found in await store.endpoints() if found.id == "ep_a"]
        await store.save_endpoint(replace(one, state=EndpointState.PAUSED), expect=one)

        states = {}
        for key in ("done", "new", "sick", "dead"):
            lane = await store.lane("default", "ep_a", key)
            assert lane is not None
            states[key] = str(lane.state)

        # A dead head stays the news of its lane: resuming would not free it.
        assert states == {"done": "idle", "new": "paused", "sick": "paused", "dead": "blocked"}
        counts = await store.lane_counts("default")
        assert (counts[LaneState.IDLE], counts[LaneState.PAUSED], counts[LaneState.BLOCKED]) == (1, 2, 1)
        assert {"active", "retrying", "blocked"} == {str(row.state) for row in (await owner.loaded()).values()}

    async def test_lanes_are_counted_by_state(self, store: Outbox) -> None:
        await mixed(store)

        for tenant in (None, "default"):
            counts = await store.lane_counts(tenant)
            states = (LaneState.IDLE, LaneState.ACTIVE, LaneState.RETRYING, LaneState.BLOCKED)
            assert tuple(counts[state] for state in states) == (1, 1, 1, 1)
        assert not any((await store.lane_counts("other")).values())

    async def test_pages_cover_everything_once(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        events = [event(f"e{n}", f"k{n}", at=n) for n in range(7)]
        report = await published(store, *events)
        for one in report.grown:
            await owner.settle(one.lane_id, Dead("422"), at=one.lane_id)

        seen = await all_pages(lambda cursor: store.events("default", EventFilter(), cursor, 3))
        lanes = await all_pages(lambda cursor: store.lanes("default", LaneFilter(), cursor, 3))
        letters = await all_pages(
            lambda cursor: store.dead_letters("default", LetterFilter(endpoint_id="ep_a"), cursor, 3)
        )

        assert events[::-1] == seen, "newest first"
        assert [f"k{n}" for n in range(7)] == sorted(one.key for one in lanes)
        assert [f"e{n}" for n in range(7)] == sorted(one.event_id for one in letters)
        assert sorted(one.died_at for one in letters) == [one.died_at for one in letters], "the oldest first"

    async def test_events_are_found_by_what_they_are_and_how_they_stand(self, store: Outbox) -> None:
        await mixed(store)

        async def found(wanted: EventFilter, tenant: str = "default") -> set[str]:
            return {one.id for one in (await store.events(tenant, wanted, None, 100)).items}

        assert {"loose2"} == await found(EventFilter(type="user.b"))
        assert {"sick1", "sick2"} == await found(EventFilter(key="sick"))
        assert {"loose1", "loose2"} == await found(EventFilter(endpoint_id="ep_b"))
        assert {"dead1"} == await found(EventFilter(state=DeliveryState.DEAD))
        assert {"sick1"} == await found(EventFilter(state=DeliveryState.RETRYING))
        assert {"loose2"} == await found(EventFilter(state=DeliveryState.DELIVERED, endpoint_id="ep_b"))
        assert {"new1", "new2", "sick2", "dead2", "loose1"} == await found(EventFilter(state=DeliveryState.QUEUED))
        assert {"done2", "new2", "sick2", "dead2"} == await found(EventFilter(after=Instant(T0 + 2)))
        assert {"loose1", "loose2"} == await found(EventFilter(before=Instant(T0 + 1)))
        assert set() == await found(EventFilter(), "other")

    async def test_in_a_type_filter_only_the_star_is_special(self, store: Outbox) -> None:
        await published(store, *(event(type_, type=type_) for type_ in ("order_paid", "orderXpaid", "order-paid")))

        async def found(type_: str) -> set[str]:
            return {one.id for one in (await store.events("default", EventFilter(type=type_), None, 100)).items}

        assert {"order_paid", "orderXpaid", "order-paid"} == await found("order*")
        assert {"order_paid"} == await found("order_paid") == await found("order_*")
        for literal in ("order?paid", "order[_]paid", "ORDER_PAID", "order%", "Order*"):
            assert set() == await found(literal)

    async def test_a_lane_lists_its_deliveries_in_order(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, *(event(f"e{n}", "a") for n in range(1, 6)))
        lane_id = report.grown[0].lane_id
        await owner.deliver(lane_id, 2)

        found = await store.lane_deliveries(lane_id, 2, 3)

        assert [(one.seq, one.event_id, str(one.state), one.type) for one in found] == [
            (2, "e2", "delivered", "order.created"),
            (3, "e3", "queued", "order.created"),
            (4, "e4", "queued", "order.created"),
        ]

    async def test_attempts_are_logged_slim_for_a_success_and_in_full_for_a_failure(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", "a"))
        lane_id = report.grown[0].lane_id
        owner = await Owner.of(store)
        later = Instant(T0 + 60_000)
        timeout = NoAnswer(Failure.TIMEOUT, Timings(20_000.0), "no byte within 20 s", sent=True)
        await owner.settle(lane_id, Retry(later, "500"), result=answer(500, b"out of order"), at=1_000)
        await owner.settle(lane_id, Retry(later, "timeout"), result=timeout, at=2_000)
        await owner.settle(lane_id, DELIVERED, result=answer(204), at=3_000)

        first, second, third = await store.attempts("default", "e1")

        assert [first.attempt, second.attempt, third.attempt] == [1, 2, 3]
        assert [first.outcome, second.outcome, third.outcome] == ["retry", "retry", "delivered"]
        assert [first.status, second.status, third.status] == [500, None, 204]
        assert [first.failure, second.failure, third.failure] == [None, "timeout", None]
        assert [first.started_at, second.started_at, third.started_at] == [T0 + 1_000, T0 + 2_000, T0 + 3_000]
        assert (first.took_ms, second.took_ms) == (12.5, 20_000.0)
        assert (first.event_id, first.endpoint_id, first.seq) == ("e1", "ep_a", 1)
        assert first.detail
        assert second.detail
        assert not third.detail
        assert list(await store.attempts("other", "e1")) == []

    async def test_an_attempt_that_nobody_saw_end_is_logged_as_well(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        report = await published(store, event("e1", "a"))
        lane_id = report.grown[0].lane_id
        died = await owner.settlement(lane_id, Dead("worker_died"))

        await owner.commit(Settlement(died.send, died.outcome, died.at, None))

        (row,) = await store.attempts("default", "e1")
        assert (row.outcome, row.status) == ("dead", None)

    async def test_the_oldest_pending_event_is_known(self, store: Outbox, owner: Owner) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        assert await store.oldest_pending_at() is None
        report = await published(store, event("e1", "a", at=1), event("e2", "a", at=2), event("e3", None, at=3))
        first, _, loose = (one.lane_id for one in report.grown)
        assert await store.oldest_pending_at() == T0 + 1

        await owner.deliver(first, 2)
        assert await store.oldest_pending_at("default") == T0 + 3
        await owner.deliver(loose)
        assert await store.oldest_pending_at() is None

    async def test_a_deleted_endpoint_stays_while_something_is_owed(self, store: Outbox, owner: Owner) -> None:
        one: Endpoint = endpoint()
        await store.save_endpoint(one, expect=None)
        report = await published(store, event("e1", "a"))
        draining = replace(one, state=EndpointState.DRAINING)
        await store.save_endpoint(draining, expect=one)
        await store.tidy()

        assert [draining] == list(await store.endpoints())
        await owner.deliver(report.grown[0].lane_id)
        await store.tidy()
        (delivery,) = (await store.deliveries("default", ["e1"]))["e1"]
        assert DeliveryState.DELIVERED is delivery.state

    async def test_the_store_tells_how_much_room_it_takes(self, store: Outbox) -> None:
        await store.save_endpoint(endpoint(), expect=None)
        before = await store.size_bytes()
        # Text that does not compress: a database may keep large values packed.
        noise = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(2_000))

        await published(store, replace(event("e1", "a"), data=f'"{noise}"'.encode()))

        assert await store.size_bytes() - before >= 50_000
