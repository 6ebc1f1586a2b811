"""What `hooklane doctor` makes of what it was told."""

import pytest

from hooklane.core import doctor
from hooklane.core.doctor import DAY_MS, Finding

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("finding", "state"),
    [
        (doctor.schema(4, 4), "ok"),
        (doctor.schema(3, 4), "wrong"),
        (doctor.schema(5, 4), "wrong"),
        (doctor.clock(12.4), "ok"),
        (doctor.clock(-1_500), "look"),
        (doctor.clock(40_000), "wrong"),
        (doctor.sqlite_file("wal", None, 0), "ok"),
        (doctor.sqlite_file("delete", None, 0), "wrong"),
        (doctor.sqlite_file("wal", "row 7 missing from index", 0), "wrong"),
        (doctor.sqlite_file("wal", None, 2**30), "look"),
        (doctor.page_files(31, []), "ok"),
        (doctor.page_files(30, ["main.js"]), "wrong"),
        (doctor.free_disk(10 * 2**30, 2**28), "ok"),
        (doctor.free_disk(2**29, 2**28), "look"),
        (doctor.free_disk(2**27, 2**28), "wrong"),
        (doctor.permissions("a.db", 0o600, 0o600), "ok"),
        (doctor.permissions("a.db", 0o644, 0o600), "wrong"),
        (doctor.certificate("shop", 90), "ok"),
        (doctor.certificate("shop", 20), "look"),
        (doctor.certificate("shop", 2), "wrong"),
        (doctor.certificate("shop", -1), "wrong"),
        (doctor.certificate("shop", None, "no answer"), "wrong"),
        (doctor.retention(30 * DAY_MS, 30 * DAY_MS, DAY_MS), "ok"),
        (doctor.retention(2 * DAY_MS, 30 * DAY_MS, DAY_MS), "look"),
        (doctor.retention(30 * DAY_MS, HOUR_MS, DAY_MS), "look"),
        (doctor.dedup_retention("stripe", 30 * DAY_MS, 3 * DAY_MS), "ok"),
        (doctor.dedup_retention("stripe", 2 * DAY_MS, 3 * DAY_MS), "look"),
        (doctor.versions("3.12", "0.1", (3, 51, 3)), "ok"),
        (doctor.versions("3.12", "0.1", (3, 40, 1)), "look"),
    ],
    ids=lambda one: f"{one.name} {one.detail}" if isinstance(one, Finding) else one,
)
def test_each_check_is_fine_worth_a_look_or_wrong(finding: Finding, state: str):
    assert finding.state == state


def test_what_is_wrong_says_what_to_do():
    assert "hooklane migrate up" in doctor.schema(3, 4).advice
    assert doctor.permissions("a.db", 0o644, 0o600).advice == "chmod 600 a.db"
    assert doctor.dedup_retention("s", 2 * DAY_MS, 3 * DAY_MS).detail == (
        "dedup retention 2 d < sender retry window 3 d"
    )
    assert doctor.certificate("shop", 2.2).detail == "TLS certificate expires in 2 d"


@pytest.mark.parametrize(
    ("is_standby", "commit", "names", "standbys", "state"),
    [
        (False, "on", "", 0, "ok"),
        (False, "on", "replica", 1, "ok"),
        (False, "on", "", 1, "look"),
        (False, "off", "", 0, "look"),
        (False, "local", "replica", 1, "look"),
        (False, "local", "", 0, "ok"),
        (True, "on", "", 0, "wrong"),
    ],
)
def test_a_standby_is_told_when_a_failover_would_lose(
    is_standby: bool, commit: str, names: str, standbys: int, state: str
):
    found = doctor.standby(is_standby=is_standby, synchronous_commit=commit, standby_names=names, standbys=standbys)

    assert found.state == state


def test_the_retry_window_is_the_sum_of_all_waits():
    assert doctor.retry_window_ms(1, 1_000, 3_600_000) == 0
    assert 3_000 <= doctor.retry_window_ms(3, 1_000, 3_600_000) <= 3_750
    assert 23 * HOUR_MS < doctor.retry_window_ms(35, 1_000, HOUR_MS) < 31 * HOUR_MS
