"""What is missing or is somebody else is told in one line, never as a traceback."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
import pytest
from tests.processes.cli.conftest import Ended
from tests.support.pace import scaled_s
from tests.support.postgres import Postgres
from tests.support.processes import Child, free_port
from tests.support.proxy import Clear, FaultProxy, Refuse
from tests.support.tree import SOURCE

Process = Callable[..., Ended]
Cli = Callable[..., Ended]

# In place of an environment without the packages: they cannot be imported.
WITHOUT = """
import sys
names = sys.argv[1].split(",")
class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nowhere())
from hooklane.cli.main import run
sys.exit(run(sys.argv[2:]))
"""
POSTGRES = ("asyncpg", "psycopg", "psycopg2", "sqlalchemy")
SERVER = ("uvicorn", "starlette", "httptools", "uvloop", "prometheus_client")


@pytest.fixture
def without(tmp_path: Path) -> Callable[..., Ended]:
    """Runs a command in an environment in which packages are missing."""

    def call(packages: tuple[str, ...], *arguments: str) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-c", WITHOUT, ",".join(packages), *arguments],
            capture_output=True,
            timeout=scaled_s(60),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    return call


@pytest.mark.parametrize(
    "command",
    [
        ("lanes", "ls", "--db", "postgresql://127.0.0.1:1/x"),
        ("migrate", "status", "--db", "postgresql://127.0.0.1:1/x"),
        ("migrate", "up", "--db", "postgresql://127.0.0.1:1/x"),
        ("serve", "--no-auth", "--port", "0", "--db", "postgresql://127.0.0.1:1/x"),
        ("inbox", "stats", "--store", "postgresql://127.0.0.1:1/x"),
    ],
    ids=" ".join,
)
def test_a_database_whose_driver_is_missing_names_the_extra(without: Callable[..., Ended], command: tuple[str, ...]):
    ended = without(POSTGRES, *command)

    assert ended.code == 1
    assert ended.talk[-1].endswith("is not installed: run  pip install 'hooklane[postgres]'")
    assert len(ended.talk) == 1


@pytest.mark.parametrize("command", [("lanes", "ls"), ("endpoints", "add", "https://x.example/"), ("migrate", "up")])
def test_a_command_on_a_database_without_the_server_names_the_extra(
    without: Callable[..., Ended], tmp_path: Path, command: tuple[str, ...]
):
    (tmp_path / "a.db").touch()
    ended = without(SERVER, *command, "--db", f"sqlite:///{tmp_path}/a.db")

    assert ended.code == 1
    assert ended.talk[-1].endswith("is not installed: run  pip install 'hooklane[server]'")
    assert len(ended.talk) == 1


@pytest.mark.parametrize("label", ["a..b", "x" * 64 + ".example"], ids=["empty", "long"])
@pytest.mark.parametrize(
    "command",
    [
        "events ls --server http://{}:1",
        "reconcile --receiver sqlite:///x.db --sender http://{}:1",
        "send a.b 1 --times 1 --secret whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --to http://{}/in",
        "listen --port 0 --forward-to http://{}/in",
        "dev --no-open --port 0 --forward-to http://{}/in",
        "simulate lost-ack --events 1 --secret whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --target http://{}/in",
        "endpoints add http://{}/in",
    ],
)
def test_a_host_that_no_name_server_can_be_asked_for_is_one_line(cli: Cli, db: Path, command: str, label: str):
    assert cli("migrate", "up").code == 0
    ended = cli(*command.format(label).split())

    assert ended.code in (1, 2)
    assert len([line for line in ended.talk if line.startswith("hooklane: HL")]) == 1


@pytest.mark.parametrize("command", ["migrate status", "migrate up", "events ls", "doctor --quick"])
def test_a_folder_in_place_of_a_database_is_one_line(cli: Cli, tmp_path: Path, command: str):
    ended = cli(*command.split(), "--db", f"sqlite:///{tmp_path}")

    assert ended.code == 1
    assert str(tmp_path) in ended.talk[-1]


@pytest.mark.parametrize("command", ["inbox ls", "inbox prune", "inbox skip --note x 1", "doctor --quick"])
def test_a_mistyped_inbox_is_told_and_not_made(cli: Cli, db: Path, tmp_path: Path, command: str):
    assert cli("migrate", "up").code == 0
    ended = cli(*command.split(), "--store", f"sqlite:///{tmp_path}/typo.db")

    assert ended.code == 1
    assert "there is no database" in ended.talk[-1]
    assert not (tmp_path / "typo.db").exists()


@pytest.mark.parametrize(
    ("where", "text", "why"),
    [
        ("./shop.py:inbox", "", "is a path: write MODULE:INBOX"),
        ("../shop:inbox", "", "is a path: write MODULE:INBOX"),
        (".shop:inbox", "", "is a path: write MODULE:INBOX"),
        ("shop_wrong:inbox", "def inbox(:", "SyntaxError: "),
        ("shop_failing:inbox", "1 / 0", "ZeroDivisionError: division by zero"),
        ("shop_typed:inbox", "len(7)", "TypeError: "),
    ],
)
@pytest.mark.parametrize("command", [("inbox", "worker"), ("doctor", "--quick", "--inbox")], ids=" ".join)
def test_an_inbox_that_cannot_be_imported_is_told_in_one_line(
    cli: Cli, db: Path, tmp_path: Path, command: tuple[str, ...], where: str, text: str, why: str
):
    assert cli("migrate", "up").code == 0
    (tmp_path / f"{where.partition(':')[0].strip('./')}.py").write_text(text)
    ended = cli(*command, where)

    assert (ended.code, len(ended.talk)) == (2, 1)
    assert f"{where} " in ended.talk[0]
    assert why in ended.talk[0]


def test_the_traceback_of_an_inbox_that_cannot_be_imported_is_there_for_who_asks(cli: Cli, tmp_path: Path):
    (tmp_path / "shop_asked.py").write_text("1 / 0")
    ended = cli("inbox", "worker", "shop_asked:inbox", "-v")

    assert ended.code == 2
    assert any("shop_asked.py" in line and "line 1" in line for line in ended.err.splitlines())


OTHERS = {
    "page": (200, "text/html", b"<!doctype html><title>Welcome</title>"),
    "not found": (404, "text/html", b"<h1>Not Found</h1>"),
    "fastapi": (404, "application/json", b'{"detail":"Not Found"}'),
    "other object": (200, "application/json", b'{"hello":"world"}'),
    "list": (200, "application/json", b"[1,2]"),
    "text": (200, "application/json", b'"hello"'),
    "number": (200, "application/json", b"7"),
    "nothing": (200, "application/json", b""),
    "null": (200, "application/json", b"null"),
    "odd items": (200, "application/json", b'{"items":[{}],"next":null}'),
    "binary": (200, "application/octet-stream", bytes(range(256))),
    "failing": (500, "text/plain", b"\xff\xfe"),
    "redirect": (302, "text/html", b""),
}


@pytest.fixture
def other_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Some other HTTP server, which answers everything in its own way."""
    status, media, body = request.param

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            self.send_header("content-type", media)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


