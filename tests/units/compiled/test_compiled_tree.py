"""What ships compiled is the same program: these run on the plain source and on build/compiled (`make test`)."""

import copy
import dataclasses
import importlib
import os
import pickle
import subprocess
import sys
import traceback
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from tests.support.pace import scaled_s
from tools import compiled

import hooklane
from hooklane.core.entry import admit_type
from hooklane.errors import InvalidEvent
from hooklane.model.attempt import DELIVERED, Cancel, Dead, Gone, Retry, Send, Settlement, Start
from hooklane.model.clock import Instant
from hooklane.model.endpoint import Endpoint
from hooklane.model.event import Event
from hooklane.model.exchange import Answer, Failure, NoAnswer, Target, Timings
from hooklane.model.health import BreakerState, Health
from hooklane.model.lane import Grown, LaneId, LaneRow
from hooklane.model.redelivery import Redelivery

NOW = Instant(1_750_000_000_000)
TREE = Path(os.environ.get("HOOKLANE_TEST_TREE", compiled.SOURCE))
"""The tree that this run says it tests."""
EVENT = Event("evt_1", "order.created", "k", b"{}", NOW)
SEND = Send(LaneId(1), 2, 3, 0, "k", 4, 3, 1, EVENT, Endpoint(id="ep_1", url="https://x.example/", created_at=NOW), NOW)
VALUES = [
    DELIVERED,
    Retry(NOW, "again"),
    Dead("no", gap=True),
    Gone("410"),
    Start(LaneId(1), 2, 3, 4, 5),
    Cancel(LaneId(1), 2, 3, 4, 5),
    NoAnswer(Failure.TIMEOUT, Timings(1.0), "late", True),
    Target("ep", "https://x.example/"),
    Health("ep", 1, BreakerState.OPEN, NOW),
    LaneRow(LaneId(1), 2, "ep", "k", 3, 4),
    EVENT,
    Redelivery("evt_1", "order.created", "k", b"{}", NOW, lane_id=LaneId(1), lane_key="k", seq=3, prev_seq=2),
    Grown(LaneId(1), 2, "ep", "k", 3, EVENT),
    Settlement(SEND, DELIVERED, NOW, Answer(200, Timings(1.0)), b"POST"),
    Answer(200, Timings(1.0)),
]


def test_a_run_tests_the_tree_that_it_says():
    assert Path(hooklane.__file__).parents[1] == TREE


@pytest.mark.parametrize("name", compiled.modules())
def test_every_module_of_the_list_is_compiled_in_the_one_tree_and_plain_in_the_other(name):
    file = importlib.import_module(name).__file__

    assert file.endswith(tuple(EXTENSION_SUFFIXES)) is (TREE != compiled.SOURCE)


def test_a_traceback_names_the_line_of_the_source():
    with pytest.raises(InvalidEvent) as caught:
        admit_type("no type at all")

    last = traceback.extract_tb(caught.tb)[-1]
    assert last.filename.endswith("hooklane/core/entry.py")
    assert "raise InvalidEvent(" in (TREE / "hooklane/core/entry.py").read_text().splitlines()[last.lineno - 1]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_the_nouns_can_be_copied_and_pickled(value):
    assert [value] * 3 == [copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))]


def test_a_frozen_noun_stays_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Retry(NOW, "again").reason = "never"  # type: ignore[misc]


def test_without_a_c_compiler_nothing_is_built_and_one_line_says_so(tmp_path):
    made = _build(tmp_path / "tree", CC="no-such-compiler")

    assert (made.returncode, made.stdout) == (
        0,
        "not compiled, the plain source is used: no C compiler (no-such-compiler)\n",
    )
    assert not (tmp_path / "tree").exists()


def test_a_compiled_wheel_is_never_a_plain_one_by_accident(tmp_path):
    made = _build(tmp_path / "tree", "--must", CC="no-such-compiler")

    assert made.returncode == 1
    assert made.stderr == "not compiled: no C compiler (no-such-compiler)\n"


def _build(folder: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.compiled", str(folder), *options]
    return subprocess.run(
        command,
        cwd=compiled.ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=scaled_s(60),
        check=False,
    )
