"""Who else is in a simulated world? Publishers, who repeat what they are unsure of, and operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint, EndpointState, OnDead, Order, Payload
from hooklane.model.event import Event
from hooklane.store.memory.outbox.tables import Ending
from hooklane.store.outbox import Draft, PublishReport
from hooklane.testing.sim.network import Kind, Network, Receiver
from hooklane.testing.sim.shell import Shell
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import T0, World

TYPES = ("order.created", "order.paid", "user.created")
BATCH_MAX = 24


class Publishers:
    """Clients that publish through a worker's process, or past all of them, until *events* were accepted.

    The part *aimed* of them names one endpoint each; the others go to all whose filter lets them pass. From one publish
    of a client to its next *every_ms* pass in the mean.
    """

    def __init__(
        self,
        world: World,
        store: SimStore,
        workers: Callable[[], Sequence[Shell]],
        events: int,
        keys: int,
        aimed: float = 0.0,
        every_ms: float = 400.0,
    ) -> None:
        self.world = world
        self.store = store
        self.workers = workers
        self.left = events
        self.waiting = 0
        self._keys = keys
        self._aimed = aimed
        self._every_ms = every_ms
        self._count = 0
        for _ in range(4):
            self._publish()

    @property
    def is_done(self) -> bool:
        return self.left <= 0 and self.waiting == 0

    def _publish(self) -> None:
        if self.left <= 0:
            return
        many = min(self.left, self.world.chance.randint(1, BATCH_MAX))
        self.left -= many
        drafts = [self._draft() for _ in range(many)]
        self.waiting += 1
        self._submit(drafts)
        self.world.after(self.world.chance.expovariate(1.0 / self._every_ms), self._publish)

    def _draft(self) -> Draft:
        self._count += 1
        chance = self.world.chance
        key = None if chance.random() < 0.05 else f"key-{int(chance.random() ** 2 * self._keys)}"
        event_id = f"evt_{self._count}"
        at = Instant(T0 + int(self.world.now))
        event = Event(event_id, chance.choice(TYPES), key, b'{"n":%d}' % self._count, at)
        asked = (chance.choice(self._takers()),) if self._aimed and chance.random() < self._aimed else None
        return Draft(event, asked, (f"id:{event_id}",), event.data)

    def _takers(self) -> list[str]:
        return [one.id for one in self.store.tables.endpoints.values() if not one.state.is_deleted]

    def _submit(self, drafts: list[Draft]) -> None:
        """Through some process, which feeds its own engine; a client that hears nothing tries again elsewhere."""
        workers = self.workers()
        door = self.world.chance.choice(workers) if workers and self.world.roll() < 0.7 else None

        def ok(report: PublishReport) -> None:
            if door is not None:
                door.do(door.feed, report)
            self.waiting -= 1

        def again() -> None:
            self.world.after(30.0, self._submit, drafts)

        self.store.call(lambda: self.store.publish(drafts), ok, again)


def settle_in(world: World, store: SimStore, network: Network) -> None:
    """Endpoints of every kind and rule, some of them more than once."""
    chance = world.chance
    kinds = list(Kind)
    for number in range(len(kinds) + chance.randrange(3)):
        kind = kinds[number] if number < len(kinds) else chance.choice(kinds)
        types = ((), ("order.*",), ("user.created",), ("*.created",))[number % 4] if chance.random() < 0.8 else ()
        order = chance.choices((Order.KEY, Order.NONE, Order.GLOBAL), (8, 1, 0.5))[0]
        add_endpoint(
            store,
            network,
            kind,
            id=f"ep_{number}",
            types=types or (chance.choice(TYPES),),
            order=order,
            on_dead=OnDead.SKIP if chance.random() < 0.2 else OnDead.BLOCK,
            payload=Payload.RAW if chance.random() < 0.1 else Payload.ENVELOPE,
            rate_limit=400.0 if chance.random() < 0.1 else None,
            in_flight_max=chance.choice((2, 16, 64)),
            attempts_max=chance.choice((3, 5, 8)),
        )


def add_endpoint(store: SimStore, network: Network, kind: Kind, **rules: object) -> Endpoint:
    plain: dict[str, object] = {"timeout_ms": 400, "backoff_ms": 40, "backoff_cap_ms": 400, "attempts_max": 5}
    endpoint = Endpoint(url="https://x.example/", created_at=Instant(T0), **{**plain, **rules})  # type: ignore[arg-type]
    store.change(endpoint, None)
    network.receivers[endpoint.id] = Receiver(store.world, kind)
    return endpoint


class Operators:
    """People who replay, skip, pause, resume and delete; in calm weather they only tidy up."""

    def __init__(self, world: World, store: SimStore, network: Network, workers: Callable[[], Sequence[Shell]]) -> None:
        self.world = world
        self.store = store
        self.network = network
        self.workers = workers
        self._deleted = False
        if world.faults.operate_every_ms:
            world.after(100.0, self._act)

    def _act(self) -> None:
        world = self.world
        self.world.after(world.faults.operate_every_ms * (0.5 + world.roll()), self._act)
        self._recover()
        self._resume()
        if world.faults.sick and world.roll() < world.faults.operate_every_ms / 1_500:
            self._pause()
        if world.faults.sick and not self._deleted and world.roll() < world.faults.operate_every_ms / 15_000:
            self._delete()

    def _recover(self) -> None:
        chance = self.world.chance
        for dead_row in list(self.store.tables.dead_letters.values()):
            if dead_row.ending is not Ending.DEAD or chance.random() < 0.3:
                continue
            lane = self.store.tables.lanes[dead_row.lane_id]
            self.network.receivers[lane.endpoint_id].resync(lane.id, dead_row.seq)
            if chance.random() < 0.6:
                self.store.replay(dead_row.id)
            else:
                self.store.skip(dead_row.id)
            for worker in self.workers():
                if chance.random() < 0.5:
                    worker.do(worker.wake, [lane.id])

    def _resume(self) -> None:
        for endpoint in list(self.store.tables.endpoints.values()):
            if endpoint.state.is_held and self.world.roll() < 0.3:
                self.store.change(replace(endpoint, state=EndpointState.ACTIVE), endpoint)
                self.world.counts["resumed"] += 1

    def _pause(self) -> None:
        endpoint = self.world.chance.choice(list(self.store.tables.endpoints.values()))
        if endpoint.state is EndpointState.ACTIVE:
            self.store.change(replace(endpoint, state=EndpointState.PAUSED), endpoint)
            self.world.counts["paused"] += 1

    def _delete(self) -> None:
        endpoint = self.world.chance.choice(list(self.store.tables.endpoints.values()))
        if endpoint.state is EndpointState.ACTIVE:
            self._deleted = True
            way = self.world.chance.choice((EndpointState.DRAINING, EndpointState.CANCELLING))
            self.store.change(replace(endpoint, state=way), endpoint)
            self.world.counts["deleted"] += 1
