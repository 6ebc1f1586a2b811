"""One installation of the built wheel for all pages that are typed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.once import once_per_run
from tests.support.pace import scaled_s
from tests.support.packages import built_wheel
from tests.support.printed import environment, packages_of
from tests.support.tree import ROOT


@dataclass(frozen=True, slots=True)
class Installed:
    """What the first block of every tutorial makes, made once: an environment with the wheel and the extras named."""

    folder: Path
    packages: Path
    wheels: Path

    def environment(self, home: Path, ports: dict[int, int]) -> dict[str, str]:
        env = environment(home, ports, self.packages, self.wheels)
        env["PATH"] = f"{self.folder / '.venv' / 'bin'}:{env['PATH']}"
        return env


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built wheel."""
    return once_per_run(tmp_path_factory, "wheels", built_wheel)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Installed:
    home = once_per_run(tmp_path_factory, "installed", lambda home: _install(home, wheels))
    return Installed(home, home / "packages", wheels)


def _install(home: Path, wheels: Path) -> None:
    packages = packages_of("test.lock", home / "packages")
    env = environment(home, {8000: 8000, 8787: 8787}, packages, wheels)
    pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
    lines = {line for page in pages for line in re.findall(r"^pip install .*$", page, re.MULTILINE)}
    words = ["python3 -m venv .venv", ". .venv/bin/activate", *sorted(lines, key=len)]
    subprocess.run(
        ["bash", "-ec", "\n".join(words)], cwd=home, env=env, check=True, capture_output=True, timeout=scaled_s(120)
    )


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack
