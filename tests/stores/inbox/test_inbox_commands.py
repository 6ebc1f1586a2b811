"""`hooklane inbox …` on every store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.promises.receiving.kit import SECRET, own_source, signed
from tests.support.pace import scaled_s
from tests.support.processes import Child
from tests.support.tree import SOURCE

from hooklane.cli.main import run
from hooklane.errors import Reject
from hooklane.receiver import Inbox

Command = Callable[..., tuple[int, Any, str]]


@pytest.fixture(params=["sqlite", "postgres", "redis", "dynamodb"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('tmp_path') / 'inbox.db'}"
    names = {"postgres": "postgres_url", "redis": "redis_url", "dynamodb": "dynamodb_inbox_url"}
    found: str = request.getfixturevalue(names[request.param])
    return found


@pytest.fixture
def command(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `hooklane inbox … --store URL --json`; exit code, what it said, and what it talked."""
    monkeypatch.setenv("HOOKLANE_STORE", url)

    def run_it(*words: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = run(["inbox", *words, "--json"])
        told = capsys.readouterr()
        return code, json.loads(told.out) if told.out else None, told.err

    return run_it


@pytest.fixture
def inbox(url: str) -> Iterator[Inbox]:
    inbox = Inbox(url, "durable")

    @own_source(inbox, order="none").on("*", name="handler")
    def book(event: Any, tx: Any) -> None:
        if event.type == "order.bad":
            raise Reject("no such order")

    for number, type_ in enumerate(["order.created", "order.bad", "order.paid"]):
        inbox.receive(signed(f"evt_{number}", type=type_))
    inbox.run_once()
    inbox.receive(signed("evt_3"))
    yield inbox
    inbox.close()


def test_a_person_can_look_replay_skip_and_prune(inbox: Inbox, command: Command) -> None:
    code, stats, _ = command("stats")
    assert (code, stats["dead"]) == (0, 1)
    assert {(each["status"], each["rows"]) for each in stats["counts"]} == {
        ("completed", 2),
        ("dead", 1),
        ("pending", 1),
    }

    _, listed, _ = command("ls")
    assert [item["event_id"] for item in listed["items"]] == ["evt_0", "evt_1", "evt_2", "evt_3"]
    _, page, _ = command("ls", "--limit", "2")
    _, rest, _ = command("ls", "--after", page["next"])
    assert [item["event_id"] for item in page["items"] + rest["items"]] == ["evt_0", "evt_1", "evt_2", "evt_3"]

    _, dead, _ = command("ls", "--status", "dead")
    (letter,) = dead["items"]
    _, shown, _ = command("show", str(letter["id"]))
    assert (shown["event_id"], "no such order" in shown["handlers"][0]["error"]) == ("evt_1", True)
    assert (shown["payload"]["type"], shown["payload_encoding"]) == ("order.bad", "json")

    assert command("replay", str(letter["id"]))[:2] == (0, {"v": 1, "replayed": 1})
    inbox.run_once()
    assert command("replay", "--status", "completed")[0] == 2, "without --yes and without a terminal nothing is done"
    assert command("replay", "--status", "dead", "--yes")[1] == {"v": 1, "replayed": 1}
    inbox.run_once()
    assert command("skip", "--status", "dead", "--note", "known", "--yes")[1] == {"v": 1, "skipped": 1}
    assert command("stats")[1]["dead"] == 0
    assert command("prune")[1] == {"v": 1, "rows": 0, "payloads": 0, "tombstones": 0, "more": False}


def test_a_row_is_shown_to_a_person_with_its_payload_as_it_came(
    inbox: Inbox, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = inbox.rows(event_id="evt_1")
    capsys.readouterr()
    assert run(["inbox", "show", str(row.id), "--store", url]) == 0

    fields, _, traceback = capsys.readouterr().out.partition("\n\n")
    lines = dict(line.split(maxsplit=1) for line in fields.splitlines())
    assert (lines["status"], json.loads(lines["payload"])["type"]) == ("dead", "order.bad")
    told = traceback.splitlines()
    assert (told[0].endswith(", attempt 1:"), told[1]) == (True, "Traceback (most recent call last):")
    assert told[-1].endswith("no such order")
    assert [line for line in told if line.startswith('  File "') and "test_inbox_commands.py" in line]


def test_wrong_words_are_answered_with_what_was_expected(inbox: Inbox, command: Command) -> None:
    assert command("show", "nobody")[0] == 3
    code, _, told = command("ls", "--status", "lost")
    assert (code, "pending" in told) == (2, True)
    assert command("ls", "--since", "yesterday")[0] == 2
    assert command("replay")[0] == 2
    for words in (["ls", "--type", "order.*"], ["ls", "--filter", "type:order.*"], ["replay", "--type", "*", "--yes"]):
        code, told, talked = command(*words)
        assert (code, told) == (2, None), "an empty list would say that there is nothing"
        assert "exact" in talked
    for id in ("nobody", "4711"):
        assert command("replay", id)[0] == 3
        assert command("skip", id, "--note", "gone", "--yes")[0] == 3


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mistyped.db"
    assert run(["inbox", "stats", "--store", f"sqlite:///{path}"]) == 1
    assert "there is no database" in capsys.readouterr().err
    assert not path.exists()


def test_a_store_that_is_not_there_ends_with_one_clear_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hooklane", "inbox", "stats", "--store", "redis://127.0.0.1:1/0"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": SOURCE},
        timeout=scaled_s(60),
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (5, "", 1)


def test_a_worker_is_a_process_that_runs_the_handlers_of_an_application(
    redis_url: str, tmp_path: Path, start_hooklane: Callable[..., Child]
) -> None:
    (tmp_path / "shop.py").write_text(
        "import sys\nfrom hooklane import Inbox\n"
        f"inbox = Inbox({redis_url!r}, 'durable')\n"
        f"@inbox.source('hooklane', [{SECRET!r}], order='none').on('*')\n"
        "def book(event, tx):\n    print('booked', event.id, file=sys.stderr, flush=True)\n"
    )
    receiver = Inbox(redis_url, "durable")
    own_source(receiver, order="none").on("*", name="book")(lambda event, tx: None)
    child = start_hooklane("inbox", "worker", "shop:inbox", cwd=tmp_path)
    child.wait_for_line("working on shop:inbox")
    receiver.receive(signed("evt_7"))
    child.wait_for_line("booked evt_7")
    assert child.stop() == 0
    receiver.close()


def test_the_doctor_of_a_store_tells_what_would_make_it_forget(
    redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["inbox", "doctor", "--store", redis_url, "--json"])
    found = json.loads(capsys.readouterr().out)

    assert (code, found["healthy"]) == (7, False)
    assert "appendonly" in found["warnings"][0]
    assert "may lose at failover" in found["caveat"]


def test_a_table_is_created_from_the_command_line(dynamodb_inbox_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    url = dynamodb_inbox_url.replace("dynamodb://", "dynamodb://made-")
    codes = [run(["inbox", "create-table", "--store", url, "--json"]) for _ in range(2)]
    lines = capsys.readouterr().out.splitlines()

    assert codes == [0, 0]
    assert [json.loads(line)["created"] for line in lines] == [True, False]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "²"), 3),
        (("show", "9" * 25), 3),
        (("ls", "--since", "-999999d"), 2),
        (("ls", "--since", "0001-01-01T00:00:00+14:00"), 2),
        (("prune", "--days", "999999999999"), 2),
    ],
)
def test_an_argument_that_cannot_be_is_told_in_a_line(
    inbox: Inbox, command: Command, words: tuple[str, ...], code: int
) -> None:
    ended, _, said = command(*words)

    assert (ended, "Traceback" in said) == (code, False)


@pytest.mark.parametrize("text", ["²", "abc", "9" * 25])
def test_a_page_goes_on_from_a_number_where_rows_have_numbers(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Inbox(f"sqlite:///{tmp_path / 'inbox.db'}").close()
    monkeypatch.setenv("HOOKLANE_STORE", f"sqlite:///{tmp_path / 'inbox.db'}")

    assert run(["inbox", "ls", "--after", text]) == 2
