"""The contract that every command keeps: the same options, and the same exit code for the same failure."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.processes.cli.conftest import SOURCE, Ended
from tests.support.pace import scaled_s
from tests.support.processes import Child, free_port, until
from tests.support.receiver import Answer, Sink

from hooklane.cli.lazy import leaves, load
from hooklane.cli.main import COMMANDS, app

Cli = Callable[..., Ended]
GIVEN = {
    "event": "evt_nobody",
    "events": "evt_nobody",
    "letter": "dlv_nobody",
    "letters": "dlv_nobody",
    "endpoint": "ep_nobody",
    "key": "nobody",
    "id": "key_nobody",
    "text": "a note",
    "url": "https://hooks.example.com/",
    "type_": "order.paid",
    "name": "ci",
    "key_id": "key_none",
}
"""What an argument is given: of ids those that nobody has."""
REQUIRED = {
    "--note": "x",
    "--scope": "read",
    "--store": "sqlite:///nowhere.db",
    "--from": "sqlite:///nowhere.db",
    "--to": "postgresql://127.0.0.1:1/nowhere",
}
"""What an option is given that must be there."""
RUNS = {"dev", "serve", "listen", "inbox worker"}
"""Commands that run until they are told to stop."""


def commands() -> dict[str, Any]:
    """Every command that does something, by its words."""
    found = {}
    for name, about in COMMANDS.items():
        for leaf in leaves(load(name, about)):
            found[name if leaf.name == name else f"{name} {leaf.name}"] = leaf
    return found


EVERY = commands()


def options(name: str) -> set[str]:
    return {option for param in EVERY[name].params for option in param.opts}


def with_arguments(name: str) -> list[str]:
    """The words of a command with everything that it must be given."""
    words = name.split()
    for param in EVERY[name].params:
        if param.param_type_name == "argument" and (param.required or param.name in ("events", "letters")):
            words.append(GIVEN.get(param.name, "nobody"))
        elif param.required:
            words += [param.opts[0], REQUIRED[param.opts[0]]]
    words += ["--yes"] if "--yes" in options(name) else []
    return words + (["--note", "x"] if "--note" in options(name) and "--note" not in words else [])


REMOTE = [name for name in EVERY if "--server" in options(name)]
DIRECT = [name for name in EVERY if "--db" in options(name) and name not in RUNS]
BY_ID = [
    name
    for name in REMOTE
    if name not in ("send", "endpoints add", "keys add", "types set")
    and any(
        param.param_type_name == "argument" and (param.name in GIVEN or name.endswith(" rm"))
        for param in EVERY[name].params
    )
]


@pytest.mark.parametrize("name", EVERY)
def test_every_command_has_the_common_options_and_says_what_it_does(name: str):
    assert {"--json", "--quiet", "-q", "--verbose", "-v"} <= options(name)
    assert EVERY[name].help


def test_the_commands_of_the_design_are_there():
    assert {"dev", "serve", "listen", "send", "tail", "verify", "bench", "doctor"} <= set(EVERY)
    assert {"completion", "version"} <= set(EVERY)
    assert {f"events {one}" for one in ("ls", "show", "why", "replay", "export")} <= set(EVERY)
    assert {f"dlq {one}" for one in ("ls", "show", "note", "replay", "skip", "export")} <= set(EVERY)
    assert {f"lanes {one}" for one in ("ls", "show", "why")} <= set(EVERY)
    verbs = ("ls", "add", "show", "pause", "resume", "rotate", "test", "probe", "rm")
    assert {f"endpoints {one}" for one in verbs} <= set(EVERY)
    assert {f"inbox {one}" for one in ("ls", "show", "stats", "replay", "prune", "worker")} <= set(EVERY)
    assert {"migrate status", "migrate up", "audit ls", "audit verify", "config show"} <= set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_an_unknown_option_is_exit_2(cli: Cli, name: str):
    ended = cli(*name.split(), "--no-such-option")

    assert (ended.code, ended.out) == (2, "")
    assert "--no-such-option" in ended.err


def test_a_server_that_is_not_there_is_exit_5_in_every_command(cli: Cli):
    nowhere = f"http://127.0.0.1:{free_port()}"
    for name in REMOTE:
        ended = cli(*with_arguments(name), "--server", nowhere)

        assert ended.code == 5, (name, ended)
        assert len(ended.talk) == 1, (name, ended)


def test_a_database_that_is_not_there_is_exit_5_in_every_command(cli: Cli):
    nowhere = f"postgresql://127.0.0.1:{free_port()}/x"
    for name in DIRECT:
        ended = cli(*with_arguments(name), "--db", nowhere)

        assert ended.code == 5, (name, ended)
        assert len(ended.talk) == 1, (name, ended)


def test_an_unknown_id_is_exit_3_in_every_command(cli: Cli, db: Path):
    assert cli("migrate", "up").code == 0
    assert len(BY_ID) >= 15
    for name in BY_ID:
        ended = cli(*with_arguments(name))

        assert (ended.code, ended.out) == (3, ""), (name, ended)


@pytest.mark.parametrize("name", [name for name in REMOTE if "--filter" in options(name)])
def test_a_filter_that_is_not_understood_is_exit_2_and_names_the_words(cli: Cli, db: Path, name: str):
    cli("migrate", "up")
    ended = cli(*name.split(), "--filter", "colour:red")

    assert (ended.code, ended.out) == (2, "")
    assert "--filter knows" in ended.err


def test_server_and_database_at_once_is_exit_2_in_every_command(cli: Cli):
    for name in REMOTE:
        if name not in ("doctor",):
            assert cli(*with_arguments(name), "--server", "http://x", "--db", "sqlite:///x.db").code == 2, name


@pytest.fixture(scope="module")
def blocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real server with an endpoint `shop` and a dead letter, for all tests of this module that change nothing."""
    folder = tmp_path_factory.mktemp("served")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = ["serve", "--no-auth", "--port", str(port), "--db", f"sqlite:///{folder}/h.db"]
    env = {"PYTHONPATH": SOURCE, "HOOKLANE_EGRESS_ALLOW": "127.0.0.0/8"}
    with (
        Sink(lambda _: Answer(status=422, body=b"unknown sku")) as sink,
        Child([sys.executable, "-m", "hooklane", *words], log=folder / "log", env=env, cwd=folder) as child,
    ):
        child.wait_for_http(f"{url}/readyz", status=200)

        def call(*arguments: str) -> Any:
            done = subprocess.run(
                [sys.executable, "-m", "hooklane", *arguments, "--server", url, "--json"],
                capture_output=True,
                env={**os.environ, **env},
                cwd=folder,
                timeout=scaled_s(60),
            )
            assert done.returncode in (0, 1), done
            return json.loads(done.stdout)

        call("endpoints", "add", sink.url(), "--name", "shop", "--attempts-max", "1")
        sent = call("send", "order.paid", "{}", "--key", "order:1017")
        letters = until(lambda: call("dlq", "ls")["items"], what="a dead letter")
        yield {"url": url, "letter": letters[0]["id"], "event": sent["id"]}


