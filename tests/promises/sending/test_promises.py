"""What a sender promises (S1-S8 of the mission), each over real HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise

from standardwebhooks import Webhook
from tests.support.pace import scaled_ms, scaled_s
from tests.support.receiver import Answer, Drop
from tests.support.running_sender import SECRET, running_sender

from hooklane.model.clock import wall_now
from hooklane.model.endpoint import EndpointState, OnDead, Order, Payload
from hooklane.model.lane import DeliveryState, LaneState

QUEUED, DEAD, SKIPPED = DeliveryState.QUEUED, DeliveryState.DEAD, DeliveryState.SKIPPED

CLOCK_S = 0.002
"""Our clock has whole milliseconds, the sink's has not."""


def is_first_of_a(request):
    return (request.headers["x-key"], request.headers["x-seq"]) == ("A", "1")


def seqs(requests, key="order:7"):
    return [int(one.headers["x-seq"]) for one in requests if one.headers.get("x-key") == key]


async def test_s1_an_event_is_retried_until_a_2xx_and_a_timeout_is_a_failure(sender, sink):
    timeout_ms = scaled_ms(300)  # within which a busy machine must have answered
    sink.follow([Answer(status=503), Answer(after_s=3 * timeout_ms / 1000), Drop(reset=True), Answer(status=204)])
    await sender.endpoint(sink.url(), timeout_ms=timeout_ms)

    event = await sender.publish("order.created", key="order:7")
    await sender.delivered(event.event_id)

    assert [str(one.headers["x-attempt"]) for one in sink.requests] == ["1", "2", "3", "4"]
    attempts = await sender.store.attempts("default", event.event_id)
    assert [one.outcome for one in attempts] == ["retry", "retry", "retry", "delivered"]
    assert [one.failure or one.status for one in attempts] == [503, "timeout", "reset", 204]


async def test_s12_the_log_of_a_failure_shows_request_and_answer_without_secrets(sender, sink):
    sink.follow([Answer(status=422, body=b"unknown sku")])
    await sender.endpoint(sink.url("/hooks?token=hidden"), headers=(("Authorization", "Bearer hidden"),))

    event = await sender.publish("order.created", key="order:7")
    await sender.delivered(event.event_id)
    failed, delivered = await sender.store.attempts("default", event.event_id)

    request = str(failed.detail["request_head"])
    assert request.startswith(f"POST {sink.url('/hooks')}\r\n")
    assert "X-Seq: 1" in request
    assert "webhook-signature: ***" in request
    assert str(failed.detail["response_head"]).startswith("HTTP/1.1 422")
    assert failed.detail["response_body"] == "unknown sku"
    assert "hidden" not in str(failed)
    assert sink.requests[0].headers["authorization"] == "Bearer hidden"
    assert "request_head" not in delivered.detail


async def test_s2_a_delivery_carries_its_key_seq_and_id_and_verifies_with_an_independent_package(sender, sink):
    await sender.endpoint(sink.url("/hooks?x=1"))

    event = await sender.publish("order.created", b'{"total":  1.50}', key="küche 7%")
    (request,) = await sink.arrived(1)

    assert (request.method, request.path) == ("POST", "/hooks?x=1")
    headers = request.headers
    assert headers["idempotency-key"] == headers["webhook-id"] == event.event_id
    assert (headers["x-key"], headers["x-seq"], headers["x-prev-seq"]) == ("k%C3%BCche%207%25", "1", "0")
    assert (headers["x-attempt"], headers["content-type"]) == ("1", "application/json")
    assert headers["user-agent"].startswith("hooklane/")
    Webhook(SECRET).verify(request.body, dict(headers))
    envelope = json.loads(request.body)
    assert list(envelope) == ["id", "type", "timestamp", "key", "seq", "prev_seq", "data"]
    assert (envelope["key"], envelope["seq"], envelope["prev_seq"]) == ("küche 7%", 1, 0)
    assert request.body.endswith(b'"data":{"total":  1.50}}')  # byte for byte as it was published


