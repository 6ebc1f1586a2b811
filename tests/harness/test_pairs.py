"""Of the pairs of mode and case `make test` leaves out one mode of each, and no case and no mode."""

from itertools import product

import pytest
from tests.support.pairs import soaks

TESTS = [f"test_{number}" for number in range(20)]


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("stores", [2, 3])
def test_every_case_runs_in_one_mode_and_both_modes_are_seen(test: str, stores: int) -> None:
    kept = [
        (store, mode)
        for store, mode in product(range(stores), range(2))
        if not soaks(test, {"mode": mode, "sql_world": store})
    ]

    assert [store for store, _ in kept] == list(range(stores))
    assert {mode for _, mode in kept} == {0, 1}


def test_over_many_tests_every_pair_is_seen() -> None:
    pairs = list(product(range(3), range(2)))

    seen = {pair for test in TESTS for pair in pairs if not soaks(test, {"world": pair[0], "mode": pair[1]})}

    assert seen == set(pairs)


def test_what_has_no_mode_or_nothing_but_a_mode_runs_whole() -> None:
    assert not any(soaks(test, {"world": store}) for test in TESTS for store in range(3))
    assert not any(soaks(test, {"mode": mode}) for test in TESTS for mode in range(2))


def test_a_name_beside_a_driver_is_no_case_of_its_own() -> None:
    kept = [
        (kind, mode)
        for kind, mode in product(range(4), range(2))
        if not soaks("test", {"way": kind, "kind": kind, "mode": mode})
    ]

    assert [kind for kind, _ in kept] == [0, 1, 2, 3]
    assert {mode for _, mode in kept} == {0, 1}
