"""An exported scenario is a test that runs as it is: green for a receiver that is right, red for a naive one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.pace import scaled_s

import hooklane
from hooklane.testing.play import SCENARIOS, Play, play
from hooklane.testing.play.export_test import export_test

SOURCE = str(Path(hooklane.__file__).parents[1])

RIGHT = """
import pytest
from hooklane import Inbox


@pytest.fixture
def receiver(webhooks):
    inbox = Inbox("memory://", mode="inline", inline_wait_ms=5_000)
    source = inbox.source("hooklane", secrets=[webhooks.secret("hooklane")])

    @source.on("*")
    def apply(event, tx):
        tx["applied"] = (*tx.get("applied", ()), (event.key, event.seq))
        if event.data.get("poison"):
            raise ValueError("cannot finish")

    yield inbox
    inbox.close()


@pytest.fixture
def applied(receiver):
    return lambda: list(receiver.store.tables.data.get("applied", ()))
"""

NAIVE = """
import json
import pytest


@pytest.fixture
def effects():
    return []


@pytest.fixture
def receiver(effects):
    def receive(request):
        event = json.loads(request.body)
        effects.append((event["key"], event["seq"]))
        return 500 if event["data"].get("poison") else 200

    return receive


@pytest.fixture
def applied(effects):
    return lambda: list(effects)
"""


def run(folder: Path, conftest: str) -> dict[str, str]:
    """What became of each file's test."""
    folder.mkdir()
    (folder / "conftest.py").write_text(conftest)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for scenario in SCENARIOS:
        trace = play(Play(scenario=scenario.name, seed=7))
        (folder / f"test_{scenario.name.replace('-', '_')}.py").write_text(export_test(trace))
    many = play(Play(scenario="lost-ack", seed=3, events=40))
    (folder / "test_lost_ack_many.py").write_text(export_test(many, more=" --events 40"))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "hooklane.testing.plugin", "-p", "no:cacheprovider", "-rA", "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCE, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=scaled_s(120),
    )
    words = [line.split() for line in ended.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    assert len(words) == len(SCENARIOS) + 1, ended.stdout + ended.stderr
    return {word[1].partition(".py")[0]: word[0] for word in words}


def test_every_preset_is_green_for_a_right_handler_and_red_for_a_naive_one(tmp_path: Path) -> None:
    right, naive = run(tmp_path / "right", RIGHT), run(tmp_path / "naive", NAIVE)

    assert set(right.values()) == {"PASSED"}, right
    assert set(naive.values()) == {"FAILED"}, naive


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_an_exported_file_is_python_that_names_how_it_was_made(name: str) -> None:
    text = export_test(play(Play(scenario=name, seed=5)), more=" --keys 3")

    compile(text, name, "exec")
    assert f"hooklane simulate {name} --seed 5 --keys 3" in text
