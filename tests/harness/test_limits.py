"""A run of the tests ends, whatever hangs in it, and says what it was."""

import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.pace import SLOWEST, remembered, scaled_ms, scaled_s, slowness, slowness_of
from tests.support.processes import Child, until
from tests.support.tree import ROOT

from hooklane.store.reads import Page
from hooklane.testing.paging import all_pages

WITHIN_S = 60
BOUND = "\n    deadline = time.monotonic() + 250  # so that this very test has an end\n"

SWALLOWS = f"""
import asyncio, time, pytest
@pytest.mark.parametrize("n", range(5))
def test_before(n): pass
async def test_hangs():
    async def busy():{BOUND.replace("    ", "        ")}
        while time.monotonic() < deadline:
            sum(range(1_000))
    await asyncio.wait([asyncio.create_task(busy())])
    await asyncio.sleep(250)
@pytest.mark.parametrize("n", range(5))
def test_after(n): pass
"""
SPINS = """
def test_before(): pass
def test_hangs():
    sum(range(10**10))  # some minutes, without letting go of the interpreter lock
"""
WAITS = """
import subprocess, sys
def test_before(): pass
def test_hangs():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(250)"])
"""
SLEEPS = """
import pathlib, time
def test_sleeps():
    pathlib.Path({begun!r}).touch()
    time.sleep(250)
"""
OWN_HOOKS = "from tests.conftest import pytest_configure, pytest_unconfigure\n"


def pytest_words(folder: Path, test: str, *more: str) -> list[str]:
    """A run of *test* with the settings of this project."""
    (folder / "conftest.py").write_text(OWN_HOOKS)
    (folder / "test_it.py").write_text(test)
    settings = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={folder}", *more]
    return [sys.executable, "-m", "pytest", *settings, str(folder)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=scaled_s(WITHIN_S), check=False
    )


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.soak), "2"])
def test_a_test_that_hangs_in_a_task_ends_the_run_red_and_shows_where(tmp_path: Path, workers: str) -> None:
    limits = ("-o", "timeout=4", "-o", "faulthandler_timeout=3")

    done = run(pytest_words(tmp_path, SWALLOWS, "-n", workers, *limits))

    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"test_it\.py\W+line \d+ in busy", done.stderr), done.stderr
    if workers != "0":  # alone, the process that would sum up is the one that is ended
        assert "crashed while running 'test_it.py::test_hangs'" in done.stdout
        assert "1 failed, 10 passed" in done.stdout, "the others have run, and the one that hangs only once"


@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.soak), "2"])
@pytest.mark.parametrize("test", [pytest.param(SPINS, marks=pytest.mark.soak), WAITS], ids=["in_c", "in_a_child"])
def test_what_lets_no_other_thread_run_and_what_waits_for_a_child_ends_too(
    tmp_path: Path, workers: str, test: str
) -> None:
    limits = ("-o", "timeout=8", "-o", "faulthandler_timeout=3")
    began = time.monotonic()

    within = [sys.executable, "-m", "tests.support.within", "4"]
    done = run([*within, *pytest_words(tmp_path, test, "-n", workers, *limits)])

    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"test_it\.py\W+line \d+ in test_hangs", done.stderr), done.stderr
    assert workers == "0" or "crashed while running 'test_it.py::test_hangs'" in done.stdout
    assert time.monotonic() - began < 240, "its output is closed, so the child is gone with it"


