"""Of the pairs of mode and case `make test` leaves out one mode of each, and no case and no mode."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from tests.support.pairs import MODES, soaking

NAMES = [f"test_{number}" for number in range(20)]


def kept(name: str, cases: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one, soaks in zip(cases, soaking([(name, one) for one in cases]), strict=True) if not soaks]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stores", [2, 3])
def test_every_case_runs_in_one_mode_and_both_modes_are_seen(name: str, stores: int) -> None:
    cases = [{"world": store, "mode": mode} for store, mode in product(range(stores), MODES)]

    seen = kept(name, cases)

    assert [one["world"] for one in seen] == list(range(stores))
    assert {one["mode"] for one in seen} == set(MODES)


def test_over_many_tests_every_pair_of_a_mode_and_a_store_is_seen() -> None:
    cases = [{"world": store, "mode": mode} for store, mode in product(range(3), MODES)]

    seen = [one for name in NAMES for one in kept(name, cases)]

    assert all(one in seen for one in cases)


@pytest.mark.parametrize(
    "cases",
    [
        [{"world": store} for store in range(3)],
        [{"mode": mode} for mode in MODES],
        [{"kind": number, "mode": MODES[number % 2]} for number in range(4)],
        [{"world": store, "mode": "any"} for store in range(3)],
        [{"sql_world": 1, "mode": "inline"}],
        [{}],
    ],
    ids=[
        "no mode",
        "nothing but a mode",
        "cases that name their mode",
        "another mode",
        "one that was chosen",
        "one test",
    ],
)
def test_what_is_no_pair_runs_whole(cases: list[Mapping[str, Any]]) -> None:
    for name in NAMES:
        assert kept(name, cases) == cases


def test_a_name_that_comes_with_a_driver_is_no_case_of_its_own() -> None:
    seen = kept("test", [{"way": kind, "kind": kind, "mode": mode} for kind, mode in product(range(4), MODES)])

    assert [one["kind"] for one in seen] == [0, 1, 2, 3]
    assert {one["mode"] for one in seen} == set(MODES)
