"""S9: endpoints are paused, changed, limited, rotated and deleted, and nothing is lost by it. Over real HTTP."""

from __future__ import annotations

import asyncio
import base64
from contextlib import AsyncExitStack
from dataclasses import replace
from threading import Event as Flag
from threading import Lock

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError
from tests.promises.sending.town import peak
from tests.support.pace import scaled_ms, scaled_s
from tests.support.receiver import Answer, Sink
from tests.support.running_sender import SECRET, running_sender

from hooklane import Outbox
from hooklane.core.signing import new_key_pair, new_secret
from hooklane.model.clock import Instant, wall_now
from hooklane.model.endpoint import EndpointState, SigningKey
from hooklane.model.lane import DeliveryState

ACTIVE, PAUSED = EndpointState.ACTIVE, EndpointState.PAUSED
CANCELLED, DELIVERED, QUEUED = DeliveryState.CANCELLED, DeliveryState.DELIVERED, DeliveryState.QUEUED
NEW_SECRET = new_secret(b"another secret of 32 bytes......")


def seqs(requests):
    return [int(one.headers["x-seq"]) for one in requests]


async def known(sender, endpoint):
    """Until the relay works by the rules of *endpoint*."""
    await sender.until(lambda: sender.relay.engine.queues[endpoint.id].endpoint == endpoint)


async def test_s9_the_in_flight_cap_is_never_exceeded(sender, sink):
    in_flight = most = 0
    guard = Lock()

    def react(request):
        nonlocal in_flight, most
        with guard:
            in_flight += 1
            most = max(most, in_flight)
        Flag().wait(0.01)
        with guard:
            in_flight -= 1
        return Answer()

    sink.react = react
    await sender.endpoint(sink.url(), in_flight_max=3)

    events = [await sender.publish("order.created", key=f"order:{n}") for n in range(40)]
    await sender.delivered(*(one.event_id for one in events))

    assert most == 3


def sent_at(*workers):
    """When each request was begun, in ms: a receiver that stands still sees those of that moment at once."""
    return sorted(one.send.at for worker in workers for one in worker.settled)


async def test_s9_a_rate_limit_is_kept_evenly(sender, sink):
    await sender.endpoint(sink.url(), rate_limit=40.0)

    events = [await sender.publish("order.created", key=f"order:{n}") for n in range(60)]
    await sender.delivered(*(one.event_id for one in events))

    times = sent_at(sender)
    took_s = (times[-1] - times[0]) / 1000
    print(f"{len(times) / took_s:.1f}/s, peak {peak(times)}/s of 40/s")
    assert peak(times) <= 1.1 * 40
    assert took_s <= scaled_s(60 / 40 * 1.5)  # and it is used


async def test_s9_a_rate_limit_holds_over_all_workers_together(postgres_url, sink):
    lease_ms = scaled_ms(900)  # a machine that is busy renews late
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(running_sender(postgres_url, lease_ms=lease_ms))
        second = await stack.enter_async_context(running_sender(postgres_url, lease_ms=lease_ms))
        workers = (first, second)
        await first.until(lambda: {len(one.relay.engine.epochs) for one in workers} == {128})
        endpoint = await first.endpoint(sink.url(), rate_limit=50.0, in_flight_max=20)
        await second.until(lambda: endpoint.id in second.relay.engine.queues)

        events = [await first.publish("order.created", key=f"order:{n}") for n in range(150)]
        await first.delivered(*(one.event_id for one in events))
        sent_by = [len(one.settled) for one in workers]

    times = sent_at(*workers)
    print(f"peak {peak(times)}/s of 50/s, by worker {sent_by}")
    assert min(sent_by) > 30
    assert peak(times) <= 1.1 * 50
    assert len(sink.requests) == 150


