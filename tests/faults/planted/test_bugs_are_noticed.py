"""A bug that is planted in the source turns the suite red that is named for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.faults.planted.bugs import BUGS
from tests.faults.planted.planting import SOURCE, Bug, Copy, copy_of_the_source
from tests.support.tree import ROOT

SHARE = ("a redirect is a success", "synchronous = NORMAL")
"""Those of which `make test` sees that planting works at all: one in Python, one that no plain test of results sees."""


@pytest.fixture(scope="module")
def copy() -> Iterator[Copy]:
    with copy_of_the_source() as copy:
        yield copy


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, id=bug.name, marks=[] if bug.name in SHARE else [pytest.mark.soak]) for bug in BUGS],
)
def test_its_suite_turns_red(bug: Bug, copy: Copy) -> None:
    found = copy.noticed(bug)

    assert found.test, f"{bug.name} went unnoticed by {bug.suite}"


def test_there_are_bugs_in_every_part() -> None:
    places = Counter(bug.where for bug in BUGS)

    assert len(BUGS) >= 40
    assert {"core", "store", "receiver", "sender", "server"} <= set(places)
    assert sum(bug.file.endswith(".sql") for bug in BUGS) >= 15
    assert len({bug.name for bug in BUGS}) == len(BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_it_can_be_planted_and_its_suite_is_there(bug: Bug) -> None:
    assert (SOURCE / "hooklane" / bug.file).read_text().count(bug.text) == 1
    for word in bug.suite.split(" "):
        assert (ROOT / word.partition("::")[0]).exists(), word
