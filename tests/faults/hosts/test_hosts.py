"""A cluster on hosts of its own under fire: a small share here, the rest by `make soak` and on record (record.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support import pgbouncer, postgres
from tests.support.hosts import run_apart, why_no_hosts

pytestmark = [
    pytest.mark.skipif(why_no_hosts() is not None, reason=str(why_no_hosts())),
    pytest.mark.timeout(1_700),
]


def fire(tmp_path: Path, *words: str) -> dict[str, Any]:
    return dict(run_apart("tests.faults.hosts.fire", *words, log=tmp_path / "fire.log", within_s=1_500))


def judge(report: dict[str, Any]) -> None:
    assert report["violations"] == []
    assert (report["lost"], report["reordered"]) == (0, 0)
    assert report["balanced"], "the ledger equation"
    assert report["events"] > 100, "it really was under load"
    assert len(report["back_s"]) == sum(report["faults"].values()), "after each fault it went on by itself"


EVERYTHING = "--failover 3 --frozen-failover 1 --link 15 --kill 5 --freeze 3 --isolate 3 --clock 3 --disk 2"


def soaking(words: str, name: str, *, if_there: bool = True) -> Any:
    missing = pytest.mark.skipif(not if_there, reason=f"this machine does not have what {name} needs")
    return pytest.param(words, id=name, marks=[pytest.mark.soak, missing])


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("--failover 1 --frozen-failover 1 --link 6", id="share"),
        soaking(EVERYTHING, "all"),
        soaking(f"{EVERYTHING} --seed 3 --operated", "operators"),
        soaking(f"{EVERYTHING} --seed 2 --pooled", "pgbouncer", if_there=pgbouncer.program() is not None),
        *(
            soaking(f"{EVERYTHING} --seed {one.major} --major {one.major}", f"pg{one.major}")
            for one in postgres.installations()
        ),
    ],
)
def test_s11_hosts_links_and_the_primary_fail_and_nothing_that_was_acknowledged_is_lost_or_reordered(
    tmp_path: Path, words: str
) -> None:
    judge(fire(tmp_path, *words.split()))
