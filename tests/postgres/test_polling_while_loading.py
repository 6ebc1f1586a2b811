"""A poll that runs beside a load must not skip what the loaded partitions grew by in between."""

import asyncio
from collections.abc import Mapping, Sequence

from hooklane.core.engine import EndpointChanged, Engine, Loaded
from hooklane.core.engine.inputs import Input
from hooklane.core.fanout import places
from hooklane.model.clock import Instant
from hooklane.sender.ownership import Ownership
from hooklane.store.outbox import Load, StoreOptions
from hooklane.store.postgres.outbox import PostgresOutbox
from hooklane.testing.conformance_outbox.kit import event, published


class Slow(PostgresOutbox):
    """A store whose loads are read at once and arrive when they are let."""

    read, arrive = asyncio.Event(), asyncio.Event()

    async def load(self, worker: str, epochs: Mapping[int, int]) -> Load:
        load = await super().load(worker, epochs)
        self.read.set()
        await self.arrive.wait()
        return load


class Listener:
    """Whoever is told, and has no use for it."""

    engine = Engine()

    def set_time(self, store_now: Instant) -> None: ...
    def now(self) -> Instant:
        return Instant(0)

    def put(self, *inputs: Input) -> None: ...
    def loaded(self, inputs: Sequence[Loaded | EndpointChanged]) -> None: ...
    def lease(self, until: Instant, share: float) -> None: ...
    def drop(self, pids: frozenset[int]) -> None: ...


async def test_news_of_a_partition_between_its_load_and_a_poll_is_told(
    store: PostgresOutbox, postgres_url: str
) -> None:
    slow = Slow(postgres_url, StoreOptions(placer=places))
    slow.read, slow.arrive = asyncio.Event(), asyncio.Event()
    slow.arrive.set()
    await slow.open()
    # Another worker holds half, so that there is something to load later.
    await store.join("other", 60_000)
    held = [one.pid for one in await store.acquire("other", 128)]
    own = Ownership(slow, Listener(), 60_000)
    await own.begin()
    await store.leave("other")
    assert await own.poll() is not None

    slow.read.clear()
    slow.arrive.clear()
    loading = asyncio.create_task(own._balance())
    await slow.read.wait()
    pids = set()
    for n in range(40):
        pids |= {one.pid for one in (await published(store, event(f"e{n}", f"k{n}"))).grown}
    await own.poll()
    slow.arrive.set()
    await loading
    news = await own.poll()
    await slow.close()

    assert pids & set(held), "no event fell into the partitions that were loaded"
    assert news is not None
    assert pids & set(held) <= {one.pid for one in news.grown}


async def test_a_poll_alone_is_told_once(store: PostgresOutbox) -> None:
    own = Ownership(store, Listener(), 60_000)
    await own.begin()
    await published(store, event("e1", "k"))
    first = await own.poll()
    again = await own.poll()

    assert first is not None
    assert again is not None
    assert (len(first.grown), len(again.grown)) == (1, 0)