async def test_s9_a_pause_holds_everything_and_a_resume_sends_it_in_order(sender, sink):
    endpoint = await sender.endpoint(sink.url())
    paused = await sender.change(endpoint, replace(endpoint, state=PAUSED))
    await sender.until(lambda: endpoint.id in sender.relay.engine.queues)
    await known(sender, paused)

    events = [await sender.publish("order.created", key=f"order:{n % 2}") for n in range(6)]
    loose = await sender.publish("order.created")
    held = await sender.states(*(one.event_id for one in events), loose.event_id)
    arrived = len(sink.requests)
    await sender.change(paused, endpoint)
    await sender.delivered(*(one.event_id for one in events), loose.event_id)

    assert (held, arrived) == ([QUEUED] * 7, 0)
    ordered = [one for one in sink.requests if "x-key" in one.headers]
    for key in ("order:0", "order:1"):
        assert seqs(one for one in ordered if one.headers["x-key"] == key) == [1, 2, 3]


async def test_s9_while_a_rotated_secret_lives_both_sign_and_then_only_the_new_one(sender, sink):
    endpoint = await sender.endpoint(sink.url())
    ends = Instant(wall_now() + scaled_ms(1_500))
    rotated = replace(endpoint, keys=(SigningKey(NEW_SECRET), SigningKey(SECRET, ends)))
    await sender.change(endpoint, rotated)
    await sender.until(lambda: endpoint.id in sender.relay.engine.queues)
    await known(sender, rotated)

    await sender.delivered((await sender.publish("order.created", key="k")).event_id)
    await sender.until(lambda: wall_now() > ends)
    await sender.delivered((await sender.publish("order.updated", key="k")).event_id)

    during, after = sink.requests
    assert len(during.headers["webhook-signature"].split(" ")) == 2
    for secret in (SECRET, NEW_SECRET):
        Webhook(secret).verify(during.body, dict(during.headers))
    Webhook(NEW_SECRET).verify(after.body, dict(after.headers))
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(after.body, dict(after.headers))


async def test_s9_a_key_pair_signs_and_its_public_half_verifies(sender, sink):
    pair = new_key_pair(b"thirty-two bytes of pure chance!")
    endpoint = await sender.endpoint(sink.url())
    paired = await sender.change(endpoint, replace(endpoint, keys=(SigningKey(pair.private),)))
    await sender.until(lambda: endpoint.id in sender.relay.engine.queues)
    await known(sender, paired)

    await sender.delivered((await sender.publish("order.created", key="k")).event_id)

    (request,) = sink.requests
    assert request.headers["webhook-signature"].startswith("v1a,")
    verify_with_public_half(pair.public, request)


