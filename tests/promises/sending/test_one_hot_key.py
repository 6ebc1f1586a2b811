"""One hot key: the next event goes out as soon as the ack of the one before is durable, and waits for nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from tests.support.pace import scaled_s
from tests.support.running_sender import SECRET

from hooklane.core.fanout import places
from hooklane.model.clock import wall_now
from hooklane.model.endpoint import Endpoint, SigningKey
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Result, Timings
from hooklane.sender.relay import Relay
from hooklane.store.outbox import Draft, StoreOptions
from hooklane.store.sqlite.outbox import SqliteOutbox
from hooklane.telemetry.deliveries import Happening, Recorded, Sent


class Post:
    """Carries what it is given and answers when told to; notes what was carried, and what the listener was told."""

    connections_max = 64

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.carried: asyncio.Queue[Callable[[Result], None]] = asyncio.Queue()
        self.recorded = asyncio.Semaphore(0)

    def listen(self, happening: Happening) -> None:
        match happening:
            case Sent(sends=sends):
                self.notes += [f"told that {send.event.id} was sent" for send in sends]
            case Recorded(settlements=settlements):
                self.notes += [f"told that {one.send.event.id} is durable" for one in settlements]
                for _ in settlements:
                    self.recorded.release()

    def send(self, target: object, headers: bytes, body: bytes, done: Callable[[Result], None]) -> None:
        self.notes.append("carried")
        self.carried.put_nowait(done)

    async def next(self) -> Callable[[Result], None]:
        async with asyncio.timeout(scaled_s(10)):
            return await self.carried.get()

    async def close(self, grace_ms: int) -> None:
        pass


@pytest.fixture
async def post() -> Post:
    return Post()


@pytest.fixture
async def relay(tmp_path, post: Post) -> AsyncIterator[Relay]:
    store = SqliteOutbox(str(tmp_path / "outbox.db"), StoreOptions(placer=places))
    await store.open()
    now = wall_now()
    endpoint = Endpoint(id="ep_1", url="https://example.test/", created_at=now, keys=(SigningKey(SECRET),))
    await store.save_endpoint(endpoint, expect=None)
    relay = Relay(store, post, listener=post.listen)
    running = asyncio.create_task(relay.run())
    await relay.ready()
    relay.feed(await store.publish([Draft(Event(f"evt_{n}", "a.b", "hot", b"{}", now)) for n in (1, 2)]))
    yield relay
    relay.stop()
    await running
    await store.close()


async def test_the_next_event_goes_out_before_people_are_told_of_the_last(relay: Relay, post: Post) -> None:
    for _ in (1, 2):
        (await post.next())(Answer(200, Timings(0.1)))
    async with asyncio.timeout(scaled_s(10)):
        for _ in (1, 2):
            await post.recorded.acquire()

    assert post.notes == [
        "carried",
        "told that evt_1 was sent",
        "carried",
        "told that evt_1 is durable",
        "told that evt_2 was sent",
        "told that evt_2 is durable",
    ]


async def test_the_commit_of_the_only_answer_is_asked_for_at_once(relay: Relay, post: Post) -> None:
    done = await post.next()
    assert relay.worker.writing.is_idle

    done(Answer(200, Timings(0.1)))

    assert not relay.worker.writing.is_idle, "without a further round of the loop"
    assert post.carried.empty(), "and nothing follows from it before it is durable"
    (await post.next())(Answer(200, Timings(0.1)))
