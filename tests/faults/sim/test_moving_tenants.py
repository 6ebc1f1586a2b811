"""Past one primary, simulated: tenants move between two clusters, and order and at-least-once hold across the move."""

from __future__ import annotations

from typing import Any

import pytest

from hooklane.testing.sim.moving import Cluster, Mover, simulate_moves

# Red, with nine others, before a move rested and its source fenced workers that load lanes late: 14, 45.
SEEDS = [1, 14, 45]
LONG = [pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 100) if seed not in SEEDS]


@pytest.mark.parametrize("seed", [*SEEDS, *LONG])
def test_a_tenant_that_moves_loses_nothing_and_its_lanes_stay_in_order(seed: int) -> None:
    report = simulate_moves(seed)

    assert not report.violations, str(report)
    assert report.counts["moved"] >= 1
    assert report.counts["crash"] >= 1


# --- planted bugs ---


class SwitchesBeforeTheDrain(Cluster):
    """The source goes on delivering while its rows are copied, and after it."""

    def close(self, tenant: str) -> None:
        self.closed.add(tenant)

    def fence(self, pids: set[int]) -> None:
        pass


class StaysOpen(Cluster):
    """The source goes on taking events that no one copies."""

    def close(self, tenant: str) -> None:
        super().close(tenant)
        self.closed.discard(tenant)


class ForgetsHeads(Cluster):
    """What was delivered before the move is sent again from the first event on."""

    def put_in(self, tenant: str, rows: Any) -> None:
        for lane in rows[1]:
            lane.head = 1
        super().put_in(tenant, rows)


class SwitchesFirst(Mover):
    """Servers are told of the new home before anything is there."""

    def _done(self, step: str, rows: Any) -> None:
        move = self.router.move
        if step == "drain" and move is not None:
            self.router.homes[move.tenant] = move.target
            move.target.tables.endpoints.update(
                {one.id: one for one in move.source.tables.endpoints.values() if one.tenant == move.tenant}
            )
        super()._done(step, rows)


BUGS: dict[str, tuple[dict[str, Any], set[int]]] = {
    "switches_before_the_drain": ({"cluster": SwitchesBeforeTheDrain}, {11, 14}),
    "stays_open": ({"cluster": StaysOpen}, {2, 26}),
    "forgets_heads": ({"cluster": ForgetsHeads}, {14}),
    "switches_first": ({"mover": SwitchesFirst}, {2, 4, 11, 26}),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_noticed(bug: str) -> None:
    planted, expected = BUGS[bug]
    for seed in range(1, 11):
        if {one.number for one in simulate_moves(seed, **planted).violations} & expected:
            return
    pytest.fail(f"{bug} was not noticed in ten seeds")
