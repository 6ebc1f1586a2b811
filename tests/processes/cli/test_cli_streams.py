"""Commands that go on: `listen` receives, `tail` follows, `events export` goes through all there is."""

import json
import os
import re
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.processes.cli.conftest import Ended
from tests.support.pace import scaled_s
from tests.support.processes import Child, until
from tests.support.receiver import Answer, Sink
from tests.support.tree import SOURCE

from hooklane.core.signing import new_secret

Cli = Callable[..., Ended]
Start = Callable[..., Child]
SECRET = new_secret(bytes(range(32)))
ENV = {"PYTHONPATH": SOURCE, "HOOKLANE_SECRET": SECRET}


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def listening(start: Start, *words: str, secret: str | None = SECRET) -> tuple[Child, str]:
    env = {} if secret is None else {"HOOKLANE_SECRET": secret}
    child = start("listen", "--port", "0", *words, env=env)
    return child, child.wait_for_line(r"Listen on +(http://\S+)/ ")[1]


def copies(cli: Cli, to: str, *words: str) -> list[dict[str, Any]]:
    ended = cli("send", "order.paid", "{}", "--key", "order:1", "--to", to, *words, "--secret", SECRET, "--json")
    return list(ended.json["copies"])


def test_listen_applies_an_event_once_shows_it_and_records_it(cli: Cli, start_hooklane: Start, tmp_path: Path):
    child, url = listening(start_hooklane, "--record", "got.ndjson")

    said = [one["said"] for one in copies(cli, f"{url}/any/path", "--times", "2")]

    assert said == ["applied", "duplicate"]
    child.wait_for_line(r"✓ order\.paid +order:1 #1 +200 +\d+ ms +applied")
    child.wait_for_line(r"✓ order\.paid +order:1 #1 +200 +\d+ ms +duplicate, try 2")
    assert child.stop() == 0
    record = tmp_path / "got.ndjson"
    first, second = (json.loads(line) for line in record.read_text().splitlines())
    assert (first["v"], first["said"], first["seq"], first["path"]) == (1, "applied", 1, "/any/path")
    assert json.loads(second["body"])["type"] == "order.paid"
    assert stat.S_IMODE(record.stat().st_mode) == 0o600


def test_listen_refuses_what_is_signed_with_another_secret_and_says_so(cli: Cli, start_hooklane: Start):
    child, url = listening(start_hooklane, secret=new_secret(bytes(32)))

    [one] = copies(cli, url, "--times", "1")

    assert one["status"] == 401
    child.wait_for_line(r"✕ order\.paid +order:1 #1 +401 .*signature: mismatch")


def test_listen_answers_a_length_that_no_number_holds(start_hooklane: Start):
    child, url = listening(start_hooklane)
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=scaled_s(10)) as one:
        one.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: " + b"9" * 5_000 + b"\r\n\r\n")
        answer = one.recv(100)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert child.stop() == 0
    assert "Traceback" not in child.output()


def test_listen_passes_requests_on_and_answers_back(cli: Cli, start_hooklane: Start, sink: Sink):
    sink.react = lambda _: Answer(status=202, headers={"hooklane-outcome": "stored"}, body=b"{}")
    child, url = listening(start_hooklane, "--forward-to", sink.url("/hooks"))

    [one] = copies(cli, url, "--times", "1")

    assert (one["status"], one["said"]) == (202, "stored")
    [request] = sink.wait_for(1)
    assert (request.path, request.headers["x-key"], request.headers["x-seq"]) == ("/hooks", "order:1", "1")
    assert "webhook-signature" in request.headers
    child.wait_for_line(r"✓ order\.paid +order:1 #1 +202 ")


def test_listen_loses_answers_on_purpose_after_the_work_is_done(cli: Cli, start_hooklane: Start, sink: Sink):
    child, url = listening(start_hooklane, "--forward-to", sink.url(), "--fault", "drop-ack=1")

    ended = cli("send", "order.paid", "{}", "--to", url, "--times", "1", "--secret", SECRET)

    assert (ended.code, "1 without an answer" in ended.out) == (1, True)
    assert len(sink.wait_for(1)) == 1
    child.wait_for_line(r"\? order\.paid .*no answer .*answer dropped on purpose")


