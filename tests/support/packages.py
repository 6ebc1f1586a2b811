"""The packages that a user installs: built from this tree, and beside them only what they ask for."""

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.support.pace import scaled_s
from tests.support.tree import ROOT

EPOCH = "1700000000"


def build(folder: Path, *targets: str, tree: Path = ROOT) -> None:
    """Build what `make dist` does into *folder*: `wheel`, `sdist`, or both."""
    words = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    for target in targets:
        words += ["--target", target]
    env = {**os.environ, "HOOKLANE_COMPILE": "", "SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run(words, cwd=tree, env=env, check=True, capture_output=True, timeout=scaled_s(60))


def built_wheel(folder: Path) -> Path:
    build(folder, "wheel")
    (wheel,) = folder.glob("hooklane-*.whl")
    return wheel


def link(names: Iterable[str], folder: Path) -> Path:
    """These packages alone, from the environment of the tests: what is not named is missing there."""
    folder.mkdir()
    for name in names:
        with suppress(PackageNotFoundError):  # of another platform
            package = distribution(name)
            for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
                if not (folder / top).is_symlink():  # some share a folder
                    (folder / top).symlink_to(str(package.locate_file(top)))
    return folder


def needed(requirements: Iterable[str], extra: str = "") -> set[str]:
    """The names of all packages that *requirements* bring on this machine, with those that they bring in turn."""
    found: set[str] = set()
    waiting = [(Requirement(text), extra) for text in requirements]
    done: set[tuple[str, str]] = set()
    while waiting:
        one, of = waiting.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": of}):
            continue
        name = canonicalize_name(one.name)
        for wanted in ["", *one.extras]:
            if (name, wanted) not in done:
                done.add((name, wanted))
                found.add(name)
                theirs = list(requirements) if name == "hooklane" else distribution(name).requires or ()
                waiting += [(Requirement(text), wanted) for text in theirs]
    return found - {"hooklane"}
