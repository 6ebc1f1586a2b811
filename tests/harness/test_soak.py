"""`make test` is quick and leaves out no kind of proof: what is long has a smaller case there, and soaks in full."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.pace import scaled_s
from tests.support.tree import ROOT

MARK = "mark." + "soak"
MAKEFILE = (ROOT / "Makefile").read_text().replace("\\\n", " ")


def cases(files: list[Path], wanted: str) -> set[str]:
    """The tests that `pytest -m` *wanted* selects, without their parameters; of a suite that is a class, its file."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "--collect-only", "-m", wanted, *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=scaled_s(60), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    return {name if name.count("::") == 1 else name.partition("::")[0] for name in names}


def words(name: str) -> set[str]:
    (line,) = re.findall(rf"^{name} := (.*)$", MAKEFILE, re.MULTILINE)
    return set(line.split())


def recipe(target: str) -> str:
    (found,) = re.findall(rf"^{target}:(?! MINUTES).*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    return str(found)


def test_every_test_that_soaks_has_a_smaller_case_in_make_test() -> None:
    marking = {file for file in (ROOT / "tests").rglob("*.py") if MARK in file.read_text()}
    files = {file for file in marking if file.name.startswith("test_")}
    # A conftest.py marks cases of a product, as of drivers or stores, in some files of its folder.
    beside = {one for file in marking if file.name == "conftest.py" for one in file.parent.glob("test_*.py")}
    every = sorted(files | beside)

    soaking = cases(every, "soak")

    found = {ROOT / name.partition("::")[0] for name in soaking}
    assert files - found == set()
    assert {file.parent for file in beside} - {file.parent for file in found} == set()
    assert soaking - cases(every, "not soak") == set()


def test_kill_loops_and_the_hunt_for_planted_bugs_soak() -> None:
    soaking = [file.stem for file in (ROOT / "tests").rglob("test_*.py") if MARK in file.read_text()]

    assert {"test_kill_loop", "test_many_workers", "test_planted_bugs", "test_simulator"} <= set(soaking)


def test_make_test_and_make_soak_select_by_the_mark_and_together_leave_out_nothing() -> None:
    assert 'ON_SOURCE = $(PYTEST) -m "not soak"\n' in MAKEFILE
    assert "$(ON_SOURCE) --ignore=tests/faults/sim\n" in recipe("test-source")
    assert "test-source && $(MAKE) test-compiled)" in recipe("test")
    assert "tests/faults/sim" in words("AGAIN_SHARE"), "which the run on the source leaves out"
    assert '-m "soak or hypothesis"' in recipe("soak")
    assert "AGAIN_SHARE" in recipe("test-compiled")
    assert "$(AGAIN)" in recipe("soak")


def test_what_make_test_runs_on_the_compiled_tree_is_a_share_of_what_soaks_there() -> None:
    whole, share = words("AGAIN"), words("AGAIN_SHARE")

    assert share
    for one in share:
        path = one.partition("::")[0]
        assert (ROOT / path).exists(), path
        assert any(path == at or path.startswith(f"{at}/") for at in whole), f"{one} is not run by make soak"