def test_listen_shows_only_what_was_asked_for_as_json(cli: Cli, start_hooklane: Start):
    child, url = listening(start_hooklane, "--types", "order.*", "--keys", "order:1", "--json", secret=None)
    for type_, key in (("user.added", "order:1"), ("order.paid", "order:2"), ("order.paid", "order:1")):
        words = ("--key", key, "--to", url, "--times", "1", "--secret", SECRET)
        assert cli("send", type_, "{}", *words).code == 0

    child.wait_for_line(r'"type":"order.paid"')
    assert child.stop() == 0
    shown = [json.loads(line) for line in child.output().splitlines() if line.startswith("{")]
    assert [(one["type"], one["key"]) for one in shown if "type" in one] == [("order.paid", "order:1")]
    assert "not verified" in child.output()


def test_listen_answers_and_ends_when_nobody_reads_any_more_what_it_shows(cli: Cli, tmp_path: Path):
    command = f"({sys.executable} -m hooklane listen --port 0 2>listen.err; echo ended with $? >ended)"
    line = f"{command} | (head -1; exec <&-; echo left >left)"
    with Child(["bash", "-c", line], log=tmp_path / "log", cwd=tmp_path, env=ENV):
        told = until(lambda: re.search(r"Listen on +(http://\S+)/ ", read(tmp_path / "listen.err")), what="its address")
        url = told[1]
        [first] = copies(cli, url, "--times", "1")
        until(lambda: read(tmp_path / "left"), what="the end of its reader")
        [second] = copies(cli, url, "--times", "1")
        until(lambda: read(tmp_path / "ended"), what="its end")

    assert [first["said"], second["said"]] == ["applied", "applied"]
    assert read(tmp_path / "ended") == "ended with 0\n"


def test_listen_answers_and_ends_with_a_line_when_its_record_cannot_be_written(cli: Cli, start_hooklane: Start):
    child, url = listening(start_hooklane, "--record", "/dev/full")

    [one] = copies(cli, url, "--times", "1")

    assert one["said"] == "applied"
    assert child.wait() == 1
    assert "cannot write /dev/full: No space left on device" in child.output()
    assert "Traceback" not in child.output()


def test_listen_shows_a_key_that_has_more_in_it_than_letters(cli: Cli, start_hooklane: Start):
    child, url = listening(start_hooklane, "--keys", "user[7]?", "--json")
    for key in ("user[7]?", "user7x"):
        assert cli("send", "a", "{}", "--key", key, "--to", url, "--times", "1", "--secret", SECRET).code == 0

    child.wait_for_line(r'"key":"user')
    assert child.stop() == 0
    shown = [json.loads(line) for line in child.output().splitlines() if line.startswith("{")]
    assert [one["key"] for one in shown if "key" in one] == ["user[7]?"]


@pytest.mark.parametrize("fault", ["drop-ack=2", "explode=1", "delay=forever", "drop-ack=.6,error=.6"])
def test_a_fault_that_is_none_is_a_usage_error(cli: Cli, fault: str):
    assert cli("listen", "--port", "0", "--fault", fault).code == 2


@pytest.fixture
def endpoint(cli: Cli, server: str, sink: Sink) -> str:
    made = cli("endpoints", "add", sink.url(), "--name", "shop", "--attempts-max", "2", "--backoff-ms", "20", "--json")
    return str(made.json["id"])


NAMES = "id event endpoint key seq attempt attempts_max started_at took_ms outcome status failure said next_at"


def test_tail_prints_one_attempt_a_line_in_the_shape_of_the_api(
    cli: Cli, endpoint: str, start_hooklane: Start, server: str, sink: Sink
):
    env = {"HOOKLANE_SERVER": server, "HOOKLANE_API_KEY": os.environ["HOOKLANE_API_KEY"]}
    child = start_hooklane("tail", "--json", "--endpoint", "shop", "--state", "retry,dead", env=env)
    child.wait_for_line("following")
    cli("send", "order.created", "{}", "--key", "order:1", "--wait")
    sink.react = lambda _: Answer(status=422)
    event = cli("send", "order.paid", "{}", "--key", "order:1", "--json").json["id"]

    child.wait_for_line('"outcome":"dead"')
    lines = [json.loads(line) for line in child.output().splitlines() if line.startswith("{")]
    assert [(one["event"], one["attempt"], one["outcome"]) for one in lines] == [
        (event, 1, "retry"),
        (event, 2, "dead"),
    ]
    assert all(one["v"] == 1 and set(NAMES.split()) <= set(one) for one in lines)
    logged = cli("events", "show", event, "--json").json["attempts"]
    assert [one["id"] for one in lines] == [one["id"] for one in logged]


