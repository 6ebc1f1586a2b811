"""Small mistakes in the guard, the verifier, the claim, the lane machine, the worker and the judge are noticed."""

from __future__ import annotations

import json

import pytest
from tests.support.pace import scaled_s
from tests.support.tree import ROOT
from tests.units.mutants import MODULES, Mutant, mutants, mutated, run, sample

RECORDED = ROOT / "tests/units/mutants.jsonl"
"""The last whole run: each mutant of a sample, and whether a test killed it."""
SHARE = 3


@pytest.mark.parametrize("many", [SHARE, pytest.param(60, marks=pytest.mark.soak)])
def test_most_mutants_are_killed(many: int) -> None:
    """A few of those that were killed when all of the sample were run; the soak takes more of them."""
    killed = [one for one in map(json.loads, RECORDED.read_text().splitlines()) if one["killed"]]
    judged = [one for one in killed if one["name"].startswith("core/judge.py")]
    wanted = [Mutant("core/judge.py", one["number"], 0, one["name"]) for one in judged[:many]]

    found = list(run(wanted, scaled_s(240)))

    assert [(mutant, True) for mutant in wanted] == found


def test_the_record_is_of_a_sample_of_300_of_which_nine_of_ten_were_killed() -> None:
    recorded = [json.loads(line) for line in RECORDED.read_text().splitlines()]

    assert len({one["name"] for one in recorded}) >= 300
    assert sum(one["killed"] for one in recorded) >= 0.9 * len(recorded)


def test_a_mutant_differs_from_its_module_in_one_place() -> None:
    first = sample(1, seed=7)[0]

    assert mutated(first) != mutated(first._replace(number=-1))
    assert mutated(first) == mutated(first)


def test_every_module_has_mutants_or_is_a_table() -> None:
    assert [module for module in MODULES if not mutants(module)] == ["core/machine.py"]
