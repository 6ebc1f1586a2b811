"""Run a world from a seed and tell what happened in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

from hooklane.testing.sim.faults import Faults
from hooklane.testing.sim.mutants import MUTANTS
from hooklane.testing.sim.mutants.mutant import Mutant
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.people import Operators, Publishers, settle_in
from hooklane.testing.sim.shell import LEASE_MS, Shell
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.world import World
from hooklane.testing.violation import Violation

CALM_MS = 60_000
"""Within this time after the last fault everything that is owed must have been delivered."""

VISIT_MS = 100.0, 700.0
"""So long stays a worker that visits: about as long as it takes the others to give something back."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one seed came to."""

    seed: int
    violations: tuple[Violation, ...]
    counts: Counter[str]
    trace_hash: int
    simulated_ms: int
    took_s: float
    """Seconds of processor time."""

    @property
    def delivered(self) -> int:
        return self.counts["delivered"]

    @property
    def crashes(self) -> int:
        return self.counts["crash"]

    def __str__(self) -> str:
        words = ", ".join(f"{count} {what}" for what, count in sorted(self.counts.items()))
        found = "".join(f"\n  {violation}" for violation in self.violations[:20])
        return (
            f"seed {self.seed}: {len(self.violations)} violations, {words}, {self.simulated_ms} ms simulated "
            f"in {self.took_s:.2f} s, trace {self.trace_hash & 0xFFFFFFFFFFFFFFFF:016x}{found}"
        )


class Simulation:
    """One world with its store, network, workers and people."""

    def __init__(
        self,
        seed: int,
        events: int,
        faults: Faults,
        keys: int,
        mutant: Mutant,
        settle: Callable[[World, SimStore, Network], None] = settle_in,
        aimed: float = 0.0,
        publish_every_ms: float = 400.0,
    ) -> None:
        """*settle* creates the endpoints; the part *aimed* of all events goes to one of them each."""
        self.world = World(seed, faults)
        only_killers = faults.killers > 0 and not (faults.crash_every_ms or faults.turn_broken or faults.pause_every_ms)
        self.checker = mutant.checker(lambda: self.world.now, only_events_kill=only_killers)
        self.mutant = mutant
        self.store = mutant.store(self.world, self.checker)
        self.network = mutant.network(self.world, self.checker)
        settle(self.world, self.store, self.network)
        self.workers: list[Shell] = []
        self._count = 0
        self._many = faults.workers
        for _ in range(faults.workers):
            self.start_worker()
        self.publishers = Publishers(
            self.world, self.store, lambda: self.workers, events, keys, aimed, publish_every_ms
        )
        Operators(self.world, self.store, self.network, lambda: self.workers)
        self.world.every(faults.crash_every_ms, self._crash)
        self.world.every(faults.pause_every_ms, self._stall)
        self.world.every(faults.leave_every_ms, self._leave)
        self.world.every(faults.visit_every_ms, self._visit)
        self.world.every(faults.store_down_every_ms, self.store.go_down)
        self.world.every(faults.store_clock_jump_every_ms, self.store.jump)
        self.world.every(faults.store_crash_every_ms, self.store.crash)
        self.world.every(faults.store_failover_every_ms, self.store.fail_over)
        self._look_after_workers()

    def start_worker(self) -> None:
        self._count += 1
        engine = self.mutant.engine(in_flight_max=200, lanes_max=60)
        world, parts = self.world, self.mutant.parts
        self.workers.append(Shell(world, self.store, self.network, self.checker, self._count, engine, parts))

    def _look_after_workers(self) -> None:
        """As a supervisor of processes does: start a new one for each that ended."""
        self.workers = [worker for worker in self.workers if worker.alive]
        while len(self.workers) < self._many:
            self.start_worker()
        self.world.after(60.0, self._look_after_workers)

    def _crash(self) -> None:
        worker = self.world.chance.choice(self.workers)
        if worker.alive:
            worker.crash()

    def _stall(self) -> None:
        chance = self.world.chance
        chance.choice(self.workers).stall(LEASE_MS * 2.5 * chance.random(), clock_stops=chance.random() < 0.5)

    def _leave(self) -> None:
        worker = self.world.chance.choice(self.workers)
        if worker.alive:
            worker.do(worker.stop)

    def _visit(self) -> None:
        self.start_worker()
        visitor = self.workers[-1]
        self.world.after(self.world.chance.uniform(*VISIT_MS), visitor.do, visitor.stop)

    def run(self) -> None:
        """Publish everything among faults, then see whether calm weather is enough to deliver it."""
        violations = self.checker.violations
        self.world.run(lambda: self.publishers.is_done or bool(violations), 600_000)
        self.world.calm()
        if violations:
            return  # nothing after the first one can be trusted
        if not self.world.run(lambda: self.publishers.is_done and self.store.owed_count == 0, CALM_MS):
            self._name_the_stuck()
        self._compare()

    def _name_the_stuck(self) -> None:
        if not self.publishers.is_done:
            self.checker.broken(19, f"{self.publishers.waiting} publishes were never answered")
        tables = self.store.tables
        for lane in tables.lanes.values():
            row = tables.row_of(lane)
            if row.head <= row.tail:
                owner = tables.parts[lane.pid].owner
                self.checker.broken(19, f"lane {lane.id} (owner {owner}) is still at {row}")

    def _compare(self) -> None:
        tables = self.store.tables
        for lane in tables.lanes.values():
            self.checker.stored(lane.id, tables.head_of(lane), [event.id for event in lane.events])


def simulate(
    seed: int,
    *,
    events: int = 1_000,
    faults: Faults | None = None,
    keys: int | None = None,
    mutant: str | None = None,
    aimed: float = 0.0,
    publish_every_ms: float | None = None,
) -> Report:
    """Run one seed: *events* are published among *faults*; *mutant* plants a named bug that must be noticed.

    The part *aimed* of all events goes to one endpoint each, the others to all that want them.
    """
    before = process_time()
    parts = MUTANTS[mutant] if mutant else Mutant(faults=Faults(), keys=60)
    simulation = Simulation(
        seed,
        events,
        faults or parts.faults,
        keys or parts.keys,
        parts,
        aimed=aimed,
        publish_every_ms=publish_every_ms or parts.publish_every_ms,
    )
    simulation.run()
    world, checker = simulation.world, simulation.checker
    return Report(seed, tuple(checker.violations), world.counts, world.hash, int(world.now), process_time() - before)