def test_tail_begins_in_the_past_and_ends_when_told(cli: Cli, endpoint: str, start_hooklane: Start, server: str):
    cli("send", "order.created", "{}", "--key", "order:1", "--wait")
    cli("send", "order.paid", "{}", "--key", "order:2", "--wait")

    env = {"HOOKLANE_SERVER": server, "HOOKLANE_API_KEY": os.environ["HOOKLANE_API_KEY"]}
    words = ("tail", "--quiet", "--since", "-5m", "--for", str(scaled_s(2)))
    wanted = ((), ("--key", "order:2", "--json"), ("--lanes", "--json"))
    tails = [start_hooklane(*words, *more, env=env) for more in wanted]
    assert [tail.wait(within_s=60) for tail in tails] == [0, 0, 0]
    both, one, lanes = (tail.output() for tail in tails)

    assert [line.split()[2] for line in both.splitlines()] == ["order.created", "order.paid"]
    assert json.loads(one)["key"] == "order:2"
    assert {json.loads(line)["key"] for line in lanes.splitlines()} == {"order:1", "order:2"}


@pytest.mark.parametrize("key", ["user[7]", "a?", "*"])
def test_tail_of_one_key_is_of_that_very_key(cli: Cli, endpoint: str, key: str):
    for one in (key, "user7", "ab"):
        assert cli("send", "order.created", "{}", "--key", one, "--wait").code == 0

    ended = cli("tail", "--since", "-5m", "--for", str(scaled_s(1)), "--key", key, "--json")

    assert [json.loads(line)["key"] for line in ended.out.splitlines()] == [key]


def test_tail_works_on_a_database_without_a_server(cli: Cli, endpoint: str, server: str, tmp_path: Path):
    cli("send", "order.created", "{}", "--key", "order:1", "--wait")
    ended = cli(
        "tail", "--db", f"sqlite:///{tmp_path}/served.db", "--since", "-5m", "--for", str(scaled_s(1)), "--json"
    )

    assert [json.loads(line)["outcome"] for line in ended.out.splitlines()] == ["delivered"]


def test_an_export_goes_on_where_it_stopped(cli: Cli, db: Path, tmp_path: Path):
    cli("endpoints", "add", "http://127.0.0.1:9/")
    sent = [cli("send", "a", json.dumps({"n": n}), "--key", "k", "--json").json["id"] for n in range(5)]

    first = cli("events", "export", "--limit", "2")
    cursor = first.talk[-1].rpartition(" ")[2]
    rest = cli("events", "export", "--cursor", cursor)
    kept = [cli("events", "export", "--limit", "3", "--resume", "place").out for _ in range(2)]

    lines = [json.loads(line) for line in (first.out + rest.out).splitlines()]
    assert [one["id"] for one in lines] == sent[::-1]
    assert [one["data"]["n"] for one in lines] == [4, 3, 2, 1, 0]
    assert all(one["v"] == 1 and one["deliveries"] for one in lines)
    assert [json.loads(line)["id"] for line in "".join(kept).splitlines()] == sent[::-1]
    assert cli("events", "export", "--type", "other").out == ""
    assert (tmp_path / "place").read_text() == ""
    assert cli("events", "export", "--resume", str(tmp_path)).code == 2


def test_an_export_whose_place_cannot_be_kept_still_has_the_place_before(cli: Cli, db: Path, tmp_path: Path):
    cli("migrate", "up")
    for n in range(3):
        cli("send", "a", json.dumps({"n": n}), "--key", "k")
    assert cli("events", "export", "--limit", "1", "--resume", "place").code == 0
    before = read(tmp_path / "place")
    (tmp_path / "place.new").symlink_to("/dev/full")

    ended = cli("events", "export", "--limit", "1", "--resume", "place")

    assert (ended.code, "cannot write place" in ended.err) == (1, True)
    assert read(tmp_path / "place") == before != ""


def test_a_dry_run_names_the_migrations_and_runs_none(cli: Cli, db: Path):
    dry = cli("migrate", "up", "--dry-run", "--json").json
    words = cli("migrate", "up", "--dry-run")

    assert (dry["found"], dry["state"], len(dry["pending"])) == (0, "behind", dry["wanted"])
    assert "would run 0001_start: The sender's tables." in words.out
    assert not db.exists()
    assert cli("migrate", "up").code == 0
    assert cli("migrate", "up", "--dry-run", "--json").json["pending"] == []
