"""`hooklane bench`: a real server beside your database, which is not touched, and what its receiver must notice."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.cli.conftest import Ended
from tests.processes.cli.test_cli_whole_group import members
from tests.support.processes import Child

from hooklane.cli.bench_load import Seen
from hooklane.cli.bench_scratch import scratch
from hooklane.cli.exits import CallFailed

Cli = Callable[..., Ended]


def test_it_measures_beside_the_database_and_leaves_nothing(cli: Cli, db: Path):
    ended = cli("bench", "--seconds", "1", "--connections", "8", "--new-keys", "--p95-max", "0.001", "--json")
    found = ended.json

    assert ended.code == 7, "nothing arrives within a microsecond"
    assert "p95" in ended.err
    assert (found["v"], found["lost"], found["reordered"], found["repeated"], found["refused"]) == (1, 0, 0, 0, 0)
    assert found["events"] > 0 < found["events_per_second"]
    assert 0 < found["arrival_ms"]["p50"] <= found["arrival_ms"]["p95"] <= found["arrival_ms"]["p99"]
    assert list(db.parent.glob("*bench*")) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_one_that_is_told_to_end_leaves_neither_server_nor_database(
    start_hooklane: Callable[..., Child], tmp_path: Path, number: signal.Signals
):
    (tmp_path / "data").mkdir()
    child = start_hooklane("bench", "--db", "sqlite:///data/h.db", "--seconds", "60", "--connections", "2")
    child.wait_for_line("the same requests to a server")

    os.kill(child.pid, number)

    assert child.wait(within_s=60) == 130, "as after Ctrl-C"
    assert "Traceback" not in child.output()
    assert members(child.pid) == []
    assert list((tmp_path / "data").iterdir()) == []


def delivered(*seqs: int) -> Seen:
    seen = Seen()
    for seq in seqs:
        seen.note(b"post / http/1.1\r\nx-key: a\r\nx-seq: %d" % seq, b'{"order":1,"at":1.5}')
    return seen


def test_the_receiver_tells_copies_and_wrong_order_apart():
    in_order, twice, overtaken = delivered(1, 2, 3), delivered(1, 1, 2), delivered(1, 3, 2)

    assert (in_order.distinct, in_order.repeated, in_order.reordered) == (3, 0, 0)
    assert (twice.distinct, twice.repeated, twice.reordered) == (2, 1, 0)
    assert overtaken.reordered == 1
    assert len(in_order.lates_ms) == 3


def test_without_a_folder_it_says_what_to_name(tmp_path: Path):
    with pytest.raises(CallFailed, match="--db"), scratch(f"sqlite:///{tmp_path}/none/x.db"):
        pass
