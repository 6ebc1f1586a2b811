"""The whole sender in one process, over real HTTP: store, publisher, relay and transport, put together for a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.support.pace import scaled_s

from hooklane.core.fanout import places
from hooklane.core.signing import new_secret
from hooklane.model.attempt import Settlement
from hooklane.model.clock import wall_now
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.model.ids import new_id
from hooklane.model.lane import DeliveryState
from hooklane.sender.draft import draft_of
from hooklane.sender.egress import EgressGuard
from hooklane.sender.publisher import Publisher
from hooklane.sender.relay import Relay
from hooklane.sender.transport import Transport
from hooklane.store.open import Outbox, outbox_store
from hooklane.store.outbox import Published, Refused, StoreOptions
from hooklane.store.reads import LetterFilter
from hooklane.telemetry.deliveries import Happening, Recorded

SECRET = new_secret(b"a secret of thirty-two bytes....")
WITHIN_S = 60.0


class RunningSender:
    """A running sender; what its relay records can be awaited."""

    def __init__(self, store: Outbox, relay: Relay, publisher: Publisher) -> None:
        self.store = store
        self.relay = relay
        self.publisher = publisher
        self.settled: list[Settlement] = []
        self._changed = asyncio.Condition()

    def listen(self, happening: Happening) -> None:
        if isinstance(happening, Recorded):
            self.settled.extend(happening.settlements)

    async def endpoint(self, url: str, **options: Any) -> Endpoint:
        """A new endpoint, quick to retry unless told otherwise."""
        quick = {"backoff_ms": 40, "backoff_cap_ms": 400, "timeout_ms": 2_000, **options}
        one = Endpoint(id=new_id("ep", wall_now()), url=url, created_at=wall_now(), keys=(SigningKey(SECRET),), **quick)
        assert await self.store.save_endpoint(one, expect=None)
        self.relay.nudge()
        return one

    async def change(self, endpoint: Endpoint, new: Endpoint) -> Endpoint:
        assert await self.store.save_endpoint(new, expect=endpoint)
        self.relay.nudge()
        return new

    async def publish(self, type_: str, data: bytes = b"{}", **options: Any) -> Published:
        result = await self.publisher.publish(draft_of(type_, data, now=wall_now(), **options))
        assert not isinstance(result, Refused), result
        return result

    async def until(self, holds: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
        """What *holds* returns as soon as it is true or awaited to be; asked after each turn of the loop."""
        async with asyncio.timeout(scaled_s(within_s)):
            while True:
                value = holds()
                if asyncio.iscoroutine(value):
                    value = await value
                if value:
                    return value
                await asyncio.sleep(0.005)

    async def states(self, *event_ids: str) -> list[DeliveryState]:
        found = await self.store.deliveries("default", event_ids)
        return [delivery.state for event_id in event_ids for delivery in found[event_id]]

    async def delivered(self, *event_ids: str) -> None:
        async def all_there() -> bool:
            return {*await self.states(*event_ids)} == {DeliveryState.DELIVERED}

        await self.until(all_there)

    async def letter(self) -> Any:
        """The oldest dead letter, once there is one."""

        async def first() -> Any:
            page = await self.store.dead_letters("default", LetterFilter(), None, 1)
            return page.items[0] if page.items else None

        return await self.until(first)


@contextlib.asynccontextmanager
async def running_sender(url: str, **options: Any) -> AsyncIterator[RunningSender]:
    """A sender on the store at *url*, stopped in good order at the end."""
    store = outbox_store(url, StoreOptions(placer=places))
    await store.open()
    transport = Transport(EgressGuard(allow=("127.0.0.0/8", "::1/128")))
    told: list[RunningSender] = []
    options = {"poll_ms": 50, **options}
    relay = Relay(store, transport, listener=lambda happening: told[0].listen(happening), **options)
    one = RunningSender(store, relay, Publisher(store, relay.feed))
    told.append(one)
    running = asyncio.create_task(relay.run())
    try:
        ready = asyncio.create_task(relay.ready())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if running.done():
            await running
        yield one
    finally:
        relay.stop()
        await running
        await one.publisher.close()
        await transport.close(0)
        await store.close()
