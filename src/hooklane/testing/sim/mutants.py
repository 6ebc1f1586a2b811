"""Planted bugs: each a small, plausible mistake that the simulator must notice, or it proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hooklane.core.engine import Engine
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.store import SimStore
from hooklane.testing.sim.worker import Worker


@dataclass(frozen=True, slots=True)
class Mutant:
    """Which parts of a world are made of what; the plain one has no bug."""

    engine: Callable[..., Engine] = Engine
    store: Callable[..., SimStore] = SimStore
    network: Callable[..., Network] = Network
    worker: Callable[..., Worker] = Worker


MUTANTS: dict[str, Mutant] = {}
