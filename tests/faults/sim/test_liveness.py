"""Progress: takeovers, recoveries and healthy neighbours take no longer than promised (invariants 19 to 22)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hooklane.model.attempt import Send
from hooklane.model.endpoint import EndpointState
from hooklane.model.exchange import Result
from hooklane.store.memory.outbox.tables import Ending
from hooklane.testing.sim.faults import NONE, Faults
from hooklane.testing.sim.mutants.mutant import Mutant
from hooklane.testing.sim.network import Kind, Network
from hooklane.testing.sim.people import TYPES, add_endpoint
from hooklane.testing.sim.run import Simulation
from hooklane.testing.sim.shell import LEASE_MS, POLL_MS
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import World

SLACK_MS = 50
"""Calls take a few milliseconds, and the loop looks every few steps."""


def healthy(world: World, store: SimStore, network: Network) -> None:
    add_endpoint(store, network, Kind.HEALTHY, id="ep_well", types=(TYPES[0],))


def with_sick_neighbours(world: World, store: SimStore, network: Network) -> None:
    healthy(world, store, network)
    add_endpoint(store, network, Kind.SLOW, id="ep_slow", types=(TYPES[1],), in_flight_max=64)
    add_endpoint(store, network, Kind.ILL_FOR_LONG, id="ep_ill", types=(TYPES[1],))
    add_endpoint(store, network, Kind.CHOKES, id="ep_chokes", types=(TYPES[2],))
    add_endpoint(store, network, Kind.HEALTHY, id="ep_paused", types=(TYPES[2],), state=EndpointState.PAUSED)


class Watched(Simulation):
    """A world in which somebody looks at the clock."""

    def __init__(self, seed: int, events: int, faults: Faults, settle: Callable[..., None], mutant: Mutant) -> None:
        super().__init__(seed, events, faults, 40, mutant, settle)
        self.waits: dict[str, list[float]] = {}
        self._since: dict[tuple[int, int], float] = {}
        accepted, acked = self.checker.accepted, self.checker.acked

        def note_accepted(lane: int, pid: int, seq: int, event_id: str, rules: object) -> None:
            self._since[lane, seq] = self.world.now
            accepted(lane, pid, seq, event_id, rules)  # type: ignore[arg-type]

        def note_acked(worker: str, epoch: int, lane: int, seq: int) -> None:
            endpoint_id = self.store.tables.lanes[lane].endpoint_id
            self.waits.setdefault(endpoint_id, []).append(self.world.now - self._since[lane, seq])
            acked(worker, epoch, lane, seq)

        self.checker.accepted = note_accepted  # type: ignore[method-assign]
        self.checker.acked = note_acked  # type: ignore[method-assign]

    def run_until(self, until: Callable[[], bool], limit_ms: float) -> float:
        """Go on until something is so; how long that took."""
        before = self.world.now
        assert self.world.run(until, limit_ms), "it did not happen in time"
        return self.world.now - before


def test_the_lanes_of_a_dead_worker_are_taken_over_within_a_lease_and_a_renewal() -> None:
    world = Watched(1, 400, NONE, healthy, Mutant())
    owners = world.store.tables.parts
    world.run_until(lambda: all(part.owner for part in owners), 5_000)
    world.run_until(lambda: len({part.owner for part in owners}) == 3, 5_000)
    dead = world.workers[0]

    dead.crash()
    took = world.run_until(lambda: all(part.owner != dead.name for part in owners), 60_000)

    assert took <= LEASE_MS + 2 * LEASE_MS / 3 + SLACK_MS
    world.run()
    assert not world.checker.violations


def test_a_replayed_dead_letter_is_sent_again_within_a_poll() -> None:
    world = Watched(2, 20, replace(NONE, sick=True, poison=1.0), healthy, Mutant())
    taken: list[float] = []
    replay = world.store.replay

    def note(dead_letter_id: str) -> None:
        replay(dead_letter_id)
        taken.append(world.world.now)

    world.store.replay = note  # type: ignore[method-assign]
    world.run_until(lambda: bool(taken), 60_000)
    sent = world.world.counts["sent"]
    took = world.run_until(lambda: world.world.counts["sent"] > sent, 60_000)

    assert took <= 1.5 * POLL_MS + SLACK_MS


def test_healthy_lanes_do_not_feel_their_sick_neighbours() -> None:
    quiet = replace(NONE, operate_every_ms=0)
    alone = Watched(3, 2_000, quiet, healthy, Mutant())
    beside = Watched(3, 2_000, replace(quiet, sick=True), with_sick_neighbours, Mutant())

    for world in (alone, beside):
        world.world.run(lambda world=world: world.publishers.is_done, 600_000)  # type: ignore[misc]
        world.world.run(lambda: False, 2_000)

    def p99(waits: list[float]) -> float:
        return sorted(waits)[int(len(waits) * 0.99)]

    assert len(beside.waits["ep_well"]) > 300
    assert p99(beside.waits["ep_well"]) <= 1.5 * p99(alone.waits["ep_well"])


def test_an_event_that_kills_its_workers_ends_as_a_dead_letter() -> None:
    class Deadly(Network):
        """Whoever sends this event dies of it."""

        def send(self, worker: str, send: Send, done: Callable[[Send, Result], None]) -> None:
            super().send(worker, send, done)
            if send.event.id == "evt_1" and killing:
                for one in world.workers:
                    if one.name == worker:
                        one.crash()

    def stubborn(world: World, store: SimStore, network: Network) -> None:
        add_endpoint(store, network, Kind.HEALTHY, id="ep_well", attempts_max=4)

    killing = True
    world = Watched(4, 1, NONE, stubborn, Mutant(network=Deadly))
    dead_letters = world.store.tables.dead_letters
    world.run_until(lambda: any(dead_row.ending is Ending.DEAD for dead_row in dead_letters.values()), 60_000)

    assert world.world.counts["crash"] <= 2 + 4  # unseen and in company, then its four attempts alone
    (dead_row,) = dead_letters.values()
    assert dead_row.reason == "worker_died"
    killing = False
    world.run()
    assert not world.checker.violations
