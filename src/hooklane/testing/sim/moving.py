"""Past one primary: each tenant lives in one of two clusters, and one after the other moves, while everything crashes.

    close (nothing is published there, its endpoints are held) -> drain -> copy, under a fence -> switch -> open
    -> clean -> rest (until each fenced worker has joined anew)

Each step may be done twice, and the last one that is done is on record: a mover that crashes goes on where it was. The
clusters know nothing of each other. What receivers see says whether order and at-least-once have held across the moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.core.engine import Engine
from hooklane.model.attempt import Delivered, Send, Settlement, Write
from hooklane.model.clock import FOREVER, START, Instant
from hooklane.model.endpoint import Endpoint, EndpointState
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Timings
from hooklane.model.tenant import Tenant
from hooklane.store.memory.outbox.tables import Lane
from hooklane.store.outbox import CommitReport, Draft, Lease, PublishReport, Refused
from hooklane.testing.sim.faults import NONE, Faults
from hooklane.testing.sim.losing import Unwatched
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.process import Process
from hooklane.testing.sim.run import Report
from hooklane.testing.sim.shell import LEASE_MS, Shell
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import T0, World

TENANTS, KEYS = 4, 3
WORKERS = 2
TIMEOUT_MS = 400
OK = Answer(200, Timings(1.0))
MOVING = replace(
    NONE, store_unknown=0.03, store_crash_every_ms=2_500, crash_every_ms=500, reply_lost=0.02, turn_broken=0.001
)

Where = tuple[str, str]
"""Endpoint and key."""


@dataclass
class Move:
    """What is on record of a move: the next step to be done."""

    tenant: str
    source: Cluster
    target: Cluster
    step: str = "close"


@dataclass
class Router:
    """Which cluster a tenant lives in: what every server reads, and may know a little late."""

    homes: dict[str, Cluster] = field(default_factory=dict)
    move: Move | None = None


class Cluster(SimStore):
    """One PostgreSQL with its workers. *closed* are tenants of which it takes nothing, *fenced* workers join anew."""

    def __init__(self, world: World, books: Books, name: str) -> None:
        self.name = name
        self.books = books
        self.closed: set[str] = set()
        self.fenced: set[str] = set()
        super().__init__(world, books)
        for number in range(TENANTS):
            self.tables.tenants[f"t{number}"] = Tenant(id=f"t{number}", created_at=START)

    def publish(self, drafts: Sequence[Draft]) -> PublishReport:
        if any(draft.event.tenant in self.closed or not self._lives(draft.event.tenant) for draft in drafts):
            return PublishReport([Refused("moving", "this tenant is moving: try again")] * len(drafts))
        return super().publish(drafts)

    def _lives(self, tenant: str) -> bool:
        return any(endpoint.tenant == tenant for endpoint in self.tables.endpoints.values())

    def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        report = self.write(worker, epochs, writes)
        for write in writes:
            if isinstance(write, Settlement) and isinstance(write.outcome, Delivered):
                send = write.send
                if send.pid not in report.fenced and send.lane_id not in report.stale and send.key is not None:
                    self.books.durable.setdefault((send.endpoint.id, send.key, send.seq), T0 + self.world.now)
        return report

    # --- what a move asks for; each may be asked twice ---

    def close(self, tenant: str) -> None:
        self.closed.add(tenant)
        self._set_endpoints(tenant, EndpointState.PAUSED)

    def open_for(self, tenant: str) -> None:
        self.closed.discard(tenant)
        self._set_endpoints(tenant, EndpointState.ACTIVE)

    def _set_endpoints(self, tenant: str, state: EndpointState) -> None:
        for endpoint in self._endpoints(tenant):
            if endpoint.state is not state:
                self.change(replace(endpoint, state=state), endpoint)

    def _endpoints(self, tenant: str) -> list[Endpoint]:
        return [one for one in self.tables.endpoints.values() if one.tenant == tenant]

    def take_out(self, tenant: str) -> tuple[list[Endpoint], list[Lane], dict[Any, Any]]:
        """Everything of a tenant. Its partitions are fenced: what their owners know is written no more."""
        self.fold()
        lanes = [lane for lane in self.tables.lanes.values() if lane.tenant == tenant]
        self.fence({lane.pid for lane in lanes})
        names = {name: known for name, known in self.tables.names.items() if name[0] == tenant}
        return self._endpoints(tenant), [_copied(lane) for lane in lanes], names

    def fence(self, pids: set[int]) -> None:
        """Their owners write nothing more there, and the next owner comes when the lease of the last one is over."""
        for pid in pids:
            part = self.tables.parts[pid]
            part.epoch += 1
            if part.owner is not None:
                self.fenced.add(part.owner)

    def renew(self, worker: str, lease_ms: int) -> Lease | None:
        return None if worker in self.fenced else super().renew(worker, lease_ms)

    def put_in(self, tenant: str, rows: tuple[list[Endpoint], list[Lane], dict[Any, Any]]) -> None:
        if self._lives(tenant):
            return  # an earlier try was carried out, and workers know its lanes: others beside them would be sent
        endpoints, lanes, names = rows
        tables = self.tables
        for endpoint in endpoints:
            tables.endpoints[endpoint.id] = replace(endpoint, state=EndpointState.PAUSED)
            tables.changes.append(endpoint.id)
        tables.names.update(names)
        for row in lanes:
            assert row.key is not None
            lane = _copied(row)
            lane.id = tables.lane_ids[row.endpoint_id, row.key] = max(tables.lanes, default=0) + 1
            tables.add_lane(lane)
            for seq, event in enumerate(lane.events, 1):
                tables.events[tenant, event.id] = event
                tables.places[tenant, event.id] = [(lane.id, seq)]
            tables.growth.append((lane.id, lane.tail))

    def remove(self, tenant: str) -> None:
        """What a tenant leaves behind goes; its lanes stay as empty names, as a sweep of old rows would leave them.

        Who loaded them meanwhile is fenced too: it would send from them when the tenant comes back.
        """
        tables = self.tables
        self.fence({lane.pid for lane in tables.lanes.values() if lane.tenant == tenant})
        for endpoint in self._endpoints(tenant):
            del tables.endpoints[endpoint.id]
        for where in [where for where, one in tables.lane_ids.items() if tables.lanes[one].tenant == tenant]:
            lane = tables.lanes[tables.lane_ids.pop(where)]
            lane.head = lane.tail + 1
            tables.acks.pop(lane.id, None)


def _copied(lane: Lane) -> Lane:
    other = copy(lane)
    other.events, other.skipped, other.cancelled = list(lane.events), dict(lane.skipped), set(lane.cancelled)
    return other


class Books(Unwatched):
    """What all receivers have, whichever cluster it came from."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.router = Router()
        self.applied: dict[Where, list[str]] = {}
        self.last: dict[Where, int] = {}
        self.durable: dict[tuple[str, str, int], float] = {}
        """When the ack of each event became durable."""
        self.accepted_ids: dict[Where, list[str]] = {}

    def going_out(self, cluster: Cluster, send: Send) -> None:
        home = self.router.homes[send.event.tenant]
        if cluster is home or send.key is None:
            return
        lane_id = home.tables.lane_ids.get((send.endpoint.id, send.key))
        if lane_id is None or send.seq > home.tables.head_of(home.tables.lanes[lane_id]):
            self.broken(11, f"cluster {cluster.name} sent #{send.seq} of {send.key}, which lives elsewhere")

    def take(self, send: Send, decided_at: float) -> None:
        """*decided_at* is when its worker decided to send it: long ago, where that worker has stalled since."""
        assert send.key is not None
        where = (send.endpoint.id, send.key)
        applied = self.applied.setdefault(where, [])
        match whose_turn(seq=send.seq, prev_seq=send.prev_seq, applied=self.last.get(where, 0)):
            case Turn.READY:
                applied.append(send.event.id)
                self.last[where] = send.seq
            case Turn.EARLY:
                self.broken(4, f"{where}: #{send.seq} came before #{send.prev_seq}")
            case Turn.PAST:
                if send.event.id not in applied:
                    self.broken(26, f"{where}: {send.event.id} came with the old seq {send.seq}")
                elif decided_at > self.durable.get((*where, send.seq), FOREVER):
                    self.broken(14, f"{where}: #{send.seq} was sent again though its ack was durable")


