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


@pytest.mark.parametrize(
    ("store", "cuts", "file", "right", "wrong"),
    [
        ("sqlite", 20, "sqlite/database.py", "synchronous = FULL", "synchronous = NORMAL"),
        pytest.param(
            *("postgres", 10, "postgres/outbox/publish_in_one.sql"),
            *("'synchronous_commit', 'on'", "'synchronous_commit', 'off'"),
            marks=pytest.mark.soak,
        ),
    ],
)
async def test_f9_power_cuts_notice_a_store_that_does_not_sync_each_commit(
    store: str, cuts: int, file: str, right: str, wrong: str, tmp_path: Path
) -> None:
    """The bug that no other test can see: it keeps all through a kill, and not through a power cut."""
    tree = tmp_path / "src"
    shutil.copytree(SOURCE, tree, ignore=shutil.ignore_patterns("__pycache__", "*.so", "vendor"))
    planted = tree / "hooklane/store" / file
    text = planted.read_text()
    assert text.count(right) == 1
    planted.write_text(text.replace(right, wrong))

    report = await run(store, cuts, source=str(tree))

    assert report.lost > 0
