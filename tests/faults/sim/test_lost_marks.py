"""A store that crashes gives numbers out once more, and a poll may miss what it should tell: nothing is stranded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hooklane.testing.sim import simulate
from hooklane.testing.sim.faults import CRASHING, MISSING, ROUGH

SEEDS = range(1, 11)


def test_a_worker_whose_mark_was_lost_joins_anew_and_finds_everything() -> None:
    reports = [simulate(seed, events=400, faults=CRASHING, keys=1_000) for seed in SEEDS]

    assert [one.violations for one in reports] == [()] * len(reports)
    assert sum(one.counts["joined anew"] for one in reports) > 10
    assert sum(one.counts["found by a sweep"] for one in reports) == 0, "polls tell everything, as long as marks hold"


def test_a_worker_whose_mark_was_lost_finds_everything_in_rough_weather_too() -> None:
    faults = replace(ROUGH, store_crash_every_ms=900)
    reports = [simulate(seed, events=400, faults=faults) for seed in SEEDS]

    assert [one.violations for one in reports] == [()] * len(reports)
    assert sum(one.counts["joined anew"] for one in reports) > 10


@pytest.mark.parametrize("faults", [MISSING, replace(ROUGH, store_slow=0.0, poll_misses=0.1)], ids=["calm", "rough"])
def test_what_polls_miss_a_sweep_finds_and_counts(faults) -> None:
    reports = [simulate(seed, events=400, faults=faults, keys=1_000) for seed in SEEDS]

    assert [one.violations for one in reports] == [()] * len(reports)
    assert sum(one.counts["found by a sweep"] for one in reports) > 10


@pytest.mark.parametrize("bug", ["mark_outlives_its_session", "polls_miss_and_nobody_sweeps"])
def test_without_either_events_are_stranded(bug: str) -> None:
    stuck = [
        seed for seed in SEEDS[:5] if any(one.number == 19 for one in simulate(seed, events=400, mutant=bug).violations)
    ]

    assert len(stuck) >= 3


def test_a_slow_store_is_no_news_that_polls_have_missed() -> None:
    """A lane that a person has recovered was counted while the look into the store was still under way."""
    assert simulate(6, events=300, faults=ROUGH).counts["found by a sweep"] == 0
