"""Small mistakes in the guard, the verifier, the claim, the lane machine, the worker and the judge are noticed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.support.pace import scaled_s
from tests.support.tree import ROOT
from tests.units.mutation.mutator import Mutant, mutants, mutants_of, mutated, sample
from tests.units.mutation.parts import PARTS, SOURCE
from tests.units.mutation.record import EACH, SEED, SURVIVORS, run

SHARE = "judge"
"""The part of which `make test` runs a few mutants, as its tests are the quickest."""


@pytest.mark.parametrize(
    ("part", "many"), [(SHARE, 6), *(pytest.param(part, EACH, marks=pytest.mark.soak) for part in PARTS)]
)
def test_nine_of_ten_mutants_are_killed_and_the_others_are_explained(part: str, many: int) -> None:
    wanted = sample(part, many, SEED)
    if many < EACH:  # to see that one survives takes all of its tests
        wanted = [mutant for mutant in wanted if mutant.name not in SURVIVORS]
    seen = list(run(part, wanted, s_max=scaled_s(1_500)))

    survived = [mutant.name for mutant, verdict in seen if not verdict.by]
    assert len(seen) == len(wanted) > 0
    assert len(survived) <= 0.1 * len(seen), survived
    assert [name for name in survived if name not in SURVIVORS] == [], "explain it in survivors.toml, or write the test"


def test_the_sample_is_of_three_hundred_mutants_at_least() -> None:
    assert sum(len(sample(part, EACH, SEED)) for part in PARTS) >= 300


@pytest.mark.parametrize("part", PARTS)
def test_what_a_part_names_is_there(part: str) -> None:
    paths = [*(SOURCE / module for module in PARTS[part].modules()), *(ROOT / one for one in PARTS[part].tests)]

    assert [path for path in paths if not Path(str(path).partition("::")[0]).exists()] == []


def test_every_survivor_that_is_explained_is_a_mutant() -> None:
    known = {mutant.name for part in PARTS for mutant in mutants_of(part)}

    assert set(SURVIVORS) - known == set()


@pytest.mark.parametrize(
    ("part", "modules"),
    [(part, 1) for part in PARTS] + [pytest.param(part, 3, marks=pytest.mark.soak) for part in PARTS],
)
def test_each_mutant_differs_from_its_module_and_from_every_other(part: str, modules: int) -> None:
    for module in PARTS[part].modules()[:modules]:
        every = [ast.unparse(mutated(one)) for one in mutants(module)]
        plain = ast.unparse(mutated(Mutant(module, -1, "", "", "", 0, 1, False)))

        assert plain not in every
        assert len(set(every)) >= 0.95 * len(every)  # `x < 0` and `0 < x` may meet


def test_a_sample_stays_mostly_the_same_when_a_line_changes() -> None:
    some = sample("worker", 20, SEED)

    assert some == sample("worker", 20, SEED)
    assert set(some) < set(sample("worker", 40, SEED))
    assert set(some) != set(sample("worker", 20, SEED + 1))
