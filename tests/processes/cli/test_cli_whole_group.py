"""A signal to the whole process group, as systemd, containers, `timeout` and a terminal send it, is a quiet end."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.processes import Child, free_port, until

WITHIN_S = 60


def members(group: int) -> list[int]:
    """The processes of a group that live, from what the system says of each."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, pgrp = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue  # it ended just now
            if int(pgrp) == group and state != "Z":
                found.append(int(entry.name))
    return found


def serving(start: Callable[..., Child], *options: str) -> Child:
    port = free_port()
    child = start("serve", "--no-auth", "--port", str(port), *options)
    child.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200, within_s=WITHIN_S)
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_to_the_whole_group_ends_a_server_on_sqlite_with_0(
    start_hooklane: Callable[..., Child], tmp_path: Path, number: signal.Signals
):
    child = serving(start_hooklane, "--db", f"sqlite:///{tmp_path}/h.db")
    assert len(members(child.pid)) == 2, "a server and the process that writes for it"

    os.killpg(child.pid, number)

    assert child.wait(within_s=WITHIN_S) == 0, child.output()
    until(lambda: not members(child.pid), what="the end of the whole group", within_s=WITHIN_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_to_the_whole_group_ends_a_server_that_only_just_starts(
    start_hooklane: Callable[..., Child], tmp_path: Path, number: signal.Signals
):
    child = start_hooklane("serve", "--no-auth", "--port", "0", "--db", f"sqlite:///{tmp_path}/h.db")
    until(lambda: len(members(child.pid)) == 2, what="the process that writes", within_s=WITHIN_S)

    os.killpg(child.pid, number)

    assert child.wait(within_s=WITHIN_S) == 0, child.output()
    until(lambda: not members(child.pid), what="the end of the whole group", within_s=WITHIN_S)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_to_the_whole_group_ends_a_server_with_workers_with_0(
    start_hooklane: Callable[..., Child], postgres_url: str, number: signal.Signals
):
    child = serving(start_hooklane, "--db", postgres_url, "--workers", "2")
    child.wait_for_line("worker 1 delivers")
    child.wait_for_line("worker 2 delivers")

    os.killpg(child.pid, number)

    assert child.wait(within_s=WITHIN_S) == 0, child.output()
    assert "another one starts" not in child.output()
    until(lambda: not members(child.pid), what="the end of the whole group", within_s=WITHIN_S)


def test_a_killed_server_leaves_no_writer_behind(start_hooklane: Callable[..., Child], tmp_path: Path):
    child = serving(start_hooklane, "--db", f"sqlite:///{tmp_path}/h.db")

    os.kill(child.pid, signal.SIGKILL)

    until(lambda: not members(child.pid), what="the end of the writer", within_s=WITHIN_S)
