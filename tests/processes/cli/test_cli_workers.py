"""`hooklane serve --workers`: real processes on PostgreSQL that are told to stop, killed, and left alone."""

import asyncio
import gc
import http.client
import json
import os
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import uvloop
from tests.processes.cli.conftest import Ended
from tests.support.fork_server import fork
from tests.support.pace import scaled_s
from tests.support.processes import Child, until
from tests.support.receiver import Answer, Sink
from tests.support.tree import ROOT, SOURCE

from hooklane.cli.worker_processes import WorkerProcesses
from hooklane.config import Settings
from hooklane.errors import UsageError

WORKERS = 3
SERVE = ["serve", "--no-auth", "--port", "0", "--no-ui", "--workers", str(WORKERS), "--egress-allow", "127.0.0.0/8"]
Process = Callable[..., Ended]


class Site:
    """A server with its workers."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.port = int(child.wait_for_line(r"on http://127\.0\.0\.1:(\d+),")[1])
        child.wait_until(lambda: len(self.workers()) == WORKERS, what="all workers")

    def workers(self) -> dict[str, int]:
        """The pid of whoever has each place now."""
        return {
            place: int(pid) for place, pid in re.findall(r"worker (\d) delivers \(pid (\d+)\)", self.child.output())
        }

    def call(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=scaled_s(20))
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status < 300, text
            return json.loads(text) if answer.getheader("content-type", "").startswith("application/json") else text
        finally:
            connection.close()

    def publish(self, key: str) -> None:
        self.call("POST", "/api/v1/events", {"type": "a", "data": 1, "key": key})


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # one that waits to be buried is dead


def is_left(pid: int) -> bool:
    """Whether anything of it is, and be it what waits to be buried."""
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def serve(postgres_url: str, tmp_path: Path) -> Iterator[Callable[[], Site]]:
    with ExitStack() as running:

        def start() -> Site:
            child = Child(
                [sys.executable, "-m", "tests.processes.cli.quick_leases", *SERVE, "--db", postgres_url],
                log=tmp_path / "serve.log",
                env={"PYTHONPATH": os.pathsep.join([SOURCE, str(ROOT)])},
                cwd=tmp_path,
                born=fork,
            )
            running.enter_context(child)
            running.callback(lambda: print(child.output()))
            return Site(child)

        yield start


def in_order(sink: Sink) -> dict[str, list[int]]:
    """The seqs of each key in the order of their first arrival."""
    seqs: dict[str, list[int]] = defaultdict(list)
    for request in sink.requests:
        key, seq = unquote(request.headers["x-key"]), int(request.headers["x-seq"])
        if seq not in seqs[key]:
            seqs[key].append(seq)
    return seqs


def server_alone(site: Site) -> None:
    site.child.send(signal.SIGTERM)


def control_c(site: Site) -> None:
    """A terminal tells the server and its workers, and then the server tells its workers too."""
    os.killpg(site.child.pid, signal.SIGINT)


@pytest.mark.parametrize("tell", [server_alone, control_c])
def test_told_to_stop_all_workers_finish_what_is_in_flight(
    serve: Callable[[], Site], postgres_url: str, process: Process, tell: Callable[[Site], None]
):
    with Sink(lambda _: Answer(after_s=0.5)) as sink:
        site = serve()
        site.call("POST", "/api/v1/endpoints", {"url": sink.url()})
        for number in range(30):
            site.publish(f"k{number}")
        sink.wait_for(30)
        workers = site.workers()
        tell(site)
        code = site.child.wait()

    assert (code, len(sink.requests)) == (0, 30)
    assert [pid for pid in workers.values() if is_alive(pid)] == []
    assert "Traceback" not in site.child.output()
    lanes = process("lanes", "ls", "--limit", "100", "--db", postgres_url, "--json").json["items"]
    assert [lane for lane in lanes if lane["state"] != "idle"] == []


def test_a_worker_that_is_killed_is_replaced_and_every_key_stays_in_order(serve: Callable[[], Site]):
    keys = [f"k{number}" for number in range(40)]
    with Sink(lambda _: Answer(after_s=0.005)) as sink:
        site = serve()
        site.call("POST", "/api/v1/endpoints", {"url": sink.url(), "backoff_ms": 20, "backoff_cap_ms": 100})
        for _ in range(3):
            for key in keys:
                site.publish(key)
        before = site.workers()
        os.kill(before["2"], signal.SIGKILL)
        for _ in range(3):
            for key in keys:
                site.publish(key)
        expected = {key: [1, 2, 3, 4, 5, 6] for key in keys}
        until(lambda: sum(len(seqs) for seqs in in_order(sink).values()) == 240, what="all events")
        site.child.wait_until(lambda: site.workers()["2"] != before["2"], what="another worker 2")
        after = site.workers()
        metrics = site.child.wait_until(lambda: counted(site), what="the counts of the workers")

    assert in_order(sink) == expected
    assert (after["1"], after["3"], is_alive(after["2"])) == (before["1"], before["3"], True)
    assert "worker 2 ended with -9: another one starts in 0.2 s" in site.child.output()
    # What the killed one counted in its last second went with it, and is not made up.
    assert 100 < metrics <= 240
    assert site.child.stop() == 0


def counted(site: Site) -> int | None:
    text = site.call("GET", "/metrics").decode()
    found = re.findall(r'^hooklane_attempts_total{[^}]*outcome="delivered"} (\d+)', text, re.MULTILINE)
    many = sum(int(number) for number in found)
    return many if many > 100 else None


def test_workers_do_not_outlive_a_server_that_was_killed(serve: Callable[[], Site]):
    site = serve()
    workers = site.workers()
    site.child.kill()

    until(lambda: not any(is_alive(pid) for pid in workers.values()), what="the workers to end")


def test_a_server_whose_workers_cannot_start_ends_and_says_so(postgres_url: str, tmp_path: Path):
    command = [sys.executable, "-m", "tests.processes.cli.quick_leases", *SERVE, "--db", postgres_url]
    env = {"PYTHONPATH": os.pathsep.join([SOURCE, str(ROOT)]), "FAILING_WORKERS": "1"}
    with Child(command, log=tmp_path / "serve.log", env=env, cwd=tmp_path) as child:
        code = child.wait()

    assert code == 1
    assert child.output().count("no room on this host") >= WORKERS
    assert (
        child.output().splitlines()[-1]
        == f"hooklane: HL011 none of the {WORKERS} workers could start, see the lines above"
    )


def test_with_one_sqlite_file_there_is_one_worker(process: Process):
    ended = process("serve", "--no-auth", "--port", "0", "--workers", "2")

    assert (ended.code, ended.out, len(ended.talk)) == (1, "", 1)
    assert "--workers needs PostgreSQL" in ended.err


def test_workers_without_the_role_that_they_have_are_refused(process: Process):
    ended = process("serve", "--no-auth", "--role", "api", "--workers", "2", "--db", "postgresql://127.0.0.1/x")

    assert (ended.code, len(ended.talk), "add deliver to --role" in ended.err) == (1, 1, True)


@pytest.mark.parametrize("many", ["0", "65", "two", "-1"])
def test_a_wrong_number_of_workers_is_one_line(process: Process, many: str):
    ended = process("serve", "--no-auth", "--workers", many)

    assert (ended.code, len(ended.talk)) == (1, 1)
    assert "workers must be a number of processes from 1 to 64" in ended.err


async def test_when_no_worker_can_start_the_server_says_so():
    workers = WorkerProcesses(Settings(workers=2), (sys.executable, "-c", "raise SystemExit(3)"), restart_s=0.01)

    with pytest.raises(ExceptionGroup) as caught:
        await workers.run(lambda *_: None)

    [error] = caught.value.exceptions
    assert isinstance(error, UsageError)
    assert "none of the 2 workers could start" in str(error)


READY_AND_WAITS = "import sys; print('{\"ready\":true}', flush=True); sys.stdin.read()"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_workers_whose_server_gives_up_have_ended_when_it_has(
    caplog: pytest.LogCaptureFixture, new_loop: Callable[[], asyncio.AbstractEventLoop]
):
    caplog.set_level("INFO", "hooklane.workers")

    def pids() -> list[int]:
        return [one.args[1] for one in caplog.records if "delivers (pid" in one.msg]

    async def give_up() -> list[bool]:
        workers = WorkerProcesses(Settings(workers=2), (sys.executable, "-c", READY_AND_WAITS))
        running = asyncio.create_task(workers.run(lambda *_: None))
        async with asyncio.timeout(scaled_s(20)):
            while len(pids()) < 2:  # noqa: ASYNC110 - logs tell nobody
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])
        return [is_left(pid) for pid in pids()]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(give_up()) == [False, False]
    gc.collect()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_workers_that_die_before_they_are_told_anything_are_told_of_as_such(
    monkeypatch: pytest.MonkeyPatch, new_loop: Callable[[], asyncio.AbstractEventLoop]
):
    start = asyncio.create_subprocess_exec

    async def start_and_see_it_die(*command: str, **pipes: Any) -> asyncio.subprocess.Process:
        process = await start(*command, **pipes)
        try:
            await process.wait()
        except asyncio.CancelledError:  # the other one was told of first: this one is known to no other code yet
            process._transport.close()  # type: ignore[attr-defined]
            raise
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_and_see_it_die)

    async def run() -> None:
        await WorkerProcesses(Settings(workers=2), ("false",), restart_s=0.01).run(lambda *_: None)

    with asyncio.Runner(loop_factory=new_loop) as runner, pytest.raises(ExceptionGroup) as caught:
        runner.run(run())

    assert [type(error) for error in caught.value.exceptions] == [UsageError]


READY_AND_GONE = "import sys; sys.stdin.readline(); print('{\"ready\":true}', flush=True)"


async def test_workers_that_die_again_and_again_are_replaced_ever_more_slowly(caplog: pytest.LogCaptureFixture):
    workers = WorkerProcesses(Settings(workers=2), (sys.executable, "-c", READY_AND_GONE), restart_s=0.001)
    running = asyncio.create_task(workers.run(lambda *_: None))

    def pauses_of_the_first() -> list[float]:
        return [one.args[2] for one in caplog.records if one.args and "ended with" in one.msg and one.args[0] == 1]

    async with asyncio.timeout(scaled_s(20)):
        while len(pauses_of_the_first()) < 3:  # noqa: ASYNC110 - logs tell nobody
            await asyncio.sleep(0.01)
    workers.stop()
    await running

    assert pauses_of_the_first()[:3] == [0.001, 0.002, 0.004]


KILLED_WHILE_IT_TELLS = """
import os, sys
sys.stdin.readline()
sys.stdout.write('{"ready":true}\\n{"attempts":{"ep_')
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


async def test_a_worker_that_is_killed_in_the_middle_of_a_line_does_not_end_the_server(
    caplog: pytest.LogCaptureFixture,
):
    workers = WorkerProcesses(Settings(workers=1), (sys.executable, "-c", KILLED_WHILE_IT_TELLS), restart_s=0.001)
    running = asyncio.create_task(workers.run(lambda *_: None))
    async with asyncio.timeout(scaled_s(20)):
        while (  # noqa: ASYNC110 - logs tell nobody
            not running.done() and sum("ended with -9" in message for message in caplog.messages) < 2
        ):
            await asyncio.sleep(0.01)
    assert not running.done()

    workers.stop()
    await running
