"""Each planted bug is noticed within a few seeds, or the simulator proves nothing."""

from __future__ import annotations

import pytest

from hooklane.testing.sim import simulate
from hooklane.testing.sim.mutants import MUTANTS

SEEDS = range(1, 41)
NOTICED_BY: dict[str, set[int]] = {
    "no_fence": {8},
    "zombie_acks_accepted": {8},
    "epoch_not_bumped": {9},
    "repeated_publish_stamps_twice": {17},
    "ack_before_durable": {4},
    "dead_letter_advances_the_key": {4},
    "backoff_ignored": {16},
    "two_in_flight": {10},
    "growth_unblocks": {5, 12},
    "timeout_counted_as_delivered": {6},
    "client_error_counted_as_delivered": {6},
    "every_death_is_skipped": {18},
    "skip_without_record": {18},
    "attempts_never_end": {13},
    "attempts_reset_on_takeover": {13},
    "next_at_lost_on_takeover": {16},
    "handover_in_flight": {14},
    "failed_commit_counted_as_no": {14},
    "body_changes_with_the_attempt": {17},
    "lost_acquire_is_forgotten": {19},
    "mark_after_load": {19},
    "mark_outlives_its_session": {19},
    "polls_miss_and_nobody_sweeps": {19},
    "everyone_is_blamed": {23},
    "looks_are_never_believed": {19},
    "load_before_acquire": {5},
    "busy_is_parked_for_ever": {19},
    "spans_hide_others": {19},
    "drains_without_its_commits": {14},
}
"""Where one promise in particular must be the one that is broken."""
NOTICED_AT = {
    "mark_after_load": 6,
    "fold_lowers_the_head": 4,
    "stale_head_on_reload": 5,
    "writes_outlive_their_epoch": 7,
}
"""Which seed ended the last hunt, where it was not among the first three: it is tried first."""


FIRST = "the seed that noticed it last"
ALL = "every seed from the first on"


@pytest.mark.parametrize("hunt", [FIRST, pytest.param(ALL, marks=pytest.mark.soak)])
@pytest.mark.parametrize("bug", MUTANTS)
def test_the_simulator_notices(bug: str, hunt: str) -> None:
    known = [NOTICED_AT[bug]] if hunt == FIRST and bug in NOTICED_AT else []
    for seed in (*known, *SEEDS):
        violations = simulate(seed, events=500, mutant=bug).violations
        if violations:
            break
    else:
        pytest.fail(f"{bug} went unnoticed in {len(SEEDS)} seeds")

    assert violations[0].number in NOTICED_BY.get(bug, {violations[0].number}), violations[0]


NEARLY_ALWAYS = ("load_before_acquire", "spans_hide_others", "busy_is_parked_for_ever")
"""Each was noticed by one seed of thirty, so whether one of forty did was luck."""


@pytest.mark.parametrize("bug", NEARLY_ALWAYS)
def test_it_is_the_weather_that_shows_a_bug_and_not_a_lucky_seed(bug: str) -> None:
    noticed = [seed for seed in range(101, 107) if simulate(seed, events=500, mutant=bug).violations]

    assert len(noticed) >= 2, noticed


@pytest.mark.parametrize("bug", NEARLY_ALWAYS)
def test_the_weather_that_shows_a_bug_breaks_nothing_without_it(bug: str) -> None:
    weather = MUTANTS[bug]
    for seed in range(101, 104):
        report = simulate(
            seed, events=500, faults=weather.faults, keys=weather.keys, publish_every_ms=weather.publish_every_ms
        )
        assert not report.violations, str(report)


def test_there_are_at_least_twelve_planted_bugs() -> None:
    assert len(MUTANTS) >= 12
    assert set(NOTICED_BY) <= set(MUTANTS)
