"""Seeds that once found something find nothing any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.faults.sim import at_size

from hooklane.testing.sim import ROUGH, SLOW, Faults, simulate

WEATHER = {"usual": Faults(), "rough": ROUGH, "slow": SLOW}


def seeds() -> list[tuple[int, int, str]]:
    lines = Path(__file__).with_name("seeds.txt").read_text().splitlines()
    rows = [line.split(maxsplit=3) for line in lines if line and not line.startswith("#")]
    return [(int(seed), int(events), weather) for seed, events, weather, _ in rows]


@pytest.mark.parametrize(("seed", "events", "weather"), seeds())
def test_a_seed_that_failed_once_stays_clean(seed: int, events: int, weather: str) -> None:
    if weather == "sized":
        assert at_size.run(seed, events)[2] == ""
        return
    report = simulate(seed, events=events, faults=WEATHER[weather])

    assert not report.violations, str(report)