async def test_s2_the_raw_payload_is_exactly_the_published_bytes(sender, sink):
    await sender.endpoint(sink.url(), payload=Payload.RAW)

    await sender.publish("order.created", b'{"total":  1.50}', key="order:7")
    (request,) = await sink.arrived(1)

    assert request.body == b'{"total":  1.50}'
    Webhook(SECRET).verify(request.body, dict(request.headers))


async def test_s3_seqs_are_gapless_per_lane_and_each_endpoint_counts_its_own(sender, sink):
    everything = await sender.endpoint(sink.url("/all"))
    orders = await sender.endpoint(sink.url("/orders"), types=("order.*",))

    published = [await sender.publish(type_, key="k") for type_ in ("order.created", "user.left", "order.paid")]

    stamps = [{stamp.endpoint_id: stamp.seq for stamp in one.stamps} for one in published]
    assert stamps == [{everything.id: 1, orders.id: 1}, {everything.id: 2}, {everything.id: 3, orders.id: 2}]


async def test_s4_a_later_event_waits_for_the_head_and_other_keys_flow_on(sender, sink):
    """The worked example of the mission: A:1 fails twice, A:2 waits although it is ready, B:1 goes through."""
    sink.react = lambda request: Answer(
        status=503 if is_first_of_a(request) and int(request.headers["x-attempt"]) < 3 else 200
    )
    await sender.endpoint(sink.url(), backoff_ms=250)

    first = await sender.publish("order.created", key="A")
    second = await sender.publish("order.updated", key="A")
    other = await sender.publish("payment.settled", key="B")
    await sender.delivered(other.event_id)
    waiting = await sender.states(first.event_id, second.event_id)
    await sender.delivered(first.event_id, second.event_id)

    assert waiting[1] is QUEUED
    assert seqs(sink.requests, "A") == [1, 1, 1, 2]
    arrivals = [one.arrived_at for one in sink.requests if one.headers["x-key"] == "A"]
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    assert gaps[0] >= 0.25 - CLOCK_S
    assert gaps[1] >= 0.4 - CLOCK_S
    assert gaps[2] < scaled_s(0.25)  # released at once, not after a timer of its own


async def test_s4_one_delivery_of_a_lane_is_in_flight_at_a_time(sender, sink):
    sink.react = lambda request: Answer(after_s=0.02)
    await sender.endpoint(sink.url())

    events = [await sender.publish("order.created", key="order:7") for _ in range(10)]
    await sender.delivered(*(one.event_id for one in events))

    assert seqs(sink.requests) == list(range(1, 11))
    for earlier, later in pairwise(sink.requests):
        assert earlier.settled_at <= later.arrived_at


async def test_s5_without_order_nothing_waits_and_nothing_is_numbered(sender, sink):
    sink.react = lambda request: Answer(status=503 if b'"n":1' in request.body else 200)
    await sender.endpoint(sink.url(), order=Order.NONE, backoff_ms=60_000, backoff_cap_ms=60_000)

    stuck = await sender.publish("order.created", b'{"n":1}', key="order:7")
    event = await sender.publish("order.created", b'{"n":2}', key="order:7")
    await sender.delivered(event.event_id)

    assert [stamp.seq for stamp in event.stamps] == [None]
    assert "x-seq" not in sink.requests[-1].headers
    assert "seq" not in json.loads(sink.requests[-1].body)
    await sender.until(lambda: len(sender.settled) == 2)
    assert await sender.states(stuck.event_id) == [DeliveryState.RETRYING]


async def test_s5_an_event_without_a_key_is_blocked_by_nothing(sender, sink):
    sink.react = lambda request: Answer(status=400 if "x-key" in request.headers else 200)
    await sender.endpoint(sink.url(), attempts_max=1)

    await sender.publish("order.created", key="order:7")
    await sender.letter()
    event = await sender.publish("order.created")
    await sender.delivered(event.event_id)

    assert ["x-key" in one.headers for one in sink.requests] == [True, False]
    assert await sender.letter(), "the key that failed is still blocked"


async def test_s5_with_global_order_the_endpoint_is_one_lane(sender, sink):
    sink.follow([Answer(status=500), Answer(status=500)])
    await sender.endpoint(sink.url(), order=Order.GLOBAL)

    events = [await sender.publish("order.created", key=key) for key in ("a", "b", None)]
    await sender.delivered(*(one.event_id for one in events))

    assert seqs(sink.requests, "*") == [1, 1, 1, 2, 3]
    envelopes = [json.loads(one.body) for one in sink.requests[2:]]
    assert [(one["key"], one.get("event_key")) for one in envelopes] == [("*", "a"), ("*", "b"), ("*", None)]


