"""The harness as a whole, in test runs of their own: sharing between workers, and nothing left behind."""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgres import IN_NAMESPACE
from tests.support.processes import Child, until
from tests.support.shared import ServerFailed, shared
from tests.support.tree import ROOT

# Each of the two tests ends only after both have begun, so that two workers must take them.
MEET = """
import json, os, re
from pathlib import Path
import psycopg, pytest
from tests.support.processes import until

FOLDER = Path({folder!r})

@pytest.mark.parametrize("name", ["one", "other"])
def test_meet(name, postgres_url, redis_url, crash_postgres):
    with psycopg.connect(postgres_url) as connection:
        [data] = connection.execute("SHOW data_directory").fetchone()
    report = {{
        "worker": os.environ["PYTEST_XDIST_WORKER"],
        "uid": os.geteuid(),
        "shared": [int(re.findall(r":(\\d+)/", url)[0]) for url in (postgres_url, redis_url)],
        "own": crash_postgres.address.port,
        "data": data,
    }}
    part = FOLDER / f"{{name}}.part"
    part.write_text(json.dumps(report))
    part.rename(FOLDER / f"{{name}}.json")
    until(lambda: {end}, what="the end", within_s=60)
"""
BOTH_BEGAN = '(FOLDER / "one.json").exists() and (FOLDER / "other.json").exists()'


def run_pytest(folder: Path, *, end: str, prefix: tuple[str, ...] = ()) -> Child:
    test = folder / "test_meet.py"
    test.write_text(MEET.format(folder=str(folder), end=end))
    settings = ["-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-n", "2"]
    command = [sys.executable, "-m", "pytest", *settings, str(test)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    return Child([*prefix, *command], log=folder / "log", cwd=ROOT, env={"PYTHONPATH": path})


def reports(folder: Path) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{name}.json").read_text()) for name in ("one", "other")]


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def assert_nothing_is_left(folder: Path) -> None:
    for report in reports(folder):
        for port in (*report["shared"], report["own"]):
            until(lambda port=port: not is_listening(port), what=f"port {port} to close")  # type: ignore[misc]
        until(lambda data=report["data"]: not Path(data).exists(), what="the data to go")  # type: ignore[misc]


def test_a_plain_user_gets_servers_that_workers_share_and_the_run_ends(tmp_path: Path) -> None:
    with run_pytest(tmp_path, end=BOTH_BEGAN, prefix=IN_NAMESPACE if os.geteuid() == 0 else ()) as run:
        assert run.wait(within_s=60) == 0, run.output()

    one, other = reports(tmp_path)
    assert 0 not in (one["uid"], other["uid"])
    assert {one["worker"], other["worker"]} == {"gw0", "gw1"}
    assert one["shared"] == other["shared"]
    assert one["own"] != other["own"]
    assert_nothing_is_left(tmp_path)


def test_no_server_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    with run_pytest(tmp_path, end="False") as run:
        run.wait_until(
            lambda: all((tmp_path / f"{name}.json").exists() for name in ("one", "other")), what="both tests"
        )
        assert all(is_listening(port) for report in reports(tmp_path) for port in (*report["shared"], report["own"]))
        run.send(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL

        assert_nothing_is_left(tmp_path)


def test_a_server_that_cannot_start_says_why_in_one_line() -> None:
    with pytest.raises(ServerFailed, match=r"^postgres did not start: PostgreSQL 9 is missing: found only .*$"):
        shared("postgres", 9)
