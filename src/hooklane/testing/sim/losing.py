"""A world whose store fails over to an asynchronous standby and loses its last commits: what is lost is told, and no
receiver drops an event because its seq was used before.

The invariants of a store that loses nothing do not hold here: heads and epochs go back. So receivers keep books of
their own, and at the end they are compared with what the store holds and has put on record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from hooklane.core.admission.turns import Turn, whose_turn
from hooklane.core.worker import Parts
from hooklane.model.attempt import Send, Write
from hooklane.model.endpoint import Order
from hooklane.model.exchange import Answer, Timings
from hooklane.model.lost import REUSED, is_lost, is_lost_id, lost_in, reused_in
from hooklane.store.memory.outbox.tables import Lane, Tables
from hooklane.store.outbox import CommitReport
from hooklane.testing.invariants import Invariants
from hooklane.testing.lane_book import Rules
from hooklane.testing.sim.faults import NONE, Faults
from hooklane.testing.sim.mutants.mutant import Mutant
from hooklane.testing.sim.network import Kind, Network, Receiver
from hooklane.testing.sim.people import add_endpoint
from hooklane.testing.sim.run import Report, Simulation
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import World

LOSING = replace(NONE, store_failover_every_ms=600, store_slow=0.04, request_late=0.01, operate_every_ms=0)
"""Nothing goes wrong but that, so that all who remember something live: what dies with its witness no one can tell."""
LAG_MS_MAX = 400.0

Where = tuple[str, str]
"""Endpoint and key."""


class AsyncStandby(SimStore):
    """Its standby has what was committed up to some time ago, and a failover goes on from there."""

    def __init__(self, world: World, checker: Losses) -> None:
        self.losses = checker
        super().__init__(world, checker)
        self._standby = self._copy()
        self._ship_again()

    def _copy(self) -> Tables:
        # Events are never changed, so they are shared; so is the store itself, whose clock the tables know.
        memo: dict[int, Any] = {id(event): event for event in self.tables.events.values()}
        for lane in self.tables.lanes.values():
            memo.update((id(event), event) for event in lane.events)
        memo[id(self)] = self
        return deepcopy(self.tables, memo)

    def ship(self) -> None:
        self._standby = self._copy()

    def _ship_again(self) -> None:
        self.ship()
        self.world.after(LAG_MS_MAX * self.world.roll(), self._ship_again)

    def fail_over(self) -> None:
        super().fail_over()
        before, self.tables = self.tables, self._standby
        self._standby = self._copy()
        self.world.counts["lost"] += self.losses.lost(before, self.tables)

    def commit(self, worker: str, epochs: Mapping[int, int], writes: Sequence[Write]) -> CommitReport:
        return self.write(worker, epochs, writes)

    @property
    def is_done(self) -> bool:
        lanes = self.tables.lanes.values()
        return all(self.tables.head_of(lane) > lane.tail for lane in lanes)


class Unwatched(Invariants):
    """Books that are not kept: where heads and epochs may go back, or lanes come from elsewhere, others judge."""

    def accepted(self, lane: int, pid: int, seq: int, event_id: str, rules: Rules) -> None: ...
    def owned(self, pid: int, worker: str, epoch: int, *, unclean: bool) -> None: ...
    def forgot(self, epochs: Mapping[int, int]) -> None: ...
    def sent(self, *facts: Any) -> None: ...
    def unanswered(self, lane: int, seq: int) -> None: ...
    def settled(self, worker: str, epoch: int, lane: int) -> None: ...
    def arrived(self, *facts: Any) -> None: ...
    def answered(self, *facts: Any, landed: bool) -> None: ...


class Losses(Unwatched):
    """What receivers have seen and workers have sent, by lane; nothing else is watched."""

    def __init__(self, clock: Callable[[], float], *, only_events_kill: bool = False) -> None:
        super().__init__(clock, only_events_kill=only_events_kill)
        self.seen: dict[Where, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        """The ids that came under each seq, in their order."""
        self.applied: dict[Where, list[str]] = defaultdict(list)
        self.known: set[tuple[str, str, int, str]] = set()
        """What a worker has sent."""
        self.missing: set[tuple[str, str, int, str]] = set()
        """What a worker had sent and the store lost."""
        self._lost: set[tuple[str, str, str]] = set()

    def noted(self, send: Send) -> None:
        if send.key is not None:
            self.known.add((send.endpoint.id, send.key, send.seq, send.event.id))

    def lost(self, before: Tables, after: Tables) -> int:
        """A failover went back from *before* to *after*; how many places were lost."""
        many = 0
        for where, lane_id in before.lane_ids.items():
            events = before.lanes[lane_id].events
            kept = after.lanes[after.lane_ids[where]].tail if where in after.lane_ids else 0
            for seq, event in enumerate(events[kept:], kept + 1):
                many += 1
                self._lost.add((*where, event.id))
                if (*where, seq, event.id) in self.known:
                    self.missing.add((*where, seq, event.id))
        return many

    def judge(self, tables: Tables) -> None:
        """Everything has come to rest: compare what receivers have with what the store says."""
        lanes = {where: tables.lanes[lane_id] for where, lane_id in tables.lane_ids.items()}
        audited = {act.subject for act in tables.told_lost}
        for endpoint_id, key, seq, event_id in sorted(self.missing):
            lane = lanes.get((endpoint_id, key))
            if lane is None or not self._is_told(lane, seq, event_id) or f"{endpoint_id} {key}" not in audited:
                self.broken(24, f"{endpoint_id} {key}: {event_id} was sent as #{seq} and lost, and nothing tells of it")
        for where, seqs in self.seen.items():
            for seq, ids in seqs.items():
                if len(set(ids)) > 1 and not self._is_on_record(lanes.get(where), seq):
                    self.broken(25, f"{where}: {ids} came as #{seq}, and it is not on record")
        for where, lane in lanes.items():
            places = enumerate(lane.events, 1)
            owed = [event.id for seq, event in places if not is_lost(event) and seq not in lane.skipped]
            got = list(dict.fromkeys(self.applied[where]))
            if dropped := [one for one in owed if one not in got]:
                self.broken(26, f"{where}: {dropped} count as delivered, and the receiver took none of them")
            # What was lost and published again, by a client that had heard nothing, came in its first place as well.
            once = [one for one in owed if (*where, one) not in self._lost]
            if [one for one in got if one in set(once)] != once:
                self.broken(3, f"{where}: {owed} was published, {got} delivered")

    @staticmethod
    def _is_told(lane: Lane, seq: int, event_id: str) -> bool:
        if any(event.id == event_id for event in lane.events):
            return True  # its publisher had heard nothing, and has published it again
        if lane.tail < seq:
            return False
        event = lane.events[seq - 1]
        if is_lost(event):
            return event_id in lost_in(event.data)
        return event_id in reused_in(lane.skipped.get(seq, ""))

    @staticmethod
    def _is_on_record(lane: Lane | None, seq: int) -> bool:
        if lane is None or lane.tail < seq:
            return False
        return is_lost(lane.events[seq - 1]) or lane.skipped.get(seq, "").startswith(REUSED)


class KeepsOrder(Receiver):
    """Applies what is new and in order, as the receiver of ours does with `order=sequence`; what is old it drops."""

    def __init__(self, world: World, endpoint_id: str, losses: Losses) -> None:
        super().__init__(world, Kind.HEALTHY)
        self._endpoint_id = endpoint_id
        self._losses = losses
        self._applied: dict[str, int] = {}

    def take(self, send: Send) -> Answer:
        key, losses = send.key, self._losses
        if is_lost_id(send.event.id):
            losses.broken(4, f"{self._endpoint_id} {key}: {send.event.id} was sent, which was never published")
        if key is None:
            return Answer(200, Timings(1.0))
        where = (self._endpoint_id, key)
        losses.seen[where][send.seq].append(send.event.id)
        applied = self._applied.get(key, 0)
        match whose_turn(seq=send.seq, prev_seq=send.prev_seq, applied=applied):
            case Turn.READY:
                self._applied[key] = send.seq
                losses.applied[where].append(send.event.id)
            case Turn.EARLY:
                return Answer(503, Timings(1.0))
            case Turn.PAST:
                pass  # a copy, or so it believes
        return Answer(200, Timings(1.0))


class Wire(Network):
    """Carries attempts to receivers that keep order."""

    def send(self, worker: str, send: Send, done: Callable[..., None]) -> None:
        losses = self.checker
        assert isinstance(losses, Losses)
        losses.noted(send)
        super().send(worker, send, done)

    def _arrive(self, send: Send, digest: int, deadline: float, done: Callable[..., None] | None) -> None:
        receiver = self.receivers[send.endpoint.id]
        assert isinstance(receiver, KeepsOrder)
        answer = receiver.take(send)
        if done is not None:
            self.world.after(0.5 + 2.0 * self.world.roll(), done, send, answer)


def settle_in(world: World, store: SimStore, network: Network) -> None:
    """A few endpoints whose receivers keep order."""
    losses = store.checker
    assert isinstance(losses, Losses)
    for number in range(3):
        add_endpoint(store, network, Kind.HEALTHY, id=f"ep_{number}", types=(), order=Order.KEY, attempts_max=20)
        network.receivers[f"ep_{number}"] = KeepsOrder(world, f"ep_{number}", losses)
    if isinstance(store, AsyncStandby):
        store.ship()  # the endpoints were there before


def simulate_losses(
    seed: int,
    *,
    events: int = 600,
    keys: int = 12,
    faults: Faults = LOSING,
    store: Callable[..., SimStore] = AsyncStandby,
    parts: Parts | None = None,
    engine: Any = None,
) -> Report:
    """Run one seed; *store*, *parts* and *engine* are exchanged for ones with a planted bug."""
    plain = Mutant()
    mutant = Mutant(engine or plain.engine, store, Wire, Losses, parts or Parts(), faults, keys)
    simulation = Simulation(seed, events, faults, keys, mutant, settle_in)
    world, losses, standby = simulation.world, simulation.checker, simulation.store
    assert isinstance(losses, Losses) and isinstance(standby, AsyncStandby)  # noqa: PT018
    world.run(lambda: simulation.publishers.is_done, 600_000)
    world.calm()
    world.run(lambda: False, 3_000.0)  # workers notice the last failover, also where nothing is owed after it
    if not world.run(lambda: simulation.publishers.is_done and standby.is_done, 60_000):
        for lane in standby.tables.lanes.values():
            if standby.tables.head_of(lane) <= lane.tail:
                losses.broken(19, f"lane {lane.id} is still at {standby.tables.row_of(lane)}")
    losses.judge(standby.tables)
    return Report(seed, tuple(losses.violations), world.counts, world.hash, int(world.now), 0.0)
