"""What a benchmark kept is what the next one is compared with: a loss is named, noise and other machines are not."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from bench.report import Figure, losses

MACHINE, BUILD = "2 cores, 8 GiB, load average 0.1 before", "compiled"
BEFORE = Figure(
    scenario="end to end",
    variant="postgres",
    rates=[10_000.0],
    cpu_us={"gateway": 60.0, "database": 40.0, "sink": 10.0, "load": 10.0},
    elsewhere=[0.1],
)


def kept(figure: Figure) -> dict[str, Any]:
    return {"machine": MACHINE, "hooklane": BUILD, "figures": [asdict(figure)]}


def costing(gateway: float, **parts: float) -> Figure:
    return replace(BEFORE, cpu_us={**BEFORE.cpu_us, "gateway": gateway, **parts})


def test_a_loss_of_more_than_a_twentieth_is_named():
    (lost,) = losses([costing(66.0)], kept(BEFORE), "2 cores, 8 GiB, load average 2.0 before", BUILD)

    assert "106 µs" in lost
    assert "100 before" in lost


@pytest.mark.parametrize(
    ("now", "before", "machine", "build"),
    [
        (costing(64.0), BEFORE, MACHINE, BUILD),
        (costing(60.0, load=50.0, sink=50.0), BEFORE, MACHINE, BUILD),
        (costing(90.0), BEFORE, "8 cores, 8 GiB, load average 0.1 before", BUILD),
        (costing(90.0), BEFORE, MACHINE, "interpreted"),
        (replace(costing(90.0), elsewhere=[1.5]), BEFORE, MACHINE, BUILD),
        (costing(90.0), replace(BEFORE, elsewhere=[1.5]), MACHINE, BUILD),
        (costing(90.0), replace(BEFORE, variant="sqlite"), MACHINE, BUILD),
    ],
    ids=["within", "not ours", "other machine", "other build", "busy now", "busy then", "not measured then"],
)
def test_what_says_nothing_about_the_code_is_no_loss(now: Figure, before: Figure, machine: str, build: str):
    assert losses([now], kept(before), machine, build) == []


def test_the_first_run_has_nothing_to_lose():
    assert losses([BEFORE], None, MACHINE, BUILD) == []
