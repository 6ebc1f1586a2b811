"""Every fault, goal and attack of the design has tests that are there, or a line that says why not."""

from __future__ import annotations

import pytest
from tools.proof_table import KINDS, PAGE, named, rows, written

COUNTS = {"F": 66, "Q": 27, "S": 42, "R": 15, "V": 20, "J": 15, "T": 4, "K": 6, "D": 7, "O": 5}
"""How many there are of each kind in the design."""


def test_every_row_of_the_design_has_its_tests_or_says_why_not() -> None:
    found = rows()  # which looks for each test

    ids = [row.id for row in found]
    assert {kind: sum(id[0] == kind for id in ids) for kind in KINDS} == COUNTS
    assert len(set(ids)) == len(ids)
    assert all(row.tests or len(row.note) > 20 for row in found)
    assert sum(bool(row.tests) for row in found) >= 190


def test_the_page_shows_the_rows_as_they_are() -> None:
    page = PAGE.read_text()

    assert page == written(page), "run `python -m tools.proof_table`"


@pytest.mark.parametrize("short", ["test_judge::no_such_promise", "test_judge::", "test_nothing::a"])
def test_a_name_that_means_no_test_or_several_is_an_error(short: str) -> None:
    with pytest.raises(LookupError):
        named(short)