class ClusterNetwork(Network):
    """The way from one cluster to the receivers, which are the same for all."""

    cluster: Cluster
    books: Books
    shell: Shell

    def send(self, worker: str, send: Send, done: Callable[..., None]) -> None:
        world = self.world
        self.books.going_out(self.cluster, send)
        world.counts["sent"] += 1
        lost = world.roll() < world.faults.reply_lost
        decided_at = send.at if self.shell.keeps_time else START
        world.after(0.5 + 2.0 * world.roll(), self.books.take, send, decided_at)
        result = Answer(503, Timings(1.0)) if lost else OK
        world.after(3.0 + 4.0 * world.roll(), done, send, result)


class Mover(Process):
    """Carries one move on from the step that is on record."""

    def __init__(self, world: World, router: Router, number: int) -> None:
        super().__init__(world, number)
        self.router = router
        self.after(1.0, self._go)

    def _go(self) -> None:
        move = self.router.move
        if move is None:
            self.alive = False
            return
        source, target, tenant = move.source, move.target, move.tenant
        match move.step:
            case "close":
                self._ask(source, lambda: source.close(tenant), "drain")
            case "drain":
                self.after(TIMEOUT_MS, self._done, "copy", None)
            case "copy":
                self._ask(source, lambda: source.take_out(tenant), "put")
            case "switch":
                self.router.homes[tenant] = target
                self._done("open", None)
            case "open":
                self._ask(target, lambda: target.open_for(tenant), "clean")
            case "clean":
                self._ask(source, lambda: source.remove(tenant), "rest")
            case "rest":
                # When the tenant comes back, no worker may know its lanes from the last time.
                self.after(LEASE_MS, self._done, "end", None)

    def _ask(self, cluster: Cluster, verb: Callable[[], Any], then: str) -> None:
        done: Callable[[Any], None] = lambda rows: self.do(self._done, then, rows)  # noqa: E731
        cluster.call(verb, done, lambda: self.do(self.after, 40.0, self._go))

    def _done(self, step: str, rows: Any) -> None:
        move = self.router.move
        assert move is not None
        if step == "put":  # what was read is written in the same breath; only then is the step done
            self._ask(move.target, lambda: move.target.put_in(move.tenant, rows), "switch")
            return
        if step == "end":
            self.router.move = None
            self.world.counts["moved"] += 1
            self.alive = False
            return
        move.step = step
        self.after(5.0 * self.world.roll(), self._go)