COMMANDS = [
    ("lanes", "ls"),
    ("lanes", "why", "k"),
    ("endpoints", "ls"),
    ("endpoints", "add", "https://x.example/"),
    ("endpoints", "test", "ep_1"),
    ("endpoints", "show", "name"),
    ("events", "ls"),
    ("events", "show", "evt_1"),
    ("dlq", "ls"),
    ("dlq", "replay", "dlv_1", "--yes"),
    ("send", "a", "{}"),
    ("audit", "ls"),
    ("doctor",),
]


@pytest.mark.parametrize("other_server", OTHERS.values(), ids=OTHERS.keys(), indirect=True)
def test_a_server_that_is_not_hooklane_is_told_in_one_line(cli: Cli, other_server: str):
    for command in COMMANDS:
        ended = cli(*command, "--server", other_server)

        assert ended.code == 5, (command, ended)
        assert len(ended.talk) == 1, (command, ended)


@pytest.mark.parametrize("other_server", [OTHERS["page"]], ids=["environment"], indirect=True)
def test_the_environment_may_name_a_wrong_server_too(cli: Cli, other_server: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOOKLANE_SERVER", other_server)
    ended = cli("lanes", "ls", "--json")

    assert (ended.code, ended.out) == (5, "")
    assert json.dumps(ended.talk)


def test_a_database_that_goes_away_under_a_server_is_told_in_single_lines(
    start_hooklane: Callable[..., Child], postgres_server: Postgres, postgres_url: str
):
    with FaultProxy(postgres_server.port) as proxy:
        url = postgres_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
        port = free_port()
        child = start_hooklane("serve", "--no-auth", "--db", url, "--port", str(port))
        child.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200)
        proxy.fault = Refuse()
        proxy.reset_all()
        child.wait_for_line(r"asyncpg\.pool: .+: .+")  # tells why, and is the one that came with a traceback
        proxy.fault = Clear()
        child.wait_for_http(f"http://127.0.0.1:{port}/readyz", status=200)

        assert child.stop() == 0
    assert "Traceback" not in child.output()


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "--no-auth", "--port", "0", "--db", "postgresql://[::1"),
        ("inbox", "ls", "--store", "postgresql://[::1"),
        ("inbox", "ls", "--store", "redis://[::1"),
        ("inbox", "ls", "--store", "dynamodb://[table"),
    ],
)
def test_an_address_of_a_database_that_cannot_be_read_is_told_in_one_line(cli: Cli, command: tuple[str, ...]):
    ended = cli(*command)

    assert (ended.code, len(ended.talk)) == (1, 1), ended
    assert "\\x0a" not in ended.talk[0]


