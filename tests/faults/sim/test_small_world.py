"""Everything that can happen with a lease, a fence, a dead letter, a skip, a replay and a takeover, in small bounds.

Not by chance as in the simulator, but all of it: each history of one lane of two events and two workers, until there is
nothing more to happen. The engine and the store's tables are the real ones (`small_world.py`).
"""

from __future__ import annotations

from functools import partial

import pytest
from tests.faults.sim.small_world import Bounds, search

from hooklane.core.engine import Engine
from hooklane.model.endpoint import OnDead
from hooklane.testing.sim.mutants import engines, stores
from hooklane.testing.sim.store import SimStore

ALONE = Bounds(steps=99, expiries=0, crashes=0, unknown=0)
"""Nothing goes wrong but what the receiver refuses."""
WORLDS = {
    "a crash": (Bounds(steps=99, expiries=0, unknown=0), 150),
    "a lost answer": (Bounds(steps=99, expiries=0, crashes=0), 90),
    "a lease that ends": (Bounds(steps=99, crashes=0, unknown=0), 900),
    "a lost answer, and the policy to skip": (Bounds(steps=99, expiries=0, crashes=0, on_dead=OnDead.SKIP), 20),
}
LARGE = {
    "all of it": (Bounds(steps=99), 5_000),
    "all of it, and the policy to skip": (Bounds(steps=99, on_dead=OnDead.SKIP), 1_000),
    "two attempts": (Bounds(steps=99, attempts_max=2, crashes=0), 2_000),
    "two acts of a person": (Bounds(steps=99, acts=2, crashes=0), 2_000),
}


@pytest.mark.parametrize(
    "world", [*WORLDS, *(pytest.param(name, marks=pytest.mark.soak) for name in LARGE)], ids=lambda name: name
)
def test_no_history_breaks_a_promise(world: str) -> None:
    bounds, states_min = (WORLDS | LARGE)[world]

    seen = search(bounds)

    assert not seen.broken, "\n".join(seen.broken)
    assert seen.states >= states_min
    assert seen.finished > 0, "no history came to its end"


@pytest.mark.parametrize(
    ("bounds", "engine", "store"),
    [
        (Bounds(steps=9, crashes=0, unknown=0), Engine, stores.NoFence),
        (Bounds(steps=9, crashes=0, unknown=0), Engine, stores.EpochNotBumped),
        (Bounds(steps=9, expiries=0, crashes=0), Engine, stores.RevIgnored),
        (ALONE, Engine, stores.SkipWithoutRecord),
        (ALONE, partial(Engine, outcomes=engines.AckBeforeDurable), SimStore),
        (ALONE, partial(Engine, outcomes=engines.DeadLetterAdvancesTheKey), SimStore),
        (ALONE, partial(Engine, outcomes=engines.ClientErrorCountedAsDelivered), SimStore),
    ],
    ids=[
        "no fence",
        "the same epoch again",
        "a late write undoes a replay",
        "a skip without a record",
        "an ack before it is durable",
        "a dead letter moves its key",
        "422 is a success",
    ],
)
def test_a_planted_bug_breaks_a_promise_in_some_history(bounds, engine, store) -> None:
    assert search(bounds, engine, store).broken
