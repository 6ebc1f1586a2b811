"""Small mistakes in the guard, the verifier, the claim, the lane machine, the worker and the judge are noticed."""

from __future__ import annotations

import pytest
from tests.support.pace import scaled_s
from tests.units.mutants import MODULES, SURVIVORS, mutants, mutated, run, sample

SEED = 1


@pytest.mark.parametrize("many", [3, pytest.param(320, marks=pytest.mark.soak)])
def test_nine_of_ten_mutants_are_killed(many: int) -> None:
    wanted = sample(many, SEED) if many > 3 else mutants("core/judge.py")[10:13]
    survived: list[str] = []
    for module in MODULES:
        if some := [one for one in wanted if one.module == module]:
            survived += [mutant.name for mutant, killed in run(some, scaled_s(1_500)) if not killed]

    assert len(survived) <= 0.1 * many, survived
    assert [name for name in survived if name not in SURVIVORS] == [], "explain it in SURVIVORS, or write the test"


def test_a_mutant_differs_from_its_module_in_one_place() -> None:
    first = sample(1, seed=7)[0]

    assert mutated(first) != mutated(first._replace(number=-1))
    assert mutated(first) == mutated(first)


def test_every_module_has_mutants_or_is_a_table() -> None:
    assert [module for module in MODULES if not mutants(module)] == ["core/machine.py"]
