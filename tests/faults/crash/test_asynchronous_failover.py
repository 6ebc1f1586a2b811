"""A failover to a real asynchronous standby that lost what was sent: it is told, and receivers drop nothing new."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from tests.promises.sending.recovery.wire import OK, Sent, Wire
from tests.support.eventually import eventually
from tests.support.failover import Pair, require, synchronous_pair
from tests.support.running_sender import SECRET

from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.core.fanout import places
from hooklane.errors import StoreError
from hooklane.model.clock import Instant, wall_now
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.model.event import Event
from hooklane.model.lane import DeliveryState
from hooklane.sender.lost import PublishedPlaces
from hooklane.sender.publisher import Publisher
from hooklane.sender.relay import Relay
from hooklane.store.outbox import Draft, Published, StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.store.recovery import AuditFilter
from hooklane.telemetry.deliveries import Happening, Lost

KEPT, LOST = 5, 3


class KeepsOrder:
    """A receiver that applies what is new and in order, and answers 200 to what it holds for an old copy."""

    def __init__(self) -> None:
        self.applied: dict[str, int] = {}
        self.took: list[tuple[str, int, str]] = []

    def react(self, sent: Sent) -> object:
        if sent.key is not None:
            body = json.loads(sent.body)
            turn = whose_turn(seq=body["seq"], prev_seq=body["prev_seq"], applied=self.applied.get(sent.key, 0))
            assert turn is not Turn.EARLY, f"it would wait for ever: {body}"
            if turn is Turn.READY:
                self.applied[sent.key] = body["seq"]
                self.took.append((sent.key, body["seq"], sent.id))
        return OK

    def has(self, *ids: str) -> bool:
        return {id for _, _, id in self.took} >= set(ids)


async def publish(publisher: Publisher, id: str, key: str | None) -> int | None:
    published = await publisher.publish(Draft(Event(id, "order.changed", key, b"{}", wall_now())))
    assert isinstance(published, Published)
    return published.stamps[0].seq


@pytest.mark.timeout(300)
async def test_what_an_asynchronous_standby_lost_is_told_and_its_seqs_are_not_used_again() -> None:
    with synchronous_pair() as pair:
        require(pair.primary, "")
        await _fail_over(pair)


async def _fail_over(pair: Pair) -> None:
    receiver, told = KeepsOrder(), []
    wire = Wire(receiver.react)  # type: ignore[arg-type]

    def listen(happening: Happening) -> None:
        if isinstance(happening, Lost):
            told.append(happening.many)

    store = PostgresOutbox(pair.url(), StoreOptions(placer=places))
    await store.open()
    relay = Relay(store, wire, listener=listen, poll_ms=20)
    publisher = Publisher(store, relay.feed)
    running = asyncio.create_task(relay.run())
    await relay.ready()
    endpoint = Endpoint(id="ep_a", url="https://a.example", created_at=Instant(1), keys=(SigningKey(SECRET),))
    await store.save_endpoint(endpoint, expect=None)
    kept = [f"kept{n}" for n in range(1, KEPT + 1)]
    for id in kept:
        await publish(publisher, id, "a")
    await eventually(lambda: _true(receiver.has(*kept)))
    await asyncio.to_thread(pair.wait_until_followed)

    pair.freeze()
    lost = [f"lost{n}" for n in range(1, LOST + 1)]
    for id in lost:
        await publish(publisher, id, "a")
    await publish(publisher, "lost_lane", "b")
    await publish(publisher, "lost_loose", None)
    await eventually(lambda: _true(receiver.has(*lost, "lost_lane") and wire.sent[-1].id is not None))
    await eventually(lambda: _true("lost_loose" in {one.id for one in wire.sent}))
    await asyncio.to_thread(pair.fail_over)
    # A publisher that remembers nothing may be quicker than those who do.
    stranger = PostgresOutbox(pair.primary.address.url(), StoreOptions(placer=places))
    await asyncio.to_thread(require, pair.primary, "")
    await stranger.open()
    await publish(Publisher(stranger), "stranger", "a")
    await eventually(lambda: _true(sum(told) >= LOST + 2), within_s=60)
    seq = await publish(publisher, "next", "a")
    await publish(publisher, "next_b", "b")

    await eventually(lambda: _true(receiver.has("stranger", "next", "next_b")), within_s=60)
    assert seq is not None
    assert seq > KEPT + LOST
    assert [id for key, _, id in receiver.took if key == "a"] == [*kept, *lost, "stranger", "next"]
    assert [(seq, id) for key, seq, id in receiver.took if key == "b"] == [(1, "lost_lane"), (2, "next_b")]
    lines = (await store.audit("default", AuditFilter(action="lane.jumped"), None, 50)).items
    named = " ".join(f"{one.act.subject}: {one.act.note}" for one in lines)
    for id in (*lost, "lost_lane", "lost_loose"):
        assert id in named, f"nothing tells of {id}: {named}"

    async def balanced() -> bool:
        ledger = await store.ledger("default")
        return ledger[DeliveryState.QUEUED] == 0 and all(one.is_balanced for one in await store.check_ledger())

    await eventually(balanced)
    assert (await store.ledger("default"))[DeliveryState.SKIPPED] == LOST + 1
    relay.stop()
    await running
    await publisher.close()
    await stranger.close()
    await store.close()


@pytest.mark.timeout(300)
async def test_a_server_that_only_answers_calls_tells_of_what_it_had_acknowledged_and_the_database_lost() -> None:
    with synchronous_pair() as pair:
        require(pair.primary, "")
        store = PostgresOutbox(pair.url(), StoreOptions(placer=places))
        await store.open()
        endpoint = Endpoint(id="ep_a", url="https://a.example", created_at=Instant(1), keys=(SigningKey(SECRET),))
        await store.save_endpoint(endpoint, expect=None)
        told: list[Happening] = []
        memory = PublishedPlaces(store, told.append, None)
        publisher = Publisher(store, memory.feed)
        await publish(publisher, "kept", "a")
        await asyncio.to_thread(pair.wait_until_followed)
        pair.freeze()
        await publish(publisher, "lost1", "a")

        await asyncio.to_thread(pair.fail_over)
        await asyncio.to_thread(require, pair.primary, "")

        async def has_told() -> bool:
            with contextlib.suppress(StoreError):
                await store.tenants_since(0)  # as every server does now and then; a new connection tells where it leads
                await memory.look()
            return bool(told)

        await eventually(has_told, within_s=60)
        assert [Lost(1)] == told
        assert await publish(publisher, "next", "a") == 3
        await publisher.close()
        await store.close()


async def _true(what: bool) -> bool:
    return what
