"""Failovers to the synchronous standby under load, some of them after it was frozen: a few here, 20 in `make soak`."""

import asyncio
from typing import Any

import pytest
from tests.faults.crash import inbox_failover
from tests.faults.crash.failover import run
from tests.support.hosts import why_no_hosts

rounds = pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.soak)])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(
            2,
            marks=pytest.mark.skipif(
                why_no_hosts() is None, reason="two run on hosts of their own: tests/faults/hosts"
            ),
        ),
        pytest.param(20, marks=pytest.mark.soak),
    ],
)
async def test_a_failover_to_the_synchronous_standby_loses_and_reorders_nothing_that_was_acknowledged(
    rounds: int,
) -> None:
    report = await run(rounds, frozen_every=2)

    assert report.seen is not None
    assert report.seen.violations == ()
    assert (report.seen.lost, report.seen.reordered) == (0, 0)
    assert len(report.back_s) == rounds, "the workers go on by themselves"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["durable", "inline"])
@rounds
async def test_a_failover_loses_nothing_that_an_inbox_has_answered_and_doubles_no_effect(
    mode: Any, rounds: int
) -> None:
    report = await asyncio.to_thread(inbox_failover.run, rounds, mode=mode, frozen_every=2)

    assert (report.lost, report.twice) == (set(), [])
    assert report.duplicates > 0
