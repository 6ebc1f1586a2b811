"""Plants bugs, one after the other, in a copy of the source, and runs the suite that must notice each.

`python -m tests.faults.planted.planting [words of a name…]` plants those of bugs.toml (all, or by name),
and prints rows of the table in docs/explain/proof.md: where, what, which test turned red, and after how many seconds.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.support.pace import scaled_s
from tests.support.tree import ROOT

SOURCE = ROOT / "src"
PLUGINS_OFF = [word for name in ("schemathesis", "playwright") for word in ("-p", f"no:{name}")]
"""No suite here needs them, and they take longer to load than most bugs live."""
TEST_S_MAX = 60
"""A test that hangs under a bug has noticed it as well; it need not hang for long."""
SUITE_S_MAX = 240
HANGS = " (hangs)"
_RED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+?::\S+)", re.MULTILINE)


class Bug(NamedTuple):
    """In *file*, *text* becomes *instead*; *suite* (words for pytest) must turn red."""

    name: str
    file: str
    text: str
    instead: str
    suite: str

    @property
    def where(self) -> str:
        return self.file.partition("/")[0]


class Found(NamedTuple):
    """The first test that turned red ("" where none did), and after how many seconds."""

    test: str
    took_s: float


class Copy:
    """A copy of the source in which one bug at a time is planted."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "src"
        shutil.copytree(SOURCE, self.source, ignore=shutil.ignore_patterns("*.so"))

    @contextmanager
    def planted(self, bug: Bug) -> Iterator[None]:
        file = Path("hooklane", bug.file)
        text = (SOURCE / file).read_text()
        assert text.count(bug.text) == 1, f"{bug.file} has {text.count(bug.text)} times {bug.text!r}"
        (self.source / file).write_text(text.replace(bug.text, bug.instead))
        try:
            yield
        finally:
            shutil.copy2(SOURCE / file, self.source / file)  # with its old time: what was compiled of it is stale

    def noticed(self, bug: Bug) -> Found:
        """Run the suite of *bug* with it, up to the first test that fails; without it that test must pass."""
        began = time.monotonic()
        with self.planted(bug):
            red = self._first_red(bug.suite.split(" "))
        took_s = time.monotonic() - began
        if red and not red.endswith(HANGS):
            assert not self._first_red([red.partition("[")[0]]), f"{red} is red without any bug as well"
        return Found(red, took_s)

    def _first_red(self, words: list[str]) -> str:
        """The first test of *words* that fails on the copy as it is now, or ""."""
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-x", "-m", "not soak", "--tb=no", "-rfE"]
        command += ["-o", f"pythonpath={self.source} .", "-o", f"timeout={int(scaled_s(TEST_S_MAX))}"]
        environment = {**os.environ, "PYTHONPATH": f"{self.source}{os.pathsep}{ROOT}"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # most of the copy stays as it is from bug to bug
        done = subprocess.run(
            [*command, *PLUGINS_OFF, *words],
            cwd=ROOT,
            env=environment | {"PYTHONPYCACHEPREFIX": str(self.source.parent / "compiled")},
            capture_output=True,
            text=True,
            timeout=scaled_s(SUITE_S_MAX),
            check=False,
        )
        if done.returncode == 0:
            return ""
        if red := _RED.search(done.stdout):
            return red[1]
        if "Timeout" in done.stdout + done.stderr:
            return words[0] + HANGS
        raise AssertionError(f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


@contextmanager
def copy_of_the_source() -> Iterator[Copy]:
    with TemporaryDirectory(prefix="planted-") as folder:
        yield Copy(Path(folder))


def row_of(bug: Bug, found: Found) -> str:
    """A line of the table."""
    test = f"`{found.test.rpartition('/')[2].partition('[')[0]}`" if found.test else "**nothing**"
    return f"| `{bug.file}` | {bug.name} | {test} | {found.took_s:.0f} |"


def main() -> None:
    from tests.faults.planted.bugs import BUGS

    words = " ".join(sys.argv[1:])
    with copy_of_the_source() as copy:
        for bug in BUGS:
            if words in bug.name:
                print(row_of(bug, copy.noticed(bug)), flush=True)


if __name__ == "__main__":
    main()
