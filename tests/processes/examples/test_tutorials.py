"""The tutorials, followed as printed, each in an empty folder (tests/support/printed.py), with one installation."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.pace import scaled_s
from tests.support.packages import built_wheel
from tests.support.printed import Block, Person, blocks, chosen_ports, environment, packages_of, with_ports
from tests.support.processes import http_status, until
from tests.support.tree import ROOT

TUTORIALS = ROOT / "docs" / "tutorials"
PAGES = sorted(page.stem for page in TUTORIALS.glob("*.md"))


@dataclass(frozen=True, slots=True)
class Installed:
    """What the first block of every tutorial makes, made once: an environment with the wheel and the extras named."""

    folder: Path
    packages: Path
    wheels: Path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("tutorials")
    packages = packages_of("test.lock", home / "packages")
    wheels = built_wheel(home / "wheels").parent
    env = environment(home, {8000: 8000, 8787: 8787}, packages, wheels)
    lines = sorted({block.text for page in PAGES for block in told(page) if installs(block)}, key=len)
    for line in lines:
        words = ["bash", "-ec", line]
        subprocess.run(words, cwd=home, env=env, check=True, capture_output=True, timeout=scaled_s(120))
    return Installed(home, packages, wheels)


def told(page: str) -> list[Block]:
    return blocks((TUTORIALS / f"{page}.md").read_text("utf-8"))


def installs(block: Block) -> bool:
    return "pip install" in block.text


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_can_be_followed_as_printed_from_an_empty_folder(
    page: str, installed: Installed, tmp_path: Path, running: ExitStack
):
    ports = chosen_ports(running)
    env = environment(tmp_path, ports, installed.packages, installed.wheels)
    env["PATH"] = f"{installed.folder / '.venv' / 'bin'}:{env['PATH']}"
    (tmp_path / "empty").mkdir()
    person = Person(tmp_path / "empty", env, running)

    for step in blocks(with_ports((TUTORIALS / f"{page}.md").read_text("utf-8"), ports)):
        if not installs(step):
            person.follow(step)

    assert "Traceback" not in person.shell.output()
    for port in ports.values():
        until(lambda port=port: http_status(f"http://127.0.0.1:{port}/") is None, what=f"port {port} to be free again")
    for file in person.folder.glob("*.db"):
        db = sqlite3.connect(file)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()


def test_every_tutorial_asks_at_its_end_and_has_the_answers_folded():
    for page in PAGES:
        _, _, end = (TUTORIALS / f"{page}.md").read_text("utf-8").partition("## Check yourself")
        asked = re.findall(r'<details markdown="1"><summary>(.+?\?)</summary>\n\n(.+?)\n\n</details>', end, re.DOTALL)
        assert len(asked) in (2, 3), page
