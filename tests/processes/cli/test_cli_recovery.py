"""Back to work after a death: where a process of this machine is certainly dead, its lease is not waited for."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.processes.cli.conftest import SOURCE
from tests.processes.cli.test_cli_workers import ROOT, Site
from tests.support.processes import Child, until
from tests.support.receiver import Answer, Sink

from hooklane.model.worker_name import ProcessIdentity, WorkerName, worker_name_of
from hooklane.sender.process_identity import is_dead, is_gone_for, names_of_this_process, this_process

TEN_MINUTES_MS = 600_000
"""A lease that no test waits for."""
SERVE = ["serve", "--no-auth", "--port", "0", "--no-ui", "--egress-allow", "127.0.0.0/8"]

Start = Callable[..., Child]


@pytest.fixture
def start(postgres_url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a server whose leases last ten minutes, on this test's PostgreSQL."""
    with ExitStack() as children:

        def start(*more: str, **env: str) -> Child:
            command = [sys.executable, "-m", "tests.processes.cli.quick_leases", *SERVE, "--db", postgres_url, *more]
            paths = os.pathsep.join([SOURCE, str(ROOT)])
            log = tmp_path / f"serve{len(list(tmp_path.iterdir()))}.log"
            env = {"PYTHONPATH": paths, "LEASE_MS": str(TEN_MINUTES_MS), **env}
            return children.enter_context(Child(command, log=log, env=env, cwd=tmp_path))

        yield start


class Lone(Site):
    """A server that delivers by itself."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.port = int(child.wait_for_line(r"on http://127\.0\.0\.1:(\d+),")[1])


def seqs(sink: Sink) -> list[int]:
    """In the order of their first arrival: what was not on record as delivered is sent once more."""
    return list(dict.fromkeys(int(request.headers["x-seq"]) for request in sink.requests))


def test_a_server_that_was_killed_delivers_at_once_when_it_is_started_again(start: Start):
    with Sink(lambda _: Answer(after_s=0.001)) as sink:
        first = Lone(start())
        first.call("POST", "/api/v1/endpoints", {"url": sink.url()})
        first.publish("k")
        until(lambda: len(sink.requests) == 1, what="the first event")
        first.child.kill()

        second = Lone(start())
        second.publish("k")
        until(lambda: 2 in seqs(sink), what="an event after the restart")

    assert seqs(sink) == [1, 2]


def test_a_worker_takes_over_from_one_that_was_killed_on_its_host(start: Start):
    with Sink(lambda _: Answer(after_s=0.001)) as sink:
        first = Lone(start())
        first.call("POST", "/api/v1/endpoints", {"url": sink.url(), "timeout_ms": 2_000})
        first.publish("k")
        until(lambda: len(sink.requests) == 1, what="the first event")
        second = Lone(start(LEASE_MS="4000"))  # so that it looks at the roster each second
        first.child.kill()
        for number in range(20):
            second.publish(f"k{number}")
        until(lambda: len({request.headers["x-key"] for request in sink.requests}) == 21, what="all keys")


def test_a_replica_with_a_name_of_its_own_takes_over_from_the_one_before_it(start: Start):
    with Sink(lambda _: Answer(after_s=0.001)) as sink:
        first = Lone(start(HOOKLANE_WORKER_NAME="web-0"))
        first.call("POST", "/api/v1/endpoints", {"url": sink.url()})
        first.publish("k")
        until(lambda: len(sink.requests) == 1, what="the first event")
        os.kill(first.child.pid, signal.SIGSTOP)  # for the one that comes, it could as well be on another host
        try:
            second = Lone(start(HOOKLANE_WORKER_NAME="web-0"))
            second.publish("k")
            until(lambda: 2 in seqs(sink), what="an event after the restart")
        finally:
            os.kill(first.child.pid, signal.SIGCONT)

    assert seqs(sink) == [1, 2]


# --- which process is dead ---


def identity_of(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    return ProcessIdentity(process.pid, ticks, this_process().place)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_a_process_that_lives_or_is_stopped_is_not_dead(sleeper: subprocess.Popen[bytes]):
    process = identity_of(sleeper)
    assert not is_dead(process, process.place)

    sleeper.send_signal(signal.SIGSTOP)

    assert not is_dead(process, process.place)
    assert not is_dead(this_process(), process.place)


def test_a_killed_process_is_dead_before_and_after_its_parent_has_noticed(sleeper: subprocess.Popen[bytes]):
    process = identity_of(sleeper)
    sleeper.kill()

    until(lambda: is_dead(process, process.place), what="the zombie")
    sleeper.wait()
    assert is_dead(process, process.place)


def test_a_pid_that_was_given_out_again_is_another_process(sleeper: subprocess.Popen[bytes]):
    process = identity_of(sleeper)
    before = ProcessIdentity(process.pid, process.started - 1, process.place)

    assert is_dead(before, process.place)


def test_of_a_process_elsewhere_nothing_is_certain(sleeper: subprocess.Popen[bytes]):
    sleeper.kill()
    sleeper.wait()
    for place in ("", "0123456789abcdef"):
        assert not is_dead(ProcessIdentity(sleeper.pid, 1, place), this_process().place)


def test_names_tell_their_process_and_none_is_used_twice():
    new_name = names_of_this_process()
    one, other = new_name(), new_name()

    assert one != other
    name = worker_name_of(one)
    assert name is not None
    assert (name.process, name.is_fixed, str(name)) == (this_process(), False, one)
    assert not is_gone_for()(one)


@pytest.mark.parametrize(
    "text", ["", "web1-4711-9f3a2b1c", "a:1.2@xyz:00000000", "w" * 65 + ":1.2@:00000000", "a:1.2@:0\n"]
)
def test_a_name_of_another_form_may_be_anywhere(text: str):
    assert worker_name_of(text) is None
    assert not is_gone_for("a")(text)


def test_a_label_is_the_operators_word_only_where_both_have_it_from_the_operator():
    elsewhere = ProcessIdentity(1, 1, "0123456789abcdef")
    fixed, found = (str(WorkerName("web-0", is_fixed, elsewhere, "00000000")) for is_fixed in (True, False))

    assert is_gone_for("web-0")(fixed)
    assert not is_gone_for("web-0")(found)
    assert not is_gone_for("web-1")(fixed)
    assert not is_gone_for()(fixed)
