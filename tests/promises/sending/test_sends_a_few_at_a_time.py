"""Deliveries go out a few at a time: what came in meanwhile is looked at, and a lost lease stops the rest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest
from tests.support.pace import scaled_s
from tests.support.running_sender import SECRET

from hooklane.core.fanout import places
from hooklane.core.worker.sending import SENDS_AT_ONCE
from hooklane.model.clock import FOREVER, START, wall_now
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Result, Timings
from hooklane.model.lane import PARTITIONS
from hooklane.sender.relay import Relay
from hooklane.store.outbox import Draft, StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.telemetry.deliveries import Happening, Recorded

MANY = 3 * SENDS_AT_ONCE


class Post:
    """Carries what it is given at once, lets the test look after each request, and hears what came of them."""

    connections_max = 64

    def __init__(self) -> None:
        self.sent = 0
        self.look: Callable[[], None] = lambda: None
        self._news: asyncio.Queue[Happening] = asyncio.Queue()
        self._recorded = 0

    def listen(self, happening: Happening) -> None:
        self._news.put_nowait(happening)

    async def recorded(self, many: int) -> None:
        """Until so many deliveries are durable."""
        async with asyncio.timeout(scaled_s(10)):
            while self._recorded < many:
                match await self._news.get():
                    case Recorded(settlements=settlements):
                        self._recorded += len(settlements)

    def send(self, target: object, headers: bytes, body: bytes, done: Callable[[Result], None]) -> None:
        self.sent += 1
        asyncio.get_running_loop().call_soon(done, Answer(200, Timings(0.1)))
        self.look()

    async def close(self, grace_ms: int) -> None:
        pass


@pytest.fixture
async def post() -> Post:
    return Post()


@pytest.fixture
async def store(tmp_path) -> AsyncIterator[SqliteOutbox]:
    store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
    await store.open()
    now = wall_now()
    endpoint = Endpoint(id="ep_1", url="https://example.test/", created_at=now, keys=(SigningKey(SECRET),))
    await store.save_endpoint(endpoint, expect=None)
    yield store
    await store.close()


@pytest.fixture
async def relay(store: SqliteOutbox, post: Post) -> AsyncIterator[Relay]:
    relay = Relay(store, post, listener=post.listen)
    running = asyncio.create_task(relay.run())
    await relay.ready()
    yield relay
    relay.stop()
    await running


async def publish(store: SqliteOutbox, relay: Relay) -> None:
    now = wall_now()
    relay.feed(await store.publish([Draft(Event(f"evt_{n}", "a.b", f"k{n}", b"{}", now)) for n in range(MANY)]))


async def test_what_waits_in_the_loop_gets_its_turn_between_sends(store, relay, post):
    seen_at: list[int] = []

    def turn() -> None:
        seen_at.append(post.sent)
        if post.sent < MANY:
            asyncio.get_running_loop().call_soon(turn)

    await publish(store, relay)
    turn()
    await post.recorded(MANY)

    steps = [after - before for before, after in pairwise(seen_at)]
    assert max(steps) == SENDS_AT_ONCE


async def test_what_waits_to_be_sent_is_held_back_once_the_lease_is_over(store, relay, post):
    def lose() -> None:
        if post.sent == 1:
            relay.worker.state.lease_until = START

    post.look = lose
    await publish(store, relay)
    await post.recorded(SENDS_AT_ONCE)
    held = post.sent

    relay.worker.state.lease_until = FOREVER
    relay.put()
    await post.recorded(MANY)

    assert held == SENDS_AT_ONCE
    assert post.sent == MANY


async def test_what_waits_to_be_sent_goes_with_its_partition(store, relay, post):
    def lose() -> None:
        if post.sent == 1:
            relay.worker.ownership._drop(frozenset(range(PARTITIONS)))

    post.look = lose
    await publish(store, relay)
    for _ in range(MANY):
        await asyncio.sleep(0)

    assert post.sent == SENDS_AT_ONCE
