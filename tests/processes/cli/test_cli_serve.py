"""`hooklane serve` and its failures, as real processes: one clear line each, no traceback."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.cli.conftest import Ended
from tests.support.processes import Child, free_port, http_status, until
from tests.support.receiver import Answer, Sink
from tests.support.tree import SOURCE

from hooklane.cli.main import run

Process = Callable[..., Ended]
NO_AUTH = ("serve", "--no-auth", "--port", "0")


def only_line(ended: Ended, code: int = 1) -> str:
    assert (ended.code, ended.out) == (code, ""), ended
    [line] = ended.talk
    assert line.startswith("hooklane: ")
    return line


def test_without_a_key_it_does_not_start(process: Process):
    assert "HOOKLANE_API_KEY" in only_line(process("serve", "--port", "0"))


def test_without_a_key_it_is_not_open_to_others(process: Process):
    line = only_line(process("serve", "--no-auth", "--host", "0.0.0.0", "--port", "0"))

    assert "--no-auth only works on the loopback" in line


def test_a_busy_port_is_one_line(process: Process):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]

        line = only_line(process("serve", "--no-auth", "--port", str(port)))

    assert line == f"hooklane: HL011 cannot listen on 127.0.0.1:{port}: Address already in use"


def test_an_unknown_host_is_one_line(process: Process):
    assert "cannot listen on" in only_line(process("serve", "--host", "no.such.host.invalid", "--port", "0", env=KEY))


KEY = {"HOOKLANE_API_KEY": "a-key-for-the-tests"}


# Nobody can create a file in /proc, not even root, as whom these tests may run.
@pytest.mark.parametrize("path", ["occupied/x.db", "/proc/nowhere/x.db", "/proc/x.db"])
def test_a_folder_that_cannot_be_written_is_one_line(process: Process, tmp_path: Path, path: str):
    (tmp_path / "occupied").write_text("a file where the folder should be")

    line = only_line(process(*NO_AUTH, "--db", f"sqlite:///{path}"))

    assert path.rpartition("/")[0] in line


def test_a_newer_schema_is_one_line_and_untouched(process: Process, tmp_path: Path):
    db = tmp_path / "newer.db"
    assert process("migrate", "up", "--db", f"sqlite:///{db}").code == 0
    with sqlite3.connect(db) as conn:
        conn.execute("UPDATE hooklane_schema SET version = 999")

    line = only_line(process(*NO_AUTH, "--db", f"sqlite:///{db}"))

    assert "newer than this hooklane" in line
    with sqlite3.connect(db) as conn:
        assert conn.execute("SELECT max(version) FROM hooklane_schema").fetchone() == (999,)


@pytest.mark.parametrize(
    "content", [b"this is not a database, it is a text " * 100, b"SQLite format 3\x00" + b"\xff" * 8192]
)
def test_a_damaged_database_is_one_line_and_untouched(process: Process, tmp_path: Path, content: bytes):
    db = tmp_path / "damaged.db"
    db.write_bytes(content)
    db.chmod(0o600)  # or a second line would say that other users could read it

    line = only_line(process(*NO_AUTH, "--db", f"sqlite:///{db}"))

    assert "damaged.db" in line
    assert db.read_bytes() == content


def test_all_wrong_settings_are_told_at_once(process: Process, tmp_path: Path):
    (tmp_path / "hooklane.toml").write_text('port = "ninety"\ncolour = "red"\n')
    ended = process("serve", "--role", "api,cook", env={"HOOKLANE_DB": "mysql://x", "HOOKLANE_API_KEY": "short"})

    assert (ended.code, ended.out) == (1, "")
    assert sorted(line.split()[2] for line in ended.talk) == ["api_key", "db", "hooklane.toml", "port", "role"]
    assert "short" not in ended.err


def test_a_missing_extra_is_named_with_the_command_that_installs_it(process: Process, tmp_path: Path):
    for name in ("uvicorn", "typer"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text(f"raise ImportError('No module named {name}', name='{name}')\n")
        path = os.pathsep.join([str(tmp_path / name), SOURCE])

        line = only_line(process(*NO_AUTH, env={"PYTHONPATH": path}))

        assert "pip install 'hooklane[server]'" in line


def test_a_server_cannot_be_an_inbox_alone(process: Process):
    assert "hooklane inbox worker" in only_line(process(*NO_AUTH, "--role", "inbox"))


def test_a_server_that_is_to_be_an_inbox_too_says_that_it_is_not(start_hooklane: Callable[..., Child]):
    child = start_hooklane(*NO_AUTH, "--role", "api,deliver,inbox")
    child.wait_for_line(r"serving api, deliver on ")

    assert "cannot run the role inbox" in child.output()
    assert child.stop() == 0


def test_an_unknown_back_end_is_one_line(process: Process):
    line = only_line(process(*NO_AUTH, "--db", "mysql://x"))

    assert "sqlite:///path/to/file.db or postgresql://host/name" in line


def test_a_second_deliver_role_on_one_sqlite_file_is_refused(
    process: Process, start_hooklane: Callable[..., Child], tmp_path: Path
):
    db = f"sqlite:///{tmp_path}/one.db"
    first = start_hooklane("serve", "--no-auth", "--port", "0", "--db", db)
    url = first.wait_for_line(r"on (http://\S+),")[1]
    first.wait_for_http(f"{url}/readyz", status=200)

    (tmp_path / "linked.db").symlink_to(tmp_path / "one.db")
    lines = [only_line(process(*NO_AUTH, "--db", one)) for one in (db, f"sqlite:///{tmp_path}/linked.db")]

    assert ["another process already delivers" in line for line in lines] == [True, True]
    assert http_status(f"{url}/readyz") == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_orderly_when_told_to(start_hooklane: Callable[..., Child], tmp_path: Path, number: signal.Signals):
    db = f"sqlite:///{tmp_path}/x.db"
    child = start_hooklane("serve", "--no-auth", "--port", "0", "--db", db, born=subprocess.Popen)  # from nothing
    url = child.wait_for_line(r"on (http://\S+),")[1]
    child.wait_for_http(f"{url}/healthz", status=200)

    assert child.stop(number) == 0
    assert "Traceback" not in child.output()


def test_what_is_in_flight_is_finished_before_it_ends(
    start_hooklane: Callable[..., Child], tmp_path: Path, process: Process
):
    db = f"sqlite:///{tmp_path}/x.db"
    with Sink(lambda _: Answer(after_s=0.5)) as sink:
        child = start_hooklane("serve", "--no-auth", "--port", "0", "--db", db, "--egress-allow", "127.0.0.0/8")
        url = child.wait_for_line(r"on (http://\S+),")[1]
        child.wait_for_http(f"{url}/readyz", status=200)
        assert process("endpoints", "add", sink.url(), "--server", url).code == 0
        sent = process("send", "a", "1", "--key", "k", "--server", url, "--json").json
        sink.wait_for(1)
        assert child.stop() == 0

    event = process("events", "show", sent["id"], "--db", db, "--json").json
    assert event["deliveries"][0]["state"] == "delivered"
    assert len(sink.requests) == 1


def test_the_key_may_come_from_a_file(start_hooklane: Callable[..., Child], tmp_path: Path, process: Process):
    (tmp_path / "key").write_text("from-the-file-0123\n")
    port = free_port()
    child = start_hooklane("serve", "--port", str(port), env={"HOOKLANE_API_KEY_FILE": str(tmp_path / "key")})
    child.wait_for_http(f"http://127.0.0.1:{port}/healthz", status=200)
    server = ("--server", f"http://127.0.0.1:{port}")

    assert process("lanes", "ls", *server, env={"HOOKLANE_API_KEY": "from-the-file-0123"}).code == 0
    refused = process("lanes", "ls", *server, env={"HOOKLANE_API_KEY": "something-else-entirely"})
    assert (refused.code, refused.out) == (4, "")
    assert "from-the-file-0123" not in child.output()


def test_a_server_that_is_not_there_is_exit_5(process: Process):
    line = only_line(process("lanes", "ls", "--server", "http://127.0.0.1:9"), code=5)

    assert "cannot reach http://127.0.0.1:9" in line


def test_output_into_a_closed_pipe_is_no_traceback(tmp_path: Path):
    command = f"{sys.executable} -m hooklane config show --origin | head -1 >/dev/null"
    ended = subprocess.run(
        ["bash", "-c", command], capture_output=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": SOURCE}
    )

    assert b"Traceback" not in ended.stderr


def test_talk_that_nobody_can_read_changes_nothing_of_what_a_command_does(tmp_path: Path):
    def ended(line: str) -> tuple[int, str]:
        command = f"{sys.executable} -m hooklane {line}"
        env = {**os.environ, "PYTHONPATH": SOURCE, "HOOKLANE_DB": "sqlite:///h.db"}
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, cwd=tmp_path, env=env, text=True)
        return done.returncode, done.stdout

    assert ended("migrate up")[0] == 0
    code, sent = ended("send a.b 1 --id evt_mine -v 2>/dev/full")
    assert (code, sent.split()[0]) == (0, "evt_mine")
    assert ended("events export -v 2>/dev/full")[0] == 0
    assert ended("events show nobody 2>/dev/full")[0] == 3
    assert ended("events show nobody 2>&1 | true; exit ${PIPESTATUS[0]}")[0] == 3


@pytest.mark.parametrize("exists", [False, True], ids=["a new file", "a file in use"])
def test_a_server_waits_for_a_transaction_that_holds_its_file_and_then_delivers(tmp_path: Path, exists: bool):
    db = tmp_path / "held.db"
    if exists:
        assert run(["migrate", "up", "--db", f"sqlite:///{db}"]) == 0
    holder = held(db)
    port = free_port()
    with Child(serving(db, port), log=tmp_path / "log", cwd=tmp_path, env={"PYTHONPATH": SOURCE}) as child:
        until(lambda: "tried again for up to 30 s" in child.output(), what="a line that says what it waits for")
        holder.close()
        until(lambda: http_status(f"http://127.0.0.1:{port}/readyz") == 200, what="a server that delivers")


@pytest.mark.parametrize("exists", [False, True], ids=["a new file", "a file in use"])
def test_a_server_whose_file_is_held_for_too_long_ends_with_a_line(tmp_path: Path, exists: bool):
    db = tmp_path / "held.db"
    if exists:
        assert run(["migrate", "up", "--db", f"sqlite:///{db}"]) == 0
    holder = held(db)
    with Child(serving(db, 0, wait_ms=0), log=tmp_path / "log", cwd=tmp_path, env={"PYTHONPATH": SOURCE}) as child:
        assert child.wait(within_s=60) == 1, child.output()
    holder.close()

    assert "hooklane: HL023 a transaction elsewhere that is still open holds the database" in child.output()
    assert "Traceback" not in child.output()


def held(db: Path) -> sqlite3.Connection:
    conn = sqlite3.connect(db, isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("BEGIN IMMEDIATE")
    return conn


def serving(db: Path, port: int, wait_ms: int = 30_000) -> list[str]:
    """`hooklane serve`, with another bound of its wait, and looks at the file that are shorter than five seconds."""
    argv = ["serve", "--no-auth", "--port", str(port), "--db", f"sqlite:///{db}"]
    return [
        sys.executable,
        "-c",
        f"import hooklane.sender.relay as relay; relay.BEGIN_WAIT_MS = {wait_ms}\n"
        "import functools, hooklane.cli.process as process\n"
        "process.StoreOptions = functools.partial(process.StoreOptions, busy_wait_ms=500)\n"
        f"from hooklane.cli.main import run; raise SystemExit(run({argv!r}))",
    ]