async def test_s5_a_key_that_is_a_star_is_one_lane_beside_others(sender, sink):
    await sender.endpoint(sink.url())

    event = await sender.publish("order.created", key="*")
    await sender.delivered(event.event_id)

    [envelope] = [json.loads(one.body) for one in sink.requests]
    assert (envelope["key"], "event_key" in envelope) == ("*", False)


async def test_s6_retry_after_is_honoured_and_never_shortens_the_schedule(sender, sink):
    sink.follow([Answer(status=429, headers={"Retry-After": "1"}), Answer(status=503, headers={"Retry-After": "0"})])
    await sender.endpoint(sink.url(), backoff_ms=100)

    event = await sender.publish("order.created", key="order:7")
    await sender.delivered(event.event_id)

    first, second, third = (one.arrived_at for one in sink.requests)
    assert second - first >= 1.0 - CLOCK_S
    assert third - second >= 0.2 - CLOCK_S


async def test_s6_gone_disables_the_endpoint_and_holds_everything(sender, sink):
    sink.follow([Answer(status=410)])
    endpoint = await sender.endpoint(sink.url())

    first = await sender.publish("order.created", key="order:7")
    await sender.until(lambda: sender.settled)
    second = await sender.publish("order.updated", key="order:7")
    (disabled,) = await sender.store.endpoints()
    held = len(sink.requests)
    await sender.change(disabled, replace(disabled, state=EndpointState.ACTIVE))
    await sender.delivered(first.event_id, second.event_id)

    assert disabled.state is EndpointState.DISABLED
    assert disabled.id == endpoint.id
    assert held == 1
    assert seqs(sink.requests) == [1, 1, 2]


async def test_s6_have_it_is_an_ack_and_a_receiver_that_lost_state_stops_the_lane(sender, sink):
    sink.follow([Answer(status=409, headers={"webhook-expected-seq": "2"})])
    await sender.endpoint(sink.url())

    first = await sender.publish("order.created", key="order:7")
    await sender.delivered(first.event_id)
    sink.follow([Answer(status=409, headers={"webhook-expected-seq": "1"})])
    await sender.publish("order.updated", key="order:7")
    letter = await sender.letter()

    assert letter.reason == "seq_gap"
    assert letter.seq == 2


async def test_s7_a_poison_event_becomes_a_dead_letter_and_only_its_key_stops(sender, sink):
    sink.react = lambda request: Answer(status=422 if b"poison" in request.body else 200)
    endpoint = await sender.endpoint(sink.url(), attempts_max=3)

    dead = await sender.publish("order.created", b'"poison"', key="order:7")
    behind = await sender.publish("order.updated", key="order:7")
    letter = await sender.letter()
    other = await sender.publish("order.created", key="order:8")
    await sender.delivered(other.event_id)

    assert (letter.event_id, letter.reason, letter.attempts, letter.waiting) == (dead.event_id, "422", 3, 1)
    assert await sender.states(dead.event_id, behind.event_id) == [DEAD, QUEUED]
    lane = await sender.store.lane("default", endpoint.id, "order:7")
    assert (lane.state, lane.head, lane.tail) == (LaneState.BLOCKED, 1, 2)
    assert seqs(sink.requests) == [1, 1, 1]


async def test_s7_the_policy_skip_lets_the_lane_move_on_and_says_so(sender, sink):
    sink.react = lambda request: Answer(status=422 if b"poison" in request.body else 200)
    await sender.endpoint(sink.url(), attempts_max=2, on_dead=OnDead.SKIP)

    dead = await sender.publish("order.created", b'"poison"', key="order:7")
    behind = await sender.publish("order.updated", key="order:7")
    await sender.delivered(behind.event_id)

    assert await sender.states(dead.event_id) == [SKIPPED]
    last = sink.requests[-1]
    assert (last.headers["x-seq"], last.headers["x-prev-seq"]) == ("2", "0")