@pytest.mark.parametrize("words", ["--version", "--help", "version --json", "config show", "config show --json"])
@pytest.mark.parametrize(("to", "code"), [("> /dev/full", 1), (">&-", 0), (">&- 2>&- <&-", 0)])
def test_output_that_goes_nowhere_is_no_traceback(tmp_path: Path, words: str, to: str, code: int):
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m hooklane {words} {to}"],
        capture_output=True,
        timeout=scaled_s(60),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )

    assert ended.returncode == code, ended
    assert ended.stderr.decode().splitlines() == (
        ["hooklane: HL001 what was to be printed cannot be written: No space left on device"] if code else []
    )


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("1</dev/null", "Bad file descriptor"),
        ("1>file", "File too large"),
        ("1>/dev/full", "No space left on device"),
    ],
    ids=["open for reading", "a bound on files", "a full disk"],
)
@pytest.mark.parametrize("words", ["version", "config show --json"])
def test_output_that_cannot_be_written_is_one_line_whatever_the_reason(
    tmp_path: Path, words: str, how: str, why: str
) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -f 0; exec {sys.executable} -m hooklane {words} {how}"],
        capture_output=True,
        timeout=scaled_s(60),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"},
    )

    assert ended.returncode == 1
    assert ended.stderr.decode().splitlines() == [f"hooklane: HL001 what was to be printed cannot be written: {why}"]


def test_stdin_that_cannot_be_read_is_one_line(tmp_path: Path, cli: Cli, db: Path):
    assert cli("migrate", "up").code == 0
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m hooklane send a.b - 0>{tmp_path}/out"],
        stderr=subprocess.PIPE,
        timeout=scaled_s(60),
        env={**os.environ, "PYTHONPATH": SOURCE},
    )

    assert ended.returncode == 2
    assert ended.stderr.decode().splitlines() == ["hooklane: HL002 cannot read stdin: Bad file descriptor"]


def test_json_is_whole_where_the_terminals_encoding_lacks_a_letter(process: Process, db: Path):
    key = "k\u00fc\U0001f600"
    assert process("migrate", "up", "--db", f"sqlite:///{db}").code == 0
    assert process("send", "a.b", "1", "--key", key).code == 0
    ended = process("events", "ls", "--json", env={"PYTHONIOENCODING": "ascii"}, born=subprocess.Popen)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out.isascii()
    assert [one["key"] for one in json.loads(ended.out)["items"]] == [key]


def test_an_empty_argument_behind_the_last_option_is_told_as_one(cli: Cli):
    ended = cli("events", "show", "--", "")

    assert ended.code == 2
    assert "an argument is empty" in ended.err


NO_TEXT = "order:\udcff"  # how Python hands over a byte that is not UTF-8


@pytest.mark.parametrize(
    "command",
    [
        ("send", "a.b", "1", "--key", NO_TEXT),
        ("send", NO_TEXT),
        ("events", "show", NO_TEXT),
        ("lanes", "why", NO_TEXT),
        ("endpoints", "add", f"http://127.0.0.1/{NO_TEXT}"),
        ("tenants", "add", NO_TEXT),
        ("dlq", "ls", "--filter", f"key:{NO_TEXT}"),
    ],
    ids=lambda command: command[0],
)
def test_an_argument_that_is_no_text_is_told_as_one(cli: Cli, db: Path, command: tuple[str, ...]):
    ended = cli(*command)

    assert (ended.code, ended.out) == (2, "")
    assert "\\udcff is not text" in ended.talk[0]


def test_a_database_that_holds_nothing_of_ours_is_told_and_stays_as_it_is(cli: Cli, empty_postgres_url: str):
    """A mistyped name must not look like an empty sender, and nothing is made there by a look."""
    asked = [("events", "ls"), ("send", "a.b"), ("lanes", "ls"), ("dlq", "ls"), ("audit", "verify")]
    ended = [cli(*command, "--db", empty_postgres_url) for command in asked]

    assert {(one.code, one.out) for one in ended} == {(1, "")}
    assert all("has no tables of hooklane: check the name" in one.talk[0] for one in ended)
    with psycopg.connect(empty_postgres_url) as connection:
        assert connection.execute("SELECT to_regnamespace('hooklane')").fetchone() == (None,)