def test_what_is_dangerous_names_the_flag_where_nobody_can_be_asked(cli: Cli, blocked: dict[str, str]):
    dangerous = {
        "endpoints rm": ("shop",),
        "dlq replay": ("--all",),
        "dlq skip": (blocked["letter"], "--note", "x"),
        "events replay": (blocked["event"],),
        "keys rm": ("key_none",),
        "types rm": ("order.paid",),
    }
    assert set(dangerous) <= {name for name in REMOTE if "--yes" in options(name)}
    for name, words in dangerous.items():
        ended = cli(*name.split(), *words, "--server", blocked["url"])

        assert (ended.code, ended.out) == (2, ""), (name, ended)
        assert "--yes" in ended.talk[-1], (name, ended)
    assert cli("dlq", "ls", "--server", blocked["url"], "--json").json["items"]


@pytest.mark.parametrize(
    ("command", "filter_", "option"),
    [
        ("dlq replay --yes", "endpoint:billing", "--endpoint shop"),
        ("dlq skip --yes --note x", "endpoint:billing", "--endpoint shop"),
        ("events replay --yes", "endpoint:billing", "--endpoint shop"),
        ("dlq ls", "endpoint:billing", "--endpoint shop"),
        ("dlq export", "endpoint:billing", "--endpoint shop"),
        ("events ls", "key:a", "--key b"),
        ("lanes ls", "state:idle", "--state blocked"),
        ("lanes ls", "key:a", "--search b"),
        ("inbox ls --store sqlite:///nowhere.db", "event:a", "--event-id b"),
    ],
)
def test_a_filter_and_an_option_that_say_the_same_thing_are_exit_2(
    cli: Cli, db: Path, command: str, filter_: str, option: str
):
    ended = cli(*command.split(), "--filter", filter_, *option.split())

    assert (ended.code, ended.out) == (2, "")
    assert "say the same thing" in ended.talk[-1]


