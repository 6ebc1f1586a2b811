"""Commands on a database without a server: the same calls, the contract of stdout, stderr and exit codes."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.processes.cli.conftest import Ended

Cli = Callable[..., Ended]
URL = "http://127.0.0.1:9/hook"


@pytest.fixture
def endpoint(cli: Cli, db: Path) -> dict[str, Any]:
    return dict(cli("endpoints", "add", URL, "--name", "shop", "--json").json)


def test_an_endpoint_is_added_listed_and_shown(cli: Cli, endpoint: dict[str, Any]):
    listed = cli("endpoints", "ls")
    shown = cli("endpoints", "show", "shop", "--json")

    assert endpoint["v"] == 1
    assert endpoint["secret"].startswith("whsec_")
    assert listed.out.splitlines()[0].split() == ["ID", "NAME", "STATE", "ORDER", "TYPES", "URL"]
    assert endpoint["id"] in listed.out
    assert shown.json["ledger"]["accepted"] == 0
    assert endpoint["secret"] not in listed.out + shown.out


def test_options_of_an_endpoint_are_passed_on(cli: Cli, db: Path):
    options = "--order global --attempts-max 3 --backoff-ms 10 --payload raw --on-dead skip --rate-limit 2.5"
    made = cli(
        "endpoints", "add", URL, "--types", "order.*,a.b", "--header", "X-Token: t", *options.split(), "--json"
    ).json

    assert (made["types"], made["order"], made["payload"]) == (["order.*", "a.b"], "global", "raw")
    assert (made["attempts_max"], made["backoff_ms"], made["rate_limit"], made["on_dead"]) == (3, 10, 2.5, "skip")
    assert made["headers"] == {"X-Token": "***"}


def test_a_refused_endpoint_is_one_line_and_exit_1(cli: Cli, db: Path):
    ended = cli("endpoints", "add", "http://10.0.0.1/")

    assert (ended.code, ended.out, len(ended.talk)) == (1, "", 1)
    assert "not allowed" in ended.err


def test_an_event_is_sent_and_its_lane_shown(cli: Cli, endpoint: dict[str, Any]):
    sent = cli("send", "order.created", '{"id": 1}', "--key", "order:1", "--json").json
    lanes = cli("lanes", "ls", "--json").json["items"]
    shown = cli("lanes", "show", "order:1")
    why = cli("lanes", "why", "order:1")
    event = cli("events", "show", sent["id"], "--json").json
    listed = cli("events", "ls", "--type", "order.created")

    assert sent["lanes"] == [{"endpoint": endpoint["id"], "seq": 1}]
    assert [(lane["key"], lane["state"]) for lane in lanes] == [("order:1", "active")]
    assert "order:1" in shown.out
    assert why.out == "#1 of order:1 is next to be delivered.\n"
    assert event["data"] == {"id": 1}
    assert sent["id"] in listed.out


def test_data_comes_from_a_file_or_from_stdin(cli: Cli, db: Path, monkeypatch: pytest.MonkeyPatch):
    Path("event.json").write_text('{"from": "file"}')

    class Stdin:
        buffer = io.BytesIO(b'{"from": "stdin"}')

    cli("endpoints", "add", URL)
    from_file = cli("send", "a", "@event.json", "--json").json
    monkeypatch.setattr("sys.stdin", Stdin())
    from_stdin = cli("send", "a", "-", "--json").json

    assert cli("events", "show", from_file["id"], "--json").json["data"] == {"from": "file"}
    assert cli("events", "show", from_stdin["id"], "--json").json["data"] == {"from": "stdin"}
    missing = cli("send", "a", "@nowhere.json")
    assert (missing.code, missing.talk) == (
        2,
        ["hooklane: HL002 cannot read nowhere.json: No such file or directory"],
    )


def test_data_that_is_no_json_is_refused(cli: Cli, endpoint: Any):
    ended = cli("send", "a", "{nope")

    assert (ended.code, len(ended.talk)) == (1, 1)
    assert "not JSON" in ended.err


def test_pause_resume_and_rotate(cli: Cli, endpoint: dict[str, Any]):
    assert cli("endpoints", "pause", "shop").out == f"{endpoint['id']}  paused\n"
    assert cli("endpoints", "resume", "shop", "--json").json["state"] == "active"
    rotated = cli("endpoints", "rotate", "shop", "--overlap-s", "60", "--json").json
    assert rotated["secret"] != endpoint["secret"]
    assert len(rotated["secrets"]) == 2


def test_a_test_that_nobody_answers_is_exit_1(cli: Cli, endpoint: Any):
    ended = cli("endpoints", "test", "shop")

    assert ended.code == 1
    assert ended.out.startswith("failed  connect")
    assert cli("endpoints", "probe", "shop", "--json").json["reachable"] is False


def test_removing_what_is_owed_needs_a_yes(cli: Cli, endpoint: dict[str, Any]):
    refused = cli("endpoints", "rm", "shop", "--backlog", "cancel")
    done = cli("endpoints", "rm", "shop", "--backlog", "cancel", "--yes")

    assert refused.code == 2
    assert "--yes" in refused.err
    assert (done.code, done.out) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ("endpoints", "show", "nobody"),
        ("endpoints", "show", "ep_nobody"),
        ("events", "show", "evt_nobody"),
        ("events", "why", "evt_nobody"),
        ("lanes", "show", "nobody"),
        ("dlq", "show", "dlv_nobody"),
        ("dlq", "replay", "dlv_nobody"),
    ],
)
def test_what_is_not_there_is_exit_3(cli: Cli, endpoint: Any, command: tuple[str, ...]):
    ended = cli(*command)

    assert (ended.code, ended.out) == (3, "")
    assert ended.talk


@pytest.mark.parametrize(
    "command",
    [
        ("nonsense",),
        ("endpoints", "add"),
        ("lanes", "ls", "--limit", "0"),
        ("dlq", "replay"),
        ("send",),
        ("dlq", "skip"),
        ("endpoints", "add", "https://a.example/", "--header", "nope"),
        ("lanes", "ls", "--server", "x", "--db", "y"),
    ],
)
def test_wrong_usage_is_exit_2(cli: Cli, endpoint: Any, command: tuple[str, ...]):
    ended = cli(*command)

    assert (ended.code, ended.out) == (2, "")


def test_a_mistyped_database_is_not_created(cli: Cli, db: Path):
    ended = cli("lanes", "ls")

    assert ended.code == 1
    assert ended.talk == [
        f"hooklane: HL029 there is no database sqlite:///{db}: check the path; `hooklane serve` creates one"
    ]
    assert not db.exists()


def test_what_is_not_dead_can_not_be_skipped(cli: Cli, endpoint: Any):
    sent = cli("send", "a", "1", "--key", "k", "--json").json
    ended = cli("dlq", "skip", sent["id"], "--note", "x", "--yes")

    assert (ended.code, ended.out) == (4, "")
    assert cli("dlq", "replay", "--all").talk[-1] == "hooklane: nothing matches, so there is nothing to replay"


def test_what_others_wrote_cannot_move_the_cursor(cli: Cli, endpoint: Any):
    cli("send", "a", "1", "--key", "order:\u202e1")

    out = cli("lanes", "ls").out
    assert "\u202e" not in out
    assert "order:\\x202e1" in out


def test_lists_are_json_with_a_version_and_a_cursor(cli: Cli, endpoint: Any):
    for number in range(3):
        cli("send", "a", str(number), "--key", f"k{number}")

    first = cli("events", "ls", "--limit", "2", "--json").json
    second = cli("events", "ls", "--limit", "2", "--cursor", first["next"], "--json").json

    assert (first["v"], len(first["items"]), len(second["items"]), second["next"]) == (1, 2, 1, None)


def test_nothing_dead_exports_nothing(cli: Cli, endpoint: Any):
    assert (cli("dlq", "export").out, cli("dlq", "ls", "--json").json["items"]) == ("", [])


def test_the_schema_is_told_and_brought_up(cli: Cli, db: Path):
    before = cli("migrate", "status", "--json")
    up = cli("migrate", "up", "--json")
    after = cli("migrate", "status")

    assert (before.code, before.json["found"], before.json["state"]) == (7, 0, "behind")
    assert (up.code, up.json["state"]) == (0, "up to date")
    assert (after.code, after.out.strip().endswith("up to date")) == (0, True)


def test_version_is_printed(cli: Cli):
    from hooklane import __version__

    assert cli("version").out == cli("--version").out == f"{__version__}\n"
    assert json.loads(cli("version", "--json").out) == {"v": 1, "version": __version__}


def test_the_schema_of_postgresql_is_told_and_brought_up(cli: Cli, empty_postgres_url: str):
    before = cli("migrate", "status", "--db", empty_postgres_url, "--json")
    up = cli("migrate", "up", "--db", empty_postgres_url)

    assert (before.code, before.json["found"]) == (7, 0)
    assert up.code == 0
    assert cli("migrate", "status", "--db", empty_postgres_url).code == 0


def test_commands_work_on_postgresql_directly(cli: Cli, postgres_url: str):
    direct = ("--db", postgres_url)
    assert cli("endpoints", "add", "https://hooks.example.com/", "--name", "shop", *direct).code == 0
    sent = cli("send", "a", "1", "--key", "k", *direct, "--json").json

    assert cli("events", "show", sent["id"], *direct, "--json").json["key"] == "k"
    assert [lane["key"] for lane in cli("lanes", "ls", *direct, "--json").json["items"]] == ["k"]


@pytest.mark.parametrize("number", ["inf", "nan", "1e400"])
def test_a_number_that_is_not_finite_is_refused_and_does_not_mean_that_there_is_no_bound(
    cli: Cli, db: Path, number: str
):
    endpoint = cli("endpoints", "add", URL, "--rate-limit", number)
    tenant = cli("tenants", "add", "acme", "--events-per-s", number)

    assert [(ended.code, "must be a number" in ended.talk[0]) for ended in (endpoint, tenant)] == [(2, True), (2, True)]
    assert not db.exists()  # what a command refuses by itself touches no database


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "0"])
def test_tail_is_told_for_how_long_by_a_number_of_seconds(cli: Cli, db: Path, seconds: str):
    ended = cli("tail", "--for", seconds)

    assert (ended.code, "--for" in ended.talk[-1]) == (2, True), ended
