"""What a world is made of, so that one part of it can be exchanged for a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hooklane.core.engine import Engine
from hooklane.core.worker import Parts
from hooklane.testing.invariants import Invariants
from hooklane.testing.sim.faults import ROUGH, Faults
from hooklane.testing.sim.network import Network
from hooklane.testing.sim.store import SimStore


@dataclass(frozen=True, slots=True)
class Mutant:
    """Which parts of a world are made of what; the plain one has no bug."""

    engine: Callable[..., Engine] = Engine
    store: Callable[..., SimStore] = SimStore
    network: Callable[..., Network] = Network
    checker: Callable[..., Invariants] = Invariants
    parts: Parts = field(default_factory=Parts)
    faults: Faults = ROUGH
    """The weather in which the bug shows soonest."""
    keys: int = 40
    """Few, so that lanes are long; or many, so that what is missed once is not made up for by the next event."""
    publish_every_ms: float = 400.0
    """From one publish of a client to its next, in the mean."""