def test_every_list_is_one_object_with_a_version(cli: Cli, blocked: dict[str, str]):
    for name in ("events ls", "lanes ls", "dlq ls", "endpoints ls", "audit ls"):
        value = cli(*name.split(), "--server", blocked["url"], "--json").json

        assert (value["v"], value["next"]) == (1, None)
        assert value["items"], name


def test_quiet_leaves_data_and_errors_and_verbose_tells_the_calls(cli: Cli, blocked: dict[str, str]):
    at = ("--server", blocked["url"])
    quiet = cli("dlq", "skip", blocked["letter"], "--note", "x", "-q", *at)
    export = cli("events", "export", "-q", *at)
    verbose = cli("lanes", "ls", "-v", *at)

    assert [line.startswith("hooklane: ") for line in quiet.talk] == [True]
    assert (export.err, len(export.out.splitlines())) == ("", 1)
    assert "GET /api/v1/lanes" in verbose.err
    assert "GET" not in verbose.out


def test_a_filter_means_the_same_in_lists(cli: Cli, blocked: dict[str, str]):
    at = ("--server", blocked["url"], "--json")
    words = "endpoint:shop http:4xx after:-2h"

    assert len(cli("dlq", "ls", "--filter", words, *at).json["items"]) == 1
    assert cli("dlq", "ls", "--filter", "http:5xx", *at).json["items"] == []
    assert len(cli("dlq", "export", "--filter", words, *at).out.splitlines()) == 1
    assert cli("dlq", "export", "--filter", "http:5xx", *at).out == ""
    assert cli("dlq", "ls", "--filter", "before:-2h", *at).json["items"] == []
    assert len(cli("events", "ls", "--filter", "endpoint:shop after:-2h state:dead", *at).json["items"]) == 1
    assert cli("events", "ls", "--filter", "type:order.created", *at).json["items"] == []
    assert len(cli("lanes", "ls", "--filter", "state:blocked key:1017", *at).json["items"]) == 1
    assert len(cli("endpoints", "ls", "--filter", "name:sh*", *at).json["items"]) == 1
    assert cli("audit", "ls", "--filter", "action:endpoint.deleted", *at).json["items"] == []