def verify_with_public_half(public, request):
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    headers = request.headers
    signature = base64.b64decode(headers["webhook-signature"].removeprefix("v1a,"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    key.verify(signature, signed)  # raises when it does not fit


async def test_s9_what_is_in_flight_ends_by_the_old_rules_and_the_next_goes_by_the_new(sender, sink):
    """F39."""
    answer_now = Flag()
    sink.react = lambda request: Answer(once=answer_now) if request.path == "/old" else Answer()
    endpoint = await sender.endpoint(sink.url("/old"), timeout_ms=10_000)
    first = await sender.publish("order.created", key="order:7")
    second = await sender.publish("order.updated", key="order:7")
    await sink.arrived(1)

    moved = await sender.change(endpoint, replace(endpoint, url=sink.url("/new"), headers=(("X-Team", "blue"),)))
    await known(sender, moved)
    answer_now.set()
    await sender.delivered(first.event_id, second.event_id)

    assert [(one.path, one.headers.get("x-team")) for one in sink.requests] == [("/old", None), ("/new", "blue")]
    assert seqs(sink.requests) == [1, 2]


async def test_s9_deleted_with_drain_is_delivered_and_takes_nothing_new(sender, sink):
    sink.follow([Answer(status=503)])
    endpoint = await sender.endpoint(sink.url(), backoff_ms=200)
    events = [await sender.publish("order.created", key="order:7") for _ in range(3)]
    await sink.arrived(1)

    await sender.change(endpoint, replace(endpoint, state=EndpointState.DRAINING))
    late = await sender.publish("order.created", key="order:7")
    await sender.delivered(*(one.event_id for one in events))

    assert late.stamps == ()
    assert seqs(sink.requests) == [1, 1, 2, 3]


async def test_s9_deleted_with_cancel_ends_what_is_owed_and_lets_what_is_in_flight_land(sender, sink):
    answer_now = Flag()
    sink.react = lambda request: Answer(once=answer_now)
    endpoint = await sender.endpoint(sink.url(), timeout_ms=10_000)
    events = [await sender.publish("order.created", key="order:7") for _ in range(3)]
    other = await sender.publish("order.created", key="order:8")
    loose = await sender.publish("order.created")
    await sink.arrived(3)

    gone = await sender.change(endpoint, replace(endpoint, state=EndpointState.CANCELLING))
    await known(sender, gone)
    answer_now.set()

    async def settled():
        states = await sender.states(*(one.event_id for one in (*events, other, loose)))
        return states == [DELIVERED, CANCELLED, CANCELLED, DELIVERED, DELIVERED]

    await sender.until(settled)
    assert len(sink.requests) == 3


@pytest.mark.parametrize(
    ("state", "outcome"), [(EndpointState.CANCELLING, CANCELLED), (EndpointState.DRAINING, DELIVERED)]
)
async def test_s9_a_transaction_that_commits_after_the_delete_is_drained_or_cancelled_too(
    postgres_url, sink, state, outcome
):
    """It read the endpoint while that was alive, so that its events have a place there."""
    async with running_sender(postgres_url) as sender:
        endpoint = await sender.endpoint(sink.url())
        outbox = Outbox(postgres_url)
        with psycopg.connect(postgres_url) as conn:
            late = await asyncio.to_thread(outbox.publish, "order.created", {}, key="order:7", tx=conn)
            loose = await asyncio.to_thread(outbox.publish, "order.created", {}, tx=conn)
            gone = await sender.change(endpoint, replace(endpoint, state=state))
            await sender.until(lambda: endpoint.id in sender.relay.engine.queues)
            await known(sender, gone)
            await asyncio.to_thread(conn.commit)

        async def settled():
            return await sender.states(late.event_id, loose.event_id) == [outcome, outcome]

        await sender.until(settled)
        assert len(sink.requests) == (0 if outcome is CANCELLED else 2)


async def test_s9_a_410_disables_and_a_resume_sends_all_that_was_held(sender, sink):
    sink.follow([Answer(status=410)])
    endpoint = await sender.endpoint(sink.url())
    events = [await sender.publish("order.created", key=f"order:{n}") for n in range(1)]
    await sender.until(lambda: sender.settled)
    events += [await sender.publish("order.created", key=f"order:{n}") for n in range(5)]
    (disabled,) = await sender.store.endpoints()
    held = len(sink.requests)
    await sender.change(disabled, replace(disabled, state=ACTIVE))
    await sender.delivered(*(one.event_id for one in events))

    assert (disabled.id, disabled.state, held) == (endpoint.id, EndpointState.DISABLED, 1)
    assert len(sink.requests) == 1 + 6


async def test_s9_each_endpoint_gets_what_its_filter_lets_through(sender):
    with Sink() as orders, Sink() as everything, Sink() as asked:
        await sender.endpoint(orders.url(), types=("order.*",))
        await sender.endpoint(everything.url())
        named = await sender.endpoint(asked.url(), types=("nothing.at.all",))

        events = [await sender.publish(type_, key="k") for type_ in ("order.created", "user.left", "order.paid")]
        events.append(await sender.publish("user.left", key="k", endpoints=(named.id,)))
        await sender.delivered(*(one.event_id for one in events))

        assert [len(one.requests) for one in (orders, everything, asked)] == [2, 3, 1]
        assert seqs(orders.requests) == [1, 2]
        assert seqs(everything.requests) == [1, 2, 3]
