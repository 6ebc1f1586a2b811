"""A simulated failover to an asynchronous standby: what is lost is told, and no seq is used twice in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from hooklane.core.engine import Engine
from hooklane.core.worker import Parts
from hooklane.model.clock import Instant
from hooklane.model.lost import Decide, KnownPlace, LostLane, Mend
from hooklane.testing.sim.losing import AsyncStandby, simulate_losses
from hooklane.testing.sim.mutants import engines, workers
from hooklane.testing.sim.run import Report

SEEDS = range(1, 3)


def numbers(reports: Sequence[Report]) -> set[int]:
    return {violation.number for report in reports for violation in report.violations}


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 60))])
def test_what_a_failover_lost_is_told_and_receivers_get_all_that_is_left_in_order(seed: int) -> None:
    report = simulate_losses(seed)

    assert not report.violations, str(report)
    assert seed == 1 or report.counts["found lost"] > 20, str(report)


# --- planted bugs ---


class LeavesInPlace(AsyncStandby):
    """A lane that ends too early is filled; what has taken a seq already keeps it."""

    def account_for(self, places: Sequence[KnownPlace], decide: Decide, now: Instant) -> Sequence[LostLane]:
        def without_moves(*asked: Any) -> Mend | None:
            found = decide(*asked)
            return None if found is None or found.moves else found

        return super().account_for(places, without_moves, now)


class CountsAsDelivered(AsyncStandby):
    """What was delivered in a seq that receivers had seen counts as delivered."""

    def account_for(self, places: Sequence[KnownPlace], decide: Decide, now: Instant) -> Sequence[LostLane]:
        def without_reused(*asked: Any) -> Mend | None:
            found = decide(*asked)
            return found and replace(found, reused={})

        return super().account_for(places, without_reused, now)


class MixesTwoServers(AsyncStandby):
    """What a worker knows of one server is used with what another tells."""

    def is_same_run(self, worker: str) -> bool:
        return True


BUGS: dict[str, tuple[dict[str, Any], set[int]]] = {
    "remembers_nothing": ({"parts": Parts(witness=workers.RemembersNothing)}, {24, 25}),
    "leaves_in_place": ({"store": LeavesInPlace}, {24, 25, 26}),
    "counts_as_delivered": ({"store": CountsAsDelivered}, {24, 25, 26}),
    "sends_what_is_lost": ({"engine": partial(Engine, heads=engines.SendsWhatIsLost)}, {4}),
    "mixes_two_servers": ({"store": MixesTwoServers}, {3, 25, 26}),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str) -> None:
    planted, expected = BUGS[bug]
    for seed in range(2, 12):
        found = numbers([simulate_losses(seed, **planted)])
        if found & expected:
            return
    pytest.fail(f"{bug} was not noticed in ten seeds")
