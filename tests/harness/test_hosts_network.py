"""Hosts that tests make are apart, and a link between them fails as told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.hosts import run_apart, why_no_hosts

pytestmark = pytest.mark.skipif(why_no_hosts() is not None, reason=str(why_no_hosts()))


def test_links_are_cut_one_way_both_ways_slowed_and_made_lossy(tmp_path: Path) -> None:
    seen = run_apart("tests.harness.link_probe", str(tmp_path), log=tmp_path / "probe.log", within_s=30)

    assert seen == {
        "clear": True,
        "cut": False,
        "healed": True,
        "their answers are cut": False,
        "isolated": False,
        "joined": True,
        "slow is slow": True,
        "lossy loses some": True,
        "hosts have names": "there",
    }