async def test_s8_a_replay_sends_the_same_id_seq_and_bytes_and_releases_the_key(sender, sink):
    sink.react = lambda request: Answer(status=422)
    await sender.endpoint(sink.url(), attempts_max=1)

    dead = await sender.publish("order.created", key="order:7")
    behind = await sender.publish("order.updated", key="order:7")
    letter = await sender.letter()
    sink.react = lambda request: Answer()
    recovery = await sender.store.replay("default", letter.id, actor="me", now=wall_now())
    sender.relay.wake([recovery.lane_id])
    await sender.delivered(dead.event_id, behind.event_id)

    first, again, _ = sink.requests
    assert (first.body, first.headers["webhook-id"]) == (again.body, again.headers["webhook-id"])
    assert again.headers["x-attempt"] == "1"
    assert await sender.store.replay("default", letter.id, actor="me", now=wall_now()) is None


async def test_s8_a_skip_is_on_record_and_the_receiver_can_see_it(sender, sink):
    sink.react = lambda request: Answer(status=422 if b"poison" in request.body else 200)
    await sender.endpoint(sink.url(), attempts_max=1)

    await sender.publish("order.created", key="order:7")
    dead = await sender.publish("order.updated", b'"poison"', key="order:7")
    behind = await sender.publish("order.closed", key="order:7")
    letter = await sender.letter()
    await sender.store.skip("default", letter.id, note="customer cancelled", actor="me", now=wall_now())
    sender.relay.nudge()
    await sender.delivered(behind.event_id)

    assert await sender.states(dead.event_id) == [SKIPPED]
    last = sink.requests[-1]
    assert (last.headers["x-seq"], last.headers["x-prev-seq"]) == ("3", "1")


async def test_nothing_is_lost_by_a_pause(sender, sink):
    endpoint = await sender.endpoint(sink.url())
    await sender.delivered((await sender.publish("order.created", key="order:7")).event_id)
    paused = await sender.change(endpoint, replace(endpoint, state=EndpointState.PAUSED))
    await sender.until(lambda: sender.relay.engine.queues[endpoint.id].endpoint.state is EndpointState.PAUSED)

    events = [await sender.publish("order.updated", key="order:7") for _ in range(3)]
    held = await sender.states(*(one.event_id for one in events))
    await sender.change(paused, endpoint)
    await sender.delivered(*(one.event_id for one in events))

    assert held == [QUEUED] * 3
    assert seqs(sink.requests) == [1, 2, 3, 4]


async def test_a_stop_lets_what_is_in_flight_end_and_nothing_is_sent_twice(store_url, sink):
    sink.react = lambda request: Answer(after_s=0.3)
    async with running_sender(store_url) as sender:
        await sender.endpoint(sink.url())
        event = await sender.publish("order.created", key="order:7")
        await sink.arrived(1)

    async with running_sender(store_url) as sender:
        assert await sender.states(event.event_id) == [DeliveryState.DELIVERED]
        await sender.delivered((await sender.publish("order.updated", key="order:7")).event_id)
    assert seqs(sink.requests) == [1, 2]


async def test_what_other_processes_publish_is_found(sender, store_url, sink):
    from hooklane import Outbox

    await sender.endpoint(sink.url())
    outbox = Outbox(store_url)

    ours = await sender.publish("order.created", key="order:7")
    theirs = await asyncio.to_thread(outbox.publish, "order.updated", {}, key="order:7")
    last = await sender.publish("order.closed", key="order:7")
    await sender.delivered(ours.event_id, theirs.event_id, last.event_id)

    assert seqs(sink.requests) == [1, 2, 3]


async def test_the_ledger_adds_up(sender, sink):
    sink.react = lambda request: Answer(status=422 if b"poison" in request.body else 200)
    await sender.endpoint(sink.url(), attempts_max=1)

    for n in range(12):
        await sender.publish("order.created", b'"poison"' if n == 4 else b"{}", key=f"order:{n % 3}")
    await sender.publish("order.created")
    await sender.letter()

    ledger = await sender.store.ledger("default")
    assert ledger["accepted"] == sum(ledger[state] for state in DeliveryState) == 13
    assert ledger[DeliveryState.DEAD] == 1
