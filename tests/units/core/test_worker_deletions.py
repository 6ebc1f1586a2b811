"""No rule of `core/worker/` and `core/engine/` can be deleted unnoticed, and the page that says so is true."""

from __future__ import annotations

import pytest
from tests.units.core.deletions import DELETIONS, ROOT, caught_by

PROOF = ROOT / "docs/explain/proof.md"
SHARE = (1, 34)
"""Those of which `make test` sees that deleting works at all."""


def row_of(number: int) -> str:
    [row] = [line for line in PROOF.read_text().splitlines() if line.startswith(f"| {number + 1} |")]
    return row


@pytest.mark.parametrize(
    "number",
    [number if number in SHARE else pytest.param(number, marks=pytest.mark.soak) for number in range(len(DELETIONS))],
    ids=lambda number: DELETIONS[number].rule,
)
def test_a_test_turns_red_without_the_rule(number: int) -> None:
    found = caught_by(number)

    assert found.startswith("test_"), found
    assert found in row_of(number)


def test_every_rule_that_is_deleted_is_still_there() -> None:
    """A rule that was written anew is deleted no more: two were not, for a day, since only `make soak` deletes them."""
    gone = [deletion.rule for deletion in DELETIONS if deletion.text not in deletion.path.read_text()]

    assert gone == []


def test_the_page_tells_of_every_deletion() -> None:
    for number, deletion in enumerate(DELETIONS):
        assert f"`{deletion.file}` | {deletion.rule} |" in row_of(number)
