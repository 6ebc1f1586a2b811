"""A process from the fork server is what `python -m hooklane …` is: its words, folder, environment, output and end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fork_server import Forked, fork
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port, http_status, until
from tests.support.tree import SOURCE

HOOKLANE = [sys.executable, "-m", "hooklane"]
TELLS = (
    "import os, sys; print(os.getcwd(), os.environ.get('TOLD'), sys.argv[1:], flush=True); sys.exit(int(sys.argv[1]))"
)


def child(folder: Path, *words: str, module: str = "hooklane", **env: str) -> Child:
    path = os.pathsep.join([SOURCE, str(folder)])
    command = [sys.executable, "-m", module, *words]
    return Child(command, log=folder / "log", env={"PYTHONPATH": path, **env}, cwd=folder, born=fork)


@pytest.mark.parametrize("code", [0, 7])
def test_it_has_its_own_words_folder_and_environment_and_ends_with_its_own_code(tmp_path: Path, code: int):
    (tmp_path / "tells.py").write_text(TELLS)
    with child(tmp_path, str(code), module="tells", TOLD="what it was told") as one:
        assert isinstance(one._process, Forked)
        assert one.wait() == code
    assert one.output() == f"{tmp_path} what it was told ['{code}']\n"


def test_what_it_prints_is_there_at_once_where_python_is_told_not_to_buffer(tmp_path: Path):
    (tmp_path / "waits.py").write_text("print('begun'); import time; time.sleep(60)")
    with child(tmp_path, module="waits", PYTHONUNBUFFERED="1") as one:
        one.wait_for_line("begun")


def test_an_error_that_nobody_catches_is_a_traceback_and_the_code_1(tmp_path: Path):
    (tmp_path / "fails.py").write_text("1 / 0")
    with child(tmp_path, module="fails") as one:
        assert one.wait() == 1
    assert "ZeroDivisionError" in one.output()


def test_a_server_is_frozen_thawed_stopped_and_killed_like_any_other(tmp_path: Path):
    port = free_port()
    words = ("serve", "--no-auth", "--port", str(port), "--db", f"sqlite:///{tmp_path}/x.db")
    with child(tmp_path, *words) as one:
        one.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200)
        assert os.getpgid(one.pid) == os.getsid(one.pid) == one.pid
        one.freeze()
        one.thaw()
        assert http_status(f"http://127.0.0.1:{port}/healthz") == 200
        assert one.stop() == 0
    with child(tmp_path, *words) as one:
        one.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200)
        one.kill()
        assert one.returncode == -signal.SIGKILL
    until(lambda: http_status(f"http://127.0.0.1:{port}/healthz") is None, what="a port that is free again")


def test_a_process_that_is_waited_for_in_vain_says_so(tmp_path: Path):
    (tmp_path / "waits.py").write_text("import time; time.sleep(60)")
    with child(tmp_path, module="waits") as one, pytest.raises(subprocess.TimeoutExpired):
        one._process.wait(0.01)


def test_where_the_environment_says_what_is_loaded_it_begins_from_nothing(tmp_path: Path):
    with (tmp_path / "log").open("wb") as log:
        env = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONHASHSEED": "7"}
        started = fork([*HOOKLANE, "--version"], env=env, stdout=log, stderr=log)
        assert isinstance(started, subprocess.Popen)
        assert started.wait(scaled_s(60)) == 0