class Moving:
    """Two clusters, their workers, publishers that ask the router, and tenants that move all the time."""

    def __init__(self, seed: int, events: int, faults: Faults, cluster: type[Cluster], mover: type[Mover]) -> None:
        self.world = World(seed, faults)
        self.books = Books(lambda: self.world.now)
        self.router = self.books.router
        self.clusters = [cluster(self.world, self.books, name) for name in ("one", "two")]
        self.left, self.waiting, self._count, self._mover = events, 0, 0, mover
        for number in range(TENANTS):
            home = self.clusters[number % 2]
            plain: dict[str, Any] = {"timeout_ms": TIMEOUT_MS, "backoff_ms": 20, "backoff_cap_ms": 100}
            endpoint = Endpoint(id=f"ep_{number}", url="https://x.example/", created_at=Instant(T0), **plain)
            home.change(replace(endpoint, tenant=f"t{number}"), None)
            self.router.homes[f"t{number}"] = home
        self.workers: list[tuple[Cluster, Shell]] = []
        self.movers: list[Process] = []
        self._look_after()
        world = self.world
        world.every(faults.crash_every_ms, self._crash)
        for one in self.clusters:
            world.every(faults.store_crash_every_ms, one.crash)
        for _ in range(3):
            self._publish()
        world.every(300, self._begin_move)

    def _look_after(self) -> None:
        self.workers = [(cluster, worker) for cluster, worker in self.workers if worker.alive]
        for cluster in self.clusters:
            while sum(one is cluster for one, _ in self.workers) < WORKERS:
                self._count += 1
                network = ClusterNetwork(self.world, self.books)
                network.cluster, network.books = cluster, self.books
                network.shell = Shell(self.world, cluster, network, self.books, self._count, Engine())
                self.workers.append((cluster, network.shell))
        self.movers = [one for one in self.movers if one.alive]
        if self.router.move is not None and not self.movers:
            self._count += 1
            self.movers.append(self._mover(self.world, self.router, self._count))
        self.world.after(60.0, self._look_after)

    def _crash(self) -> None:
        self.world.chance.choice([*(worker for _, worker in self.workers), *self.movers]).crash()

    def _begin_move(self) -> None:
        if self.router.move is None:
            tenant = self.world.chance.choice(list(self.router.homes))
            source = self.router.homes[tenant]
            (target,) = [one for one in self.clusters if one is not source]
            self.router.move = Move(tenant, source, target)

    def _publish(self) -> None:
        if self.left <= 0:
            return
        self.left -= 1
        self.waiting += 1
        self._count += 1
        chance = self.world.chance
        number, key = chance.randrange(TENANTS), f"key-{chance.randrange(KEYS)}"
        at = Instant(T0 + int(self.world.now))
        event = Event(f"evt_{self._count}", "order.paid", key, b"{}", at, f"t{number}")
        self._submit(Draft(event, None, (f"id:{event.id}",), event.id.encode()), self.router.homes[f"t{number}"])
        self.world.after(chance.expovariate(1.0 / 12.0), self._publish)

    def _submit(self, draft: Draft, home: Cluster) -> None:
        """To the cluster that this server believes to be the tenant's; a refusal makes it ask the router again."""

        def ok(report: PublishReport) -> None:
            if isinstance(report.results[0], Refused):
                again()
                return
            self.waiting -= 1
            where = (report.results[0].stamps[0].endpoint_id, str(draft.event.key))
            self.books.accepted_ids.setdefault(where, []).append(draft.event.id)

        def again() -> None:
            self.world.after(30.0, lambda: self._submit(draft, self.router.homes[draft.event.tenant]))

        home.call(lambda: home.publish([draft]), ok, again)

    @property
    def is_done(self) -> bool:
        if self.left > 0 or self.waiting or self.router.move is not None:
            return False
        return all(set(ids) <= set(self.books.applied.get(where, ())) for where, ids in self.books.accepted_ids.items())

    def run(self) -> None:
        broken = self.books.violations
        self.world.run(lambda: (self.left <= 0 and self.waiting == 0) or bool(broken), 600_000)
        self.world.calm()
        if broken or self.world.run(lambda: self.is_done, 60_000):
            return
        for where, ids in self.books.accepted_ids.items():
            if lost := [one for one in ids if one not in self.books.applied.get(where, ())]:
                self.books.broken(2, f"{where}: {lost[:5]} were accepted and never came")
        if not self.books.violations:
            self.books.broken(19, f"still waiting: {self.waiting} publishes, {self.router.move}")


def simulate_moves(
    seed: int,
    *,
    events: int = 1_000,
    faults: Faults = MOVING,
    cluster: type[Cluster] = Cluster,
    mover: type[Mover] = Mover,
) -> Report:
    """Run one seed; *cluster* and *mover* are exchanged for ones with a planted bug."""
    moving = Moving(seed, events, faults, cluster, mover)
    moving.run()
    world = moving.world
    return Report(seed, tuple(moving.books.violations), world.counts, world.hash, int(world.now), 0.0)