def test_a_run_that_is_told_to_quit_says_what_is_running_and_where(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    words = pytest_words(tmp_path, SLEEPS.format(begun=str(begun)), "-n", "2", "-vv")
    with Child(words, log=tmp_path / "log", env=environment(), cwd=ROOT) as child:
        # With -v the run itself says which test has begun: it hears of it a moment after the worker has begun it.
        child.wait_until(lambda: "test_sleeps" in child.output() and begun.exists(), what="a test", within_s=WITHIN_S)
        os.killpg(child.pid, signal.SIGQUIT)
        status = child.wait(within_s=WITHIN_S)

    assert status == 124, child.output()
    assert re.search(r"running for \d+ s: test_it\.py::test_sleeps", child.output()), child.output()
    # The run and its workers write at the same moment, each piece by piece, so a line of one may lie within another's.
    assert "test_sleeps" in child.output().replace("test_it.py::test_sleeps", ""), child.output()


def test_a_run_over_its_limit_is_told_to_quit_and_what_stays_deaf_is_killed_with_its_children() -> None:
    deaf = "import signal, subprocess, sys, time; signal.signal(signal.SIGQUIT, lambda *_: print('deaf', flush=True))"
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(250)'])"
    limits = f"{scaled_s(1)}, sys.argv[1:], last_words_s=0.5"
    script = f"import sys\nfrom tests.support.within import run_within\nsys.exit(run_within({limits}))"
    began = time.monotonic()

    done = run([sys.executable, "-c", script, sys.executable, "-c", f"{deaf}; {child}; time.sleep(250)"])

    assert done.returncode == 124
    assert "still running after" in done.stdout
    assert "deaf" in done.stdout
    assert time.monotonic() - began < 200, "its output is closed, so no process of the group is left"


def test_within_its_limit_the_status_is_the_commands_own() -> None:
    within = [sys.executable, "-m", "tests.support.within", "1", sys.executable, "-c"]

    assert run([*within, "raise SystemExit(7)"]).returncode == 7
    assert run([*within, f"import os; os.kill(os.getpid(), {signal.SIGKILL:d})"]).returncode == 128 + signal.SIGKILL


FAILS_ONCE = """
import pathlib, pytest
seen = pathlib.Path(__file__).with_name("seen")
@pytest.mark.parametrize("n", range({many}))
def test_fails_at_first(n):
    one = seen.with_suffix(f".{{n}}")
    one.touch() if not one.exists() else None
    assert len(one.read_text()) == {marks}, one.write_text("x")
def test_passes(): pass
"""


@pytest.mark.parametrize(
    ("many", "marks", "status", "told"),
    [
        (2, 1, 0, "failed beside others, passed alone: test_it.py::test_fails_at_first[1]"),
        pytest.param(
            *(2, 2, 1, "failed beside others, see above alone: test_it.py::test_fails_at_first[1]"),
            marks=pytest.mark.soak,
        ),
        pytest.param(6, 1, 1, "6 failed, 1 passed", marks=pytest.mark.soak),
    ],
    ids=["passes alone", "fails alone", "too many"],
)
def test_a_few_that_fail_beside_others_are_run_once_more_alone_and_named(
    tmp_path: Path, many: int, marks: int, status: int, told: str
) -> None:
    words = pytest_words(tmp_path, FAILS_ONCE.format(many=many, marks=marks), "-n", "2")

    done = run([sys.executable, "-m", "tests.support.alone", "4", *words])

    assert done.returncode == status, done.stdout + done.stderr
    assert told in done.stdout


@pytest.mark.parametrize(
    ("took_s", "load", "expected"),
    [(0.001, 0.1, 1), (0.012, 2.0, 1), (0.048, 1.0, 4), (0.012, 10.0, 5), (9, 99, SLOWEST)],
)
def test_a_deadline_grows_with_the_work_that_takes_longer_and_with_the_load(
    took_s: float, load: float, expected: float
) -> None:
    assert slowness_of(took_s=took_s, load=load, cores=2) == pytest.approx(expected)


def test_a_machine_that_was_slow_is_thought_to_be_slow_for_a_while() -> None:
    assert [remembered(5, since_s) for since_s in (0, 20, 40, math.inf)] == [5, 3, 2, 1]


def test_a_machine_that_is_made_busy_is_seen_to_be_slower() -> None:
    bound_s = scaled_s(20)
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", f"import time\nend = time.time() + {bound_s}\nwhile time.time() < end: pass"]
        )
        for _ in range(4 * (os.cpu_count() or 1))
    ]
    try:
        until(lambda: slowness() >= 1.5, what="a deadline that grows")
        assert scaled_ms(100) >= 100
    finally:
        for one in crowd:
            one.kill()
            one.wait()


async def test_a_listing_whose_pages_never_end_fails_instead_of_hanging() -> None:
    async def read(cursor: str | None) -> Page[int]:
        return Page((1,), "again")

    with pytest.raises(AssertionError, match="there is still a next page"):
        await all_pages(read)
