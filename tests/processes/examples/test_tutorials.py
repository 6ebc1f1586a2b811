"""The tutorials, followed as printed, each in an empty folder (tests/support/printed.py), with one installation."""

from __future__ import annotations

import re
import sqlite3
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.processes.examples.conftest import Installed
from tests.support.printed import Block, Person, blocks, chosen_ports, with_ports
from tests.support.processes import http_status, until
from tests.support.tree import ROOT

TUTORIALS = ROOT / "docs" / "tutorials"
PAGES = sorted(page.stem for page in TUTORIALS.glob("*.md"))
SHARE = ("first-sender", "see-it-work")
"""Followed by `make test`, which follows the README as well; `make soak` follows all of them."""


def installs(block: Block) -> bool:
    return "pip install" in block.text


@pytest.mark.parametrize("page", [pytest.param(one, marks=() if one in SHARE else pytest.mark.soak) for one in PAGES])
def test_a_tutorial_can_be_followed_as_printed_from_an_empty_folder(
    page: str, installed: Installed, tmp_path: Path, running: ExitStack
):
    ports = chosen_ports(running)
    env = installed.environment(tmp_path, ports)
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
