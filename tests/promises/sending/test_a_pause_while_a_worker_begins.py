"""An answered pause holds also where the worker of that server was still reading its lanes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.eventually import eventually
from tests.support.pace import scaled_s
from tests.support.running_sender import SECRET

from hooklane.core.fanout import places
from hooklane.model.clock import wall_now
from hooklane.model.endpoint import Endpoint, EndpointState, SigningKey
from hooklane.model.event import Event
from hooklane.sender import relay as relay_module
from hooklane.sender.relay import Relay
from hooklane.store.memory.outbox import MemoryOutbox
from hooklane.store.outbox import Draft, Load, StoreOptions

ENDPOINT = Endpoint(id="ep_1", url="https://example.test/", created_at=wall_now(), keys=(SigningKey(SECRET),))


class SlowToTell(MemoryOutbox):
    """What it has loaded is on its way until it is let go."""

    def __init__(self) -> None:
        super().__init__(StoreOptions(placer=places))
        self.has_read, self.goes_on = asyncio.Event(), asyncio.Event()

    async def load(self, *args: Any) -> Load:  # type: ignore[override]
        loaded = await super().load(*args)
        self.has_read.set()
        await self.goes_on.wait()
        return loaded


class Post:
    """Counts what it is given to send."""

    connections_max = 64
    sent = 0

    def send(self, *_: object) -> None:
        self.sent += 1

    async def close(self, grace_ms: int) -> None:
        pass


async def test_what_is_published_after_a_pause_that_a_beginning_worker_has_not_read_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_module, "HEARD_WAIT_S", scaled_s(10))
    store, post = SlowToTell(), Post()
    await store.save_endpoint(ENDPOINT, expect=None)
    relay = Relay(store, post)
    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(scaled_s(20)):
        await store.has_read.wait()
        assert await store.save_endpoint(replace(ENDPOINT, state=EndpointState.PAUSED), expect=ENDPOINT)
        answered = asyncio.create_task(relay.heard())
        await asyncio.wait([answered], timeout=0.05)
        was_answered = answered.done()
        store.goes_on.set()
        await answered
        relay.feed(await store.publish([Draft(Event("evt_1", "a.b", "k", b"{}", wall_now()))]))
        queue = await eventually(lambda: asyncio.sleep(0, relay.engine.queues.get("ep_1")))
        relay.stop()
        await running

    assert (was_answered, post.sent, queue.endpoint.state) == (False, 0, EndpointState.PAUSED)
