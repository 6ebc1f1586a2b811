"""What the READMEs of the Node examples say is done as printed, with `npm ci` from npm's cache alone."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.processes.interop.kit import PRODUCER
from tests.processes.interop.readme import Shell, steps
from tests.support.node import CONSUMER
from tests.support.postgres import Postgres
from tests.support.processes import free_port


@pytest.fixture
def databases(postgres_server: Postgres, postgres_url: str):
    with postgres_server.fresh_database() as second:
        yield postgres_url, second


def copied(example: Path, tmp_path: Path) -> Path:
    return shutil.copytree(example, tmp_path / example.name, ignore=shutil.ignore_patterns("node_modules"))


def test_the_commands_of_the_consumers_readme_do_what_they_say(tmp_path, databases) -> None:
    folder = copied(CONSUMER, tmp_path)
    instead = {
        "postgresql://localhost/bank": databases[0],
        "postgresql://localhost/hooklane": databases[1],
        "3000": str(free_port()),
        "8787": str(free_port()),
    }
    with Shell(folder) as shell:
        for step in steps(folder / "README.md", instead):
            shell.run(step)

    assert json.loads((folder / "endpoint.json").read_text())["state"] == "active"
    assert [lane["seq"] for lane in json.loads((folder / "event.json").read_text())["lanes"]] == [1]


def test_the_commands_of_the_producers_readme_do_what_they_say(tmp_path, databases) -> None:
    folder = copied(PRODUCER, tmp_path)
    instead = {"postgresql://localhost/hooklane": databases[0], "8787": str(free_port())}
    with Shell(folder) as shell:
        for step in steps(folder / "README.md", instead):
            shell.run(step)

    first, second = ({tuple(json.loads(line).items())[:2] for line in run.splitlines()} for run in shell.outputs)
    assert first == second, "the same names, the same ids"
    assert len(first) == 4


@pytest.mark.parametrize("example", [CONSUMER, PRODUCER], ids=lambda one: one.name)
def test_a_readme_is_one_screen_and_leads_nowhere_in_vain(example: Path) -> None:
    text = (example / "README.md").read_text()

    assert len(text.splitlines()) <= 45
    links = re.findall(r"\]\((?!http)([^)#]+)", text)
    assert [link for link in links if not (example / link).exists()] == []


def test_the_lock_pins_every_package_by_hash_and_names_no_index() -> None:
    lock = json.loads((CONSUMER / "package-lock.json").read_text())["packages"]
    packages = {name: package for name, package in lock.items() if name}

    assert {"node_modules/express", "node_modules/pg"} <= packages.keys()
    assert [name for name, package in packages.items() if not package["integrity"].startswith("sha512-")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []
