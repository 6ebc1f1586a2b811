"""A command that could do harm asks first, and one that names nothing does nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.processes.cli.conftest import Ended

from hooklane import Inbox
from hooklane.cli import output
from hooklane.model.message import Request
from hooklane.model.size import counted

Cli = Callable[..., Ended]
EMPTY = [
    ("endpoints", "pause", ""),
    ("endpoints", "resume", " "),
    ("endpoints", "show", ""),
    ("endpoints", "rotate", ""),
    ("endpoints", "test", ""),
    ("endpoints", "rm", "", "--yes"),
    ("events", "show", ""),
    ("events", "why", ""),
    ("events", "replay", "", "--yes", "--note", "x"),
    ("lanes", "show", ""),
    ("lanes", "why", "k", "--endpoint", ""),
    ("dlq", "replay", "", "--yes"),
    ("dlq", "skip", "", "--yes", "--note", "x"),
    ("dlq", "export", "--endpoint="),
    ("inbox", "replay", "--store", "sqlite:///x.db", "--source", "", "--yes"),
    ("inbox", "skip", "--store", "sqlite:///x.db", "--status=", "--note", "x", "--yes"),
]


@pytest.mark.parametrize("command", EMPTY, ids=" ".join)
def test_an_empty_name_is_refused_and_nothing_is_done(cli: Cli, db: Path, command: tuple[str, ...]):
    made = cli("endpoints", "add", "http://127.0.0.1:1/", "--json").json
    ended = cli(*command)

    assert ended.code == 2
    assert "is empty" in ended.talk[0]
    assert cli("endpoints", "show", made["id"], "--json").json["state"] == "active"


def test_a_note_may_be_empty(cli: Cli, db: Path):
    cli("endpoints", "add", "http://127.0.0.1:1/")

    assert cli("dlq", "skip", "dlv_01K9", "--note", "", "--yes").code != 2


@pytest.mark.parametrize("backlog", [(), ("--backlog", "drain"), ("--backlog", "cancel")])
def test_deleting_an_endpoint_asks_first(cli: Cli, db: Path, monkeypatch: pytest.MonkeyPatch, backlog: tuple[str, ...]):
    made = cli("endpoints", "add", "http://127.0.0.1:1/", "--json").json["id"]
    nobody = cli("endpoints", "rm", made, *backlog)
    asked = []
    monkeypatch.setattr(output, "is_interactive", lambda: True)
    monkeypatch.setattr(output.typer, "confirm", lambda question, **_: asked.append(question))

    assert (nobody.code, nobody.talk) == (
        2,
        ["hooklane: HL002 this has to be confirmed, and there is no terminal to ask at: add --yes"],
    )
    assert cli("endpoints", "show", made).code == 0
    assert cli("endpoints", "rm", made, *backlog).code == 0
    assert made in asked[0]


def test_deleting_an_endpoint_with_yes_does_not_ask(cli: Cli, db: Path):
    made = cli("endpoints", "add", "http://127.0.0.1:1/", "--json").json["id"]

    assert cli("endpoints", "rm", made, "--yes").code == 0


@pytest.fixture
def store(tmp_path: Path) -> str:
    """An inbox with one event that was handled and one that was not."""
    url = f"sqlite:///{tmp_path}/inbox.db"
    inbox = Inbox(url)
    source = inbox.source("hooklane", unsafe=True)

    @source.on("*")
    def handle(event, tx) -> None:  # type: ignore[no-untyped-def]
        pass

    for number in (1, 2):
        head = [("webhook-id", f"evt_{number}"), ("webhook-timestamp", "1"), ("content-type", "application/json")]
        body = b'{"id": "evt_%d", "type": "a", "data": {}}' % number
        assert inbox.receive(Request.of("POST", "/hooklane", head, body)).status == 200
        if number == 1:
            assert inbox.run_once() == 1
    inbox.close()
    return url


def test_replaying_what_was_handled_asks_first(cli: Cli, store: str):
    handled, owed = [row["id"] for row in cli("inbox", "ls", "--store", store, "--json").json["items"]]

    refused = cli("inbox", "replay", str(handled), str(owed), "--store", store)
    assert (refused.code, refused.talk) == (
        2,
        ["hooklane: HL002 this has to be confirmed, and there is no terminal to ask at: add --yes"],
    )
    assert cli("inbox", "show", str(handled), "--store", store, "--json").json["status"] == "completed"
    assert cli("inbox", "replay", str(handled), "--store", store, "--yes", "--json").json["replayed"] == 1
    assert cli("inbox", "show", str(handled), "--store", store, "--json").json["status"] == "pending"


def test_migrating_names_a_database_or_finds_one(cli: Cli, tmp_path: Path):
    nowhere = cli("migrate", "up")

    assert nowhere.code == 1
    assert "name the one to migrate with --db or HOOKLANE_DB" in nowhere.talk[0]
    assert list(tmp_path.iterdir()) == []
    assert cli("migrate", "up", "--db", f"sqlite:///{tmp_path}/.hooklane/hooklane.db").code == 0
    assert cli("migrate", "up").code == 0


@pytest.mark.parametrize(("many", "text"), [(0, "0 events"), (1, "1 event"), (2, "2 events"), (1_200, "1,200 events")])
def test_a_number_goes_with_the_form_of_its_noun(many: int, text: str):
    assert counted(many, "event") == text
    assert counted(many, "delivery", "deliveries").endswith("delivery" if many == 1 else "deliveries")
