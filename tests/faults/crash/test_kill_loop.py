"""kill -9 of the whole server, again and again under load: nothing lost, nothing reordered."""

from __future__ import annotations

import pytest
from tests.faults.crash.kill_loop import CLIENTS, KEYS_EACH, run


@pytest.mark.parametrize("kills", [40, pytest.param(400, marks=pytest.mark.soak)])
async def test_s11_kills_under_load_lose_and_reorder_nothing(kills: int):
    report = await run(kills, seed=20260301)

    assert report.violations == []
    assert (report.lost, report.reordered) == (0, 0)
    assert report.unexplained == 0
    assert report.copies <= kills * CLIENTS * KEYS_EACH
    assert report.events > kills  # it really was under load
    assert report.integrity == "ok"
