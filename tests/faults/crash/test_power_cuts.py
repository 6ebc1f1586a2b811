"""F9: the power fails under load: what was acknowledged is on the disk, and what owes a delivery is delivered."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.faults.crash.power_cuts import run
from tests.support.tree import SOURCE

pytestmark = [
    pytest.mark.timeout(1_500),
    pytest.mark.skipif(shutil.which("cc") is None, reason="power cuts need a C compiler for power_shim.c"),
]


@pytest.mark.parametrize(
    ("store", "cuts"),
    [
        ("sqlite", 50),
        ("postgres", 2),
        pytest.param("sqlite", 3_000, marks=pytest.mark.soak),
        pytest.param("postgres", 200, marks=pytest.mark.soak),
    ],
)
async def test_f9_a_power_cut_loses_nothing_that_was_acknowledged(store: str, cuts: int) -> None:
    report = await run(store, cuts)

    assert report.violations == []
    assert report.lost == 0
    assert report.cuts == cuts
    assert report.acknowledged > 100 * cuts, "promises were looked for"
    assert report.went_on == report.runs


async def test_f9_power_cuts_notice_a_store_that_does_not_sync_each_commit(tmp_path: Path) -> None:
    """The bug that no other test can see: `synchronous = NORMAL` keeps all through a kill, and not through this."""
    tree = tmp_path / "src"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__", "*.so", "vendor"))
    opened = tree / "hooklane/store/sqlite/database.py"
    planted = opened.read_text().replace("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL")
    assert planted != opened.read_text()
    opened.write_text(planted)

    report = await run("sqlite", 20, source=str(tree))

    assert report.lost > 0