def test_the_shell_completes_real_ids_keys_and_endpoints(process: Callable[..., Ended], blocked: dict[str, str]):
    def completed(line: str, **env: str) -> list[str]:
        words = line.split(" ")
        asked = {"_HOOKLANE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        ended = process(env={"HOOKLANE_SERVER": blocked["url"], **asked, **env}, within_s=scaled_s(30))
        assert "Traceback" not in ended.err
        return ended.out.split()

    assert completed("hooklane end") == ["endpoints"]
    assert completed("hooklane endpoints show sh") == ["shop"]
    assert completed("hooklane lanes why order") == ["order:1017"]
    assert completed("hooklane events why evt_") == [blocked["event"]]
    assert completed("hooklane dlq skip dlv_") == [blocked["letter"]]
    assert completed("hooklane endpoints show sh", HOOKLANE_SERVER=f"http://127.0.0.1:{free_port()}") == []


LIGHT = """
import contextlib, io, json, sys
from hooklane.cli.main import COMMANDS, run
started = len(sys.modules)
with contextlib.redirect_stdout(io.StringIO()) as told:
    assert run(sys.argv[1].split()) == 0
assert "Usage: hooklane" in told.getvalue() or "help" not in sys.argv[1]
json.dump(sorted(sys.modules), sys.stdout)
"""
HEAVY = ("pydantic", "rich", "cryptography", "starlette", "uvicorn", "asyncpg", "sqlite3")
PARTS = ("hooklane.server", "hooklane.receiver", "hooklane.sender", "hooklane.store", "hooklane.core")


def loaded_by(words: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", LIGHT, words],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
        timeout=scaled_s(60),
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return list(json.loads(ended.stdout))


@pytest.mark.parametrize("words", ["--version", "--help"])
def test_help_and_version_load_no_command(words: str):
    modules = loaded_by(words)

    assert len(modules) < 200, len(modules)
    assert [name for name in modules if name.startswith(("hooklane.cli.", "hooklane.config"))] == [
        f"hooklane.cli.{name}" for name in ("complete", "exits", "lazy", "main", "options", "output")
    ]


def test_no_command_needs_more_than_itself_to_show_its_help():
    """All at once: the help of every command loads neither a server, nor a store, nor a library that takes long."""
    script = LIGHT.replace("run(sys.argv[1].split()) == 0", "all(run([name, '--help']) == 0 for name in COMMANDS)")
    ended = subprocess.run(
        [sys.executable, "-c", script, "--help"],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
        timeout=scaled_s(60),
    )
    assert ended.returncode == 0, ended.stderr.decode()
    modules = json.loads(ended.stdout)

    assert [name for name in modules if name.split(".")[0] in HEAVY or name.startswith(PARTS)] == []


@pytest.mark.parametrize("words", ["version", "config show", "config show --json"])
def test_a_command_whose_values_are_text_loads_no_library_that_validates(words: str):
    modules = loaded_by(words)

    assert [name for name in modules if name.split(".")[0] in ("pydantic", "pydantic_core")] == []


def test_a_value_that_is_not_text_is_read_and_checked(cli: Cli):
    ended = cli("events", "ls", "--limit", "201")

    assert ended.code == 2
    assert "Invalid value for '--limit'" in ended.err


SERVER = "import hooklane.cli.serve, hooklane.cli.process"
WRITER = "from hooklane.store.sqlite.outbox.writer_works import works_for"


@pytest.mark.parametrize(
    ("imports", "absent"),
    [
        (SERVER, ("hooklane.receiver.inbox", "hooklane.receiver.source", "hooklane.core.verify.open_request")),
        (SERVER, ("hooklane.store.sqlite.outbox", "hooklane.store.postgres", "asyncpg")),
        (SERVER, ("cryptography", "jsonschema_rs", "hooklane.core.verify.scheme", "hooklane.core.profiles")),
        (WRITER, ("hooklane.store.sqlite.outbox.store", "hooklane.server", "hooklane.sender", "cryptography")),
    ],
    ids=[
        "no receiver",
        "no store before it is named",
        "no library that few endpoints or types need",
        "a writer has only what it writes with",
    ],
)
def test_a_server_loads_what_it_runs_and_is_ready_sooner(imports: str, absent: tuple[str, ...]):
    ended = subprocess.run(
        [sys.executable, "-c", f"{imports}; import sys; print(*sorted(sys.modules))"],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
        timeout=scaled_s(60),
    )
    assert ended.returncode == 0, ended.stderr.decode()

    loaded = ended.stdout.decode().split()
    assert [name for name in loaded for one in absent if name == one or name.startswith(f"{one}.")] == []


def test_the_table_of_commands_tells_what_their_own_help_tells():
    alone = {name: about for name, about in COMMANDS.items() if name in EVERY}

    assert {name: str(EVERY[name].help).splitlines()[0] for name in alone} == alone


def test_a_mistyped_command_is_told_what_was_meant(cli: Cli):
    ended = cli("lanez", "ls")

    assert (ended.code, "Did you mean 'lanes'?" in ended.err) == (2, True)


def test_the_root_is_a_group_of_lazy_commands():
    root: Any = typer.main.get_command(app)

    assert root.list_commands(None) == list(COMMANDS)
    assert root.commands == {}
