"""The sender keeps its promises in worlds where everything fails, and the simulator tells the same story twice."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from tests.faults.sim import at_size
from tests.support.pace import scaled_s

from hooklane.testing.sim import NONE, POISONED, ROUGH, SLOW, Faults, Report, simulate

CRASHING = replace(Faults(), crash_every_ms=180)


def run(seeds: range, events: int, faults: Faults) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        report = simulate(seed, events=events, faults=faults)
        assert not report.violations, str(report)
        counts += report.counts
    return counts


PARTS, SHARE = 12, 4
EVENTS, CRASHES = 300_000 // PARTS, 3_000 // PARTS


# 300,000 events with 3,000 crashes, in parts so that they can run side by side; a third of them in `make test`.
@pytest.mark.parametrize(
    "part", [*range(SHARE), *(pytest.param(part, marks=pytest.mark.soak) for part in range(SHARE, PARTS))]
)
def test_nothing_is_lost_or_reordered_at_size(part: int) -> None:
    counts: Counter[str] = Counter()
    seed = at_size.FIRST_SEED - 1_000 * (part + 1)  # none that a soak has
    while counts["published"] < EVENTS or counts["crash"] < CRASHES:
        _, seen, broken = at_size.run(seed, at_size.EVENTS_OF_WORLD)
        assert not broken, broken
        counts += seen
        seed += 1

    assert counts["store failed over"] + counts["store crashed"] >= 1
    assert counts["delivered"] >= 0.9 * EVENTS


@cache
def rough() -> Counter[str]:
    """What happened in some rough worlds, whose events go to several endpoints each."""
    return run(range(2_003, 2_009), 600, ROUGH)


def test_nothing_is_lost_or_reordered_when_the_store_is_the_worst_part() -> None:
    counts = rough()

    assert counts["store reply lost"] >= 50
    assert counts["dead"] >= 50


def test_old_news_and_busy_people_do_no_harm() -> None:
    counts = run(range(3_002, 3_008), 500, SLOW)

    assert counts["replayed"] >= 25
    assert counts["skipped"] >= 25


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_events_that_kill_their_workers_are_given_up_and_no_other_event_is_blamed(part: int) -> None:
    counts = run(range(5_000 + 3 * part, 5_003 + 3 * part), 2_000, POISONED)

    assert counts["killed"] >= 50
    assert counts["dead with its workers"] >= 3


@pytest.mark.parametrize("weather", [CRASHING, ROUGH, SLOW], ids=["crashing", "rough", "slow"])
def test_killers_among_all_other_faults_break_no_promise(weather: Faults) -> None:
    counts = run(range(6_002, 6_004), 500, replace(weather, killers=0.01))

    assert counts["killed"] >= 2


def test_in_a_perfect_world_everything_is_sent_exactly_once() -> None:
    report = simulate(7, events=1_000, faults=NONE)

    assert not report.violations
    assert report.counts["sent"] == report.delivered > 1_000


def test_every_fault_happens() -> None:
    """A fault that never strikes proves nothing."""
    counts = rough()

    expected = {
        "crash",
        "stall",
        "left",
        "lease lost",
        "handed over",
        "store down",
        "store call lost",
        "store reply lost",
        "store clock jumped",
        "store crashed",
        "request lost",
        "request late",
        "request doubled",
        "reply lost",
        "dead",
        "given up",
        "replayed",
        "skipped",
        "paused",
        "resumed",
        "deleted",
    }
    assert expected <= {what for what, count in counts.items() if count}


def test_a_seed_tells_the_same_story_twice() -> None:
    def story(report: Report) -> tuple[int, Counter[str], int]:
        return report.trace_hash, report.counts, report.simulated_ms

    assert story(simulate(42, events=400)) == story(simulate(42, events=400))
    assert simulate(42, events=400).trace_hash != simulate(43, events=400).trace_hash


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    script = "from hooklane.testing import simulate; print(simulate(42, events=200).trace_hash)"

    hashes = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": salt, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=scaled_s(60),
        ).stdout
        for salt in ("1", "2")
    }

    assert hashes == {f"{simulate(42, events=200).trace_hash}\n"}
